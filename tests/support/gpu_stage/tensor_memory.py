"""Accumulators in tensor memory, for all threads of a CTA."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from support.gpu_stage.distribution import collect, distribute
from support.gpu_stage.faults import DEADLOCK, IN_FLIGHT, OUT_OF_RANGE, UNINITIALIZED, Fault
from support.gpu_stage.mma_ops import begin, retire
from support.gpu_stage.shadow import Array
from support.gpu_stage.shared import Buffer, byte_addresses

from tilewright.backends.reference.linear import PRODUCTS
from tilewright.ir.core import Op
from tilewright.ir.layouts import LANES
from tilewright.ir.ops.gpu.tensor_memory import (
    COLUMNS,
    SLOTS,
    Tcgen05Mma,
    Tcgen05Wait,
    TensorAlloc,
    TensorFree,
    TensorLoad,
    TensorStore,
    columns_of,
)
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS, ROWS
from tilewright.ir.ops.linear import Mma
from tilewright.ir.types import TileType

if TYPE_CHECKING:
    from support.gpu_stage.cta import CtaInterpreter

_WARP_ROWS = ROWS // GROUP_WARPS


class TensorMemory:
    """The words of an SM's tensor memory, of which the first columns are ``allocated``."""

    def __init__(self) -> None:
        self.words = np.zeros((GROUP_WARPS * LANES, COLUMNS), np.uint32)
        self.written = np.zeros(self.words.shape, np.bool_)
        self.allocated = 0
        self.in_flight: dict[int, tuple[int, int]] = {}  # the columns that MMA ops write, by their numbers

    def place(self, cta: CtaInterpreter, op: Op, address: Any, shape: tuple[int, ...]) -> tuple[Array, Array]:
        """The lane and the column of each element of an accumulator; Fault where it is outside, or in flight."""
        first, end = int(address), int(address) + columns_of(shape)
        if not 0 <= first <= end <= self.allocated:
            raise Fault(OUT_OF_RANGE, op, f"of columns {first} to {end} of tensor memory, of {self.allocated}")
        flying = {number for number, *_ in cta.mmas.in_flight}
        self.in_flight = {n: where for n, where in self.in_flight.items() if n in flying}
        mma = isinstance(op, Tcgen05Mma)  # which follow each other
        for low, high in self.in_flight.values():
            if low < end and first < high and not mma:
                raise Fault(IN_FLIGHT, op, f"accesses columns {low} to {high}, to which an MMA op in flight adds")
        rows, columns = np.indices(shape)
        within = rows % ROWS
        return within // _WARP_ROWS * LANES + within % _WARP_ROWS, first + rows // ROWS * shape[1] + columns

    def load(self, op: Op, where: tuple[Array, Array], dtype: np.dtype[Any]) -> Array:
        if not self.written[where].all():
            raise Fault(UNINITIALIZED, op, "reads tensor memory where nothing was written")
        return self.words[where].view(dtype)

    def store(self, where: tuple[Array, Array], tile: Array) -> None:
        self.words[where] = np.ascontiguousarray(tile).view(np.uint32)
        self.written[where] = True


def _alloc(cta: CtaInterpreter, op: TensorAlloc, buffer: Buffer) -> Any:
    cta.barrier()
    cta.tensor_memory.allocated = op.columns
    return np.int32(0)


def _free(cta: CtaInterpreter, op: TensorFree, address: Any) -> None:
    if cta.mmas.in_flight:
        raise Fault(IN_FLIGHT, op, "frees tensor memory to which an MMA op adds")
    cta.barrier()
    cta.tensor_memory.allocated = 0
    cta.tensor_memory.written[:] = False


def _load(cta: CtaInterpreter, op: TensorLoad, address: Any) -> Any:
    memory, t = cta.tensor_memory, op.type
    tile = memory.load(op, memory.place(cta, op, address, t.shape), t.element.storage)
    cta.shared.shadow.advance_groups()
    assert t.layout is not None
    return distribute(tile, t.layout)


def _store(cta: CtaInterpreter, op: TensorStore, address: Any, value: Any) -> None:
    memory, t = cta.tensor_memory, op.value.tile
    assert t.layout is not None
    memory.store(memory.place(cta, op, address, t.shape), collect(op, value, t.layout))
    cta.shared.shadow.advance_groups()


def _mma(
    cta: CtaInterpreter, op: Tcgen05Mma, x: Buffer, y: Buffer, address: Any, barriers: Buffer, number: Any
) -> None:
    memory, shape = cta.tensor_memory, op.shape
    if int(number) != cta.mmas.issued:
        raise Fault(DEADLOCK, op, f"is number {int(number)}, after {cta.mmas.issued} others")
    cta.mbarriers.at(op, barriers.offset)
    where = memory.place(cta, op, address, shape)
    acc = memory.load(op, where, op.dtype.storage) if op.adds else np.zeros(shape, op.dtype.storage)
    tiles = [cta.shared.read_tile(op, b, byte_addresses(op, b)) for b in (x, y)]
    types = [TileType(b.type.dtype, b.type.shape) for b in (x, y)]
    memory.store(where, PRODUCTS[Mma]({}, [*tiles, acc], [*types, TileType(op.dtype, shape)]))
    begin(cta, op, [(op.x, x), (op.y, y)])
    memory.in_flight[cta.mmas.issued] = int(address), int(address) + columns_of(shape)


def _wait(cta: CtaInterpreter, op: Tcgen05Wait, barriers: Buffer, number: Any) -> None:
    cta.mbarriers.at(op, barriers.offset)
    if int(number) < cta.mmas.issued - SLOTS:
        raise Fault(DEADLOCK, op, f"of MMA op {int(number)}, which others have followed: {cta.mmas.issued} in all")
    retire(cta, cta.mmas.issued - 1 - int(number), op)


RULES: dict[type[Op], Callable[..., Any]] = {
    TensorAlloc: _alloc,
    TensorFree: _free,
    TensorLoad: _load,
    TensorStore: _store,
    Tcgen05Mma: _mma,
    Tcgen05Wait: _wait,
}
