"""MMA ops of warp groups, which stay in flight until they are waited for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from support.gpu_stage.distribution import collect, distribute
from support.gpu_stage.faults import IN_FLIGHT, Fault
from support.gpu_stage.shadow import Array
from support.gpu_stage.shared import Buffer, byte_addresses

from tilewright.backends.reference.linear import PRODUCTS
from tilewright.ir.core import Op, Value
from tilewright.ir.layouts import LANES
from tilewright.ir.ops.gpu.memory import SharedAlloc
from tilewright.ir.ops.gpu.tensor_memory import Tcgen05Mma
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS, Wgmma, WgmmaWait
from tilewright.ir.ops.linear import Mma
from tilewright.ir.types import TileType

if TYPE_CHECKING:
    from support.gpu_stage.cta import CtaInterpreter


@dataclass(frozen=True)
class InFlight:
    """A sum that is not there yet: it is of the group of MMA ops number ``group``."""

    value: Array
    group: int


@dataclass
class MmaOps:
    """The groups of MMA ops of a CTA: how many there were, and the bytes that those in flight read, then those of
    tiles that threads wrote, and a left operand in registers."""

    issued: int = 0
    in_flight: list[tuple[int, Wgmma | Tcgen05Mma, Array, Sequence[Array], Any]] = field(default_factory=list)

    def is_done(self, group: int) -> bool:
        return all(number != group for number, *_ in self.in_flight)


def begin(cta: CtaInterpreter, op: Wgmma | Tcgen05Mma, tiles: Sequence[tuple[Value, Buffer]], x: Any = None) -> None:
    """``op`` is in flight, and reads the ``tiles`` in shared memory, and ``x`` in registers. What threads wrote they
    have to wait for."""
    addresses = [byte_addresses(op, buffer) for _, buffer in tiles]
    staged = [found for (value, _), found in zip(tiles, addresses) if isinstance(value.op, SharedAlloc)]
    for found in staged:
        _read_by_group(cta, op, found)
    read = np.concatenate([found.ravel() for found in addresses])
    cta.mmas.issued += 1
    cta.mmas.in_flight.append((cta.mmas.issued, op, read, staged, x))
    cta.shared.begin_reading(read)


def retire(cta: CtaInterpreter, pending: int, by: Op, held: Sequence[Any] = ()) -> None:
    """All but the ``pending`` latest groups are done: until now they were reading, registers ``held`` by ``by``."""
    mmas = cta.mmas
    while len(mmas.in_flight) > pending:
        _, op, addresses, staged, x = mmas.in_flight.pop(0)
        cta.shared.end_reading(addresses)
        cta.shared.ordering.read(op, addresses)
        groups = cta.threads // (LANES * GROUP_WARPS)
        if groups > 1:  # by each of them, which knows of its own: the last is another than that of the first thread
            last = np.full(len(addresses), (groups - 1) * LANES * GROUP_WARPS)
            cta.shared.shadow.read(op, addresses[:, None], last)
        for found in staged:
            _read_by_group(cta, op, found)
        if x is not None and all(x is not given for given in held):
            raise Fault(IN_FLIGHT, by, f"does not hold the registers that the MMA op at {op.loc} reads")


def finished(cta: CtaInterpreter, op: Op, value: Any) -> Any:
    """``value``, which is no sum in flight. Fault if it is."""
    if not isinstance(value, InFlight):
        return value
    if not cta.mmas.is_done(value.group):
        raise Fault(IN_FLIGHT, op, "uses a sum that is in flight")
    return value.value


def _read_by_group(cta: CtaInterpreter, op: Op, addresses: Array) -> None:
    """An MMA op reads what threads wrote: they have to wait for each other before, and before they write again."""
    cta.shared.shadow.read(op, addresses, np.zeros(len(addresses), np.int64))


def _wgmma(cta: CtaInterpreter, op: Wgmma, *operands: Any) -> Any:
    layout, tiles, types = op.acc.layout, [], []
    for value, held in zip((op.x, op.y), operands):
        if isinstance(held, Buffer):
            tiles.append(cta.shared.read_tile(op, held, byte_addresses(op, held)))
            types.append(TileType(held.type.dtype, held.type.shape))
            if value is op.y:
                tiles[-1] = tiles[-1][op.first : op.first + tiles[0].shape[1]]
                types[-1] = TileType(held.type.dtype, tiles[-1].shape)
        else:
            tiles.append(collect(op, finished(cta, op, held), value.layout))
            types.append(value.tile.with_layout(None))
    acc = operands[2].value if isinstance(operands[2], InFlight) else operands[2]  # accumulators are added to in order
    whole = PRODUCTS[Mma](op.attributes, [*tiles, collect(op, acc, layout)], [*types, op.acc.type])
    x = None if isinstance(operands[0], Buffer) else operands[0]
    begin(cta, op, [(v, held) for v, held in zip((op.x, op.y), operands) if isinstance(held, Buffer)], x)
    value, group = distribute(whole, layout), cta.mmas.issued
    if op.pending is not None:
        retire(cta, op.pending, op, [x])
    return value if cta.mmas.is_done(group) else InFlight(value, group)


def _wgmma_wait(
    cta: CtaInterpreter, op: WgmmaWait, accs: list[Any], held: list[Any], after: list[Any]
) -> tuple[Any, ...]:
    retire(cta, op.pending, op, held)
    return tuple(finished(cta, op, acc) for acc in accs)


RULES: dict[type[Op], Callable[..., Any]] = {Wgmma: _wgmma, WgmmaWait: _wgmma_wait}
