"""Which registers of a tile anybody reads: of addresses and masks of wide accesses only those of each first element,
and of conditions only one of several that are equal."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.analysis.gpu.contiguity import Contiguity
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.layouts import REGISTER
from tilewright.ir.ops.arith import Select
from tilewright.ir.ops.gpu.memory import AsyncCopy, GlobalLoad, GlobalStore, PaddedLoad
from tilewright.ir.ops.shape import Permute, Reshape


def register_strides(function: Function, equal: Mapping[Op, int]) -> dict[Value, int]:
    """For each tile of which only every n-th register is read, that n, a power of two; others are not in it."""
    strides: dict[Value, int] = {}
    _block(function.body, strides, equal)
    return {value: n for value, n in strides.items() if n > 1}


def equal_conditions(function: Function) -> dict[Op, int]:
    """For each ``select`` whose condition is the same in aligned runs of n registers, that n, a power of two."""
    selects = [op for op in function.ops_of(Select) if op.condition.tile.rank]
    facts = AnalysisManager(function).get(Contiguity) if selects else None
    found: dict[Op, int] = {}
    for op in selects:
        assert facts is not None
        constancy, n = facts.runs(op.condition).constancy, 1
        for image in op.condition.layout.images(REGISTER):
            if any(2 * bit > run for bit, run in zip(image, constancy) if bit):
                break
            n *= 2
        if n > 1:
            found[op] = n
    return found


def _block(block: Block, strides: dict[Value, int], equal: Mapping[Op, int]) -> None:
    for op in reversed(block.ops):
        for region in op.regions:
            _block(region, strides, equal)
        for value, n in _reads(op, strides, equal):
            strides[value] = min(strides.get(value, n), n)


def _reads(op: Op, strides: dict[Value, int], equal: Mapping[Op, int]) -> list[tuple[Value, int]]:
    if isinstance(op, Select) and op in equal:
        n = strides.get(op.result, 1)
        return [(op.condition, max(n, equal[op])), (op.x, n), (op.y, n)]
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
