"""The CTAs of a cluster, side by side: each runs until it waits for the others."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from support.gpu_stage.distribution import collect, elements, owners
from support.gpu_stage.faults import DEADLOCK, RACE, Fault
from support.gpu_stage.mbarriers import Arrival
from support.gpu_stage.ordering import SIDES, Clocks
from support.gpu_stage.shadow import Array
from support.gpu_stage.shared import Buffer

from tilewright.backends.reference.interpreter import Exit, Running
from tilewright.ir.core import Block, Function, Op
from tilewright.ir.ops.control import Return
from tilewright.ir.ops.gpu.cluster import ClusterArrive, ClusterBarrier, ClusterSize, ClusterStore, ClusterWait
from tilewright.ir.ops.gpu.tma import ParameterMap

if TYPE_CHECKING:
    from support.gpu_stage.cta import CtaInterpreter

T = TypeVar("T")


@dataclass(frozen=True)
class Waiting:
    """What somebody yields who waits at ``op`` for others."""

    op: Op


@dataclass
class Cluster:
    """The CTAs, and which of them have come to a barrier of the cluster."""

    clocks: Clocks
    ctas: list[CtaInterpreter] = field(default_factory=list)
    came: set[int] = field(default_factory=set)
    meetings: int = 0
    reached: dict[CtaInterpreter, Op] = field(default_factory=dict)  # by others, since the last meeting
    gathered: Array | int = 0  # what those who came had done
    known: Array | int = 0  # what all had done who met

    def mate(self, cta: CtaInterpreter, op: Op) -> CtaInterpreter:
        """The other CTA, which ``op`` reaches, or this one where it is alone."""
        found = self.ctas[cta.rank ^ 1] if len(self.ctas) > 1 else cta
        if found is not cta:
            self.reached[found] = op
        return found

    def come(self, cta: CtaInterpreter, op: Op, known: Array) -> None:
        """``cta`` arrives at ``op``; what its threads had done is ``known``."""
        if cta.rank in self.came:
            raise Fault(DEADLOCK, op, "at which the CTA arrives twice")
        self.came.add(cta.rank)
        self.gathered = np.maximum(self.gathered, known)
        if len(self.came) == len(self.ctas):
            self.came.clear()
            self.meetings += 1
            self.known = self.gathered
            self.reached.clear()
            for each in self.ctas:
                each.mbarriers.publish(to_cluster=True)

    @property
    def changes(self) -> int:
        return self.meetings * len(self.ctas) + len(self.came) + sum(cta.mbarriers.changes for cta in self.ctas)


def cluster_of(function: Function, grid: tuple[int, int, int], ctas: int) -> int:
    """How many CTAs of ``function`` form a cluster in such a launch, where so many ``ctas`` run a block."""
    if function.ops_of(ClusterStore):
        return ctas
    pairs = grid[0] % 2 == 0 and any(isinstance(op, ParameterMap) and op.pairs for op in function.walk())
    return 2 if pairs else 1


def in_clusters(
    blocks: Iterable[tuple[T, Callable[[Cluster], CtaInterpreter]]], size: int
) -> Iterator[tuple[T, list[CtaInterpreter]]]:
    """Neighbours along the first axis, which ``blocks`` go along first, as the CTAs of clusters."""
    made = iter(blocks)
    while block := list(islice(made, size)):
        index, cluster = block[0][0], Cluster(Clocks(size))
        for rank, (_, make) in enumerate(block):
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
        ended = (cta for cta in ctas if cta.rank * len(SIDES) not in running)
        late = {cta: arrival.op for cta in ended for arrival in cta.mbarriers.arriving}
        for cta, op in (*cluster.reached.items(), *late.items()):
            if cta.rank * len(SIDES) not in running:
                raise Fault(RACE, op, "reaches memory of a CTA that may have ended")
        if stuck and changes == cluster.changes:
            raise Fault(DEADLOCK, stuck[0], f"which never ends, at {' and '.join(str(op.loc) for op in stuck)}")
        changes = cluster.changes
    return Exit(Return, [], [])


def run_barrier(cta: CtaInterpreter, op: ClusterBarrier, operands: list[Any]) -> Generator[Any, None, None]:
    """All threads of the CTA have come this far, and wait for those of the others."""
    cta.barrier()
    cta.cluster.clocks.join()
    _arrive(cta, op)
    yield from run_wait(cta, op, operands)
    cta.cluster.clocks.join()


def run_wait(cta: CtaInterpreter, op: ClusterBarrier | ClusterWait, operands: list[Any]) -> Generator[Any, None, None]:
    """Until all CTAs have arrived as often as this one."""
    cluster = cta.cluster
    while cta.rank in cluster.came:
        yield Waiting(op)
    cluster.clocks.acquire(cluster.known)


def _arrive(cta: CtaInterpreter, op: ClusterBarrier | ClusterArrive) -> None:
    cta.cluster.come(cta, op, cta.cluster.clocks.release())


def _store(cta: CtaInterpreter, op: ClusterStore, buffer: Buffer, value: Array, barrier: Buffer | None) -> None:
    layout, chosen = op.value.layout, owners(op.value.layout)
    collect(op, value, layout)
    if not cta.cluster.meetings:
        raise Fault(RACE, op, "reaches memory of a CTA that may not have begun")
    offsets = cta.rank * op.value.tile.size + elements(layout)
    threads = np.broadcast_to(np.arange(len(offsets))[:, None], offsets.shape)
    size, ctas = value.dtype.itemsize, cta.cluster.ctas
    places = buffer.offset + offsets[chosen][:, None] * size + np.arange(size)
    for target in ctas:
        if barrier is not None:
            target.shared.begin_arrival(op, places)
            continue
        own = threads[chosen] if target is cta else None
        target.shared.store(op, buffer, offsets[chosen], own, value[chosen])
        if target is not cta:
            cta.cluster.reached[target] = op
    known, raw = cta.cluster.clocks.release(), np.ascontiguousarray(value[chosen]).view(np.uint8).reshape(places.shape)
    for target in ctas if barrier is not None else ():
        arrival = Arrival(op, places, raw, buffer.allocation, known)
        target.mbarriers.at(op, barrier.offset, by_mate=True).arriving.append(arrival)
        target.mbarriers.changes += 1


RULES: dict[type[Op], Callable[..., Any]] = {
    ClusterSize: lambda cta, op: len(cta.cluster.ctas),
    ClusterArrive: _arrive,
    ClusterStore: _store,
}
