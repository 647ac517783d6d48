"""Which registers of a tile anybody reads: of addresses and masks of wide accesses only those of each first element."""

from __future__ import annotations

from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.ops.gpu.memory import AsyncCopy, GlobalLoad, GlobalStore, PaddedLoad
from tilewright.ir.ops.shape import Permute, Reshape


def register_strides(function: Function) -> dict[Value, int]:
    """For each tile of which only every n-th register is read, that n, a power of two; others are not in it."""
    strides: dict[Value, int] = {}
    _block(function.body, strides)
    return {value: n for value, n in strides.items() if n > 1}


def _block(block: Block, strides: dict[Value, int]) -> None:
    for op in reversed(block.ops):
        for region in op.regions:
            _block(region, strides)
        for value, n in _reads(op, strides):
            strides[value] = min(strides.get(value, n), n)


def _reads(op: Op, strides: dict[Value, int]) -> list[tuple[Value, int]]:
    if isinstance(op, (AsyncCopy, GlobalLoad, GlobalStore)):
        wide = [op.ptrs] if op.mask is None else [op.ptrs, op.mask]
        others = [v for v in op.operands if v not in wide]
        return [(v, op.vector) for v in wide] + [(v, 1) for v in others]
    if isinstance(op, PaddedLoad):
        return [(op.mask, op.vector), *((v, 1) for v in op.operands if v is not op.mask)]
    n = 1
    if op.spec.elementwise or isinstance(op, (Reshape, Permute)):
        n = strides.get(op.result, 1)
        if isinstance(op, Reshape) and (not op.shape or not op.x.tile.rank):
            n = 1
    return [(v, n) for v in op.operands]
