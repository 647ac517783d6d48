"""Rows that are shorter than their tile: which parameters are their lengths, and which registers have no element."""

from __future__ import annotations

from tilewright.ir.core import Function, Value
from tilewright.ir.dtypes import int32
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.layouts import LANE, WARP
from tilewright.ir.ops.arith import Cast, Cmp, Max, Min, Mul, Sub, keeps_integers
from tilewright.ir.ops.gpu.tiles import BroadcastDistributed, Splat, ThreadReduce
from tilewright.ir.ops.linear import MmaOp
from tilewright.ir.ops.memory import AssumeBounded, AssumeDivisible
from tilewright.ir.ops.shape import Iota, Reshape, constant_of

# Elements of a tile: shorter ones have one warp, with which layer norm of 1,544 columns behind dropout has 4,021 GB/s,
# and 3,557 with fewer registers (one H200).
_LEAST = 4096
_PASSED = (AssumeBounded, AssumeDivisible, Cast, Splat, Reshape, BroadcastDistributed)


def lengths_of_rows(function: Function) -> tuple[int, ...]:
    """The elements of the longest tile of a row that ``function``, in the gpu stage, reduces, and the numbers of the
    parameters that say how many of these there are; nothing where none do."""
    rows = (op.values[0].tile for op in function.ops_of(ThreadReduce))
    size = max((t.size for t in rows if max(t.shape) == t.size), default=0)
    if size < _LEAST or function.ops_of(MmaOp):
        return ()
    compared = [op for op in function.ops_of(Cmp) if _counts(op) and op.lhs.tile.size == size]
    found = {i for op in compared if (i := _parameter(op.rhs, function)) is not None}
    return (size, *sorted(found)) if found else ()


def never_true(op: Cmp) -> list[bool]:
    """For each register of a comparison of places in a row with its length, whether all lie behind it."""
    most = _most(op.rhs) if _counts(op) else None
    layout = op.result.layout
    own = ~layout.mask(LANE, WARP)  # lanes and warps add to what these bits of a register's place say
    return [most is not None and layout.index(register=r) & own >= most for r in range(layout.num_registers)]


def _counts(op: Cmp) -> bool:
    """Whether ``op`` asks which places of a row lie in front of a number."""
    t, layout, start = op.lhs.tile, op.lhs.tile.layout, op.lhs
    while isinstance(start.op, Reshape) or keeps_integers(start.op):
        start = start.op.x
    return (
        op.predicate is CmpPredicate.LT
        and isinstance(start.op, Iota)
        and start.tile.element.bitwidth >= int32.bitwidth
        and layout is not None
        and layout.is_injective
        and max(t.shape, default=1) == t.size > 1
    )


def _parameter(value: Value, function: Function) -> int | None:
    """Which parameter ``value`` is, but for being clamped."""
    while value.op is not None:
        op = value.op
        if isinstance(op, _PASSED):
            value = op.x
        elif (isinstance(op, (Max, Min)) and constant_of(op.rhs) is not None) or (
            isinstance(op, Sub) and _is_first(op.rhs)
        ):
            value = op.lhs
        else:
            return None
    known = value in function.body.args and value.tile.dtype is int32
    return function.body.args.index(value) if known else None


def _is_first(start: Value) -> bool:
    """Whether ``start`` is where the first of several tiles begins, see ``LowerViews``."""
    least = start.op.lhs.op if isinstance(start.op, Mul) else None
    return isinstance(least, Min) and any(constant_of(v) == 0 for v in least.operands)


def _most(value: Value) -> int | None:
    """What ``value`` is at most, where an assumption says so."""
    op = value.op
    if isinstance(op, AssumeBounded):
        return op.upper if op.x.tile.element is int32 else None
    if isinstance(op, Cast) and not (keeps_integers(op) or op.dtype is int32):  # of an int32, which was widened
        return None
    if isinstance(op, _PASSED):
        return _most(op.x)
    if isinstance(op, (Max, Min)) and isinstance(bound := constant_of(op.rhs), int):
        most = _most(op.lhs)
        return None if most is None else (max if isinstance(op, Max) else min)(most, bound)
    return None
