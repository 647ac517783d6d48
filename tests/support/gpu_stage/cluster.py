"""The CTAs of a cluster, side by side: each runs until it waits for the other one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from support.gpu_stage.faults import DEADLOCK, RACE, Fault
from support.gpu_stage.ordering import SIDES, Clocks

from tilewright.backends.reference.interpreter import Exit, Running
from tilewright.ir.core import Block, Function, Op
from tilewright.ir.ops.control import Return
from tilewright.ir.ops.gpu.cluster import ClusterBarrier, ClusterSize
from tilewright.ir.ops.gpu.tma import ParameterMap

if TYPE_CHECKING:
    from support.gpu_stage.cta import CtaInterpreter

SIZE = 2
T = TypeVar("T")


@dataclass(frozen=True)
class Waiting:
    """What somebody yields who waits at ``op`` for others."""

    op: Op


@dataclass
class Cluster:
    """The CTAs, and how many of them have come to a barrier of the cluster."""

    clocks: Clocks
    ctas: list[CtaInterpreter] = field(default_factory=list)
    came: int = 0
    meetings: int = 0
    reached: dict[CtaInterpreter, Op] = field(default_factory=dict)  # by the mate, since the last meeting

    def mate(self, cta: CtaInterpreter, op: Op) -> CtaInterpreter:
        """The other CTA, which ``op`` reaches, or this one where it is alone."""
        found = self.ctas[cta.rank ^ 1] if len(self.ctas) == SIZE else cta
        if found is not cta:
            self.reached[found] = op
        return found

    @property
    def changes(self) -> int:
        return self.meetings + self.came + sum(cta.mbarriers.changes for cta in self.ctas)


def are_paired(function: Function, grid: tuple[int, int, int]) -> bool:
    """Whether CTAs of ``function`` form clusters in such a launch."""
    return grid[0] % SIZE == 0 and any(isinstance(op, ParameterMap) and op.pairs for op in function.walk())


def in_pairs(
    blocks: Iterable[tuple[T, Callable[[Cluster], CtaInterpreter]]],
) -> Iterator[tuple[T, list[CtaInterpreter]]]:
    """Neighbours along the first axis, which ``blocks`` go along first, as the CTAs of clusters."""
    made = iter(blocks)
    for index, first in made:
        _, second = next(made)
        cluster = Cluster(Clocks(SIZE))
        for rank, make in enumerate((first, second)):
            cta = make(cluster)
            cta.rank = rank
            cluster.ctas.append(cta)
        yield index, cluster.ctas


def take_turns(clocks: Clocks, running: dict[int, Running]) -> Generator[Any, None, list[Op]]:
    """One turn of all that run, by the number of their clock: each goes on until it waits, and who ended leaves.

    Gives what they wait at.
    """
    stuck: list[Op] = []
    for side, steps in list(running.items()):
        clocks.side = side
        try:
            while not isinstance(paused := next(steps), Waiting):
                yield paused
                clocks.side = side
            stuck.append(paused.op)
        except StopIteration:
            del running[side]
    return stuck


def run_cluster(ctas: list[CtaInterpreter], body: Block) -> Running:
    """All ``ctas`` of a cluster. Fault when all wait for what nobody does, or one reaches memory of an ended one."""
    cluster = ctas[0].cluster
    running = {cta.rank * len(SIDES): cta.run_all(body) for cta in ctas}
    changes = -1
    while running:
        stuck = yield from take_turns(cluster.clocks, running)
        for cta, op in cluster.reached.items():
            if cta.rank * len(SIDES) not in running:
                raise Fault(RACE, op, "reaches memory of a CTA that may have ended")
        if stuck and changes == cluster.changes:
            raise Fault(DEADLOCK, stuck[0], f"which never ends, at {' and '.join(str(op.loc) for op in stuck)}")
        changes = cluster.changes
    return Exit(Return, [], [])


def run_barrier(cta: CtaInterpreter, op: ClusterBarrier, operands: list[Any]) -> Generator[Any, None, None]:
    """All threads of the CTA have come this far, and wait for those of the other one."""
    cluster, meeting = cta.cluster, cta.cluster.meetings
    cta.barrier()
    cluster.came += 1
    if cluster.came == len(cluster.ctas):
        cluster.came = 0
        cluster.meetings += 1
        cluster.clocks.meet()
        cluster.reached.clear()
        for each in cluster.ctas:
            each.mbarriers.publish(to_cluster=True)
    while cluster.meetings == meeting:
        yield Waiting(op)


RULES: dict[type[Op], Callable[..., Any]] = {ClusterSize: lambda cta, op: len(cta.cluster.ctas)}
