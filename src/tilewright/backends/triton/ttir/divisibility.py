"""What divides the numbers of a tile, for addresses.

Triton keeps two facts of each axis: how many numbers follow one another, and what divides the first of those. Where it
finds that an op leaves no numbers that follow one another, it takes what divided the first for a divisor of each, and
rows chosen by such numbers for aligned: loads and stores of them fail. Such ops say that nothing is known.

They say it of each axis. Where Triton finds that all elements of the operands are equal, it makes the op one of
scalars, but takes over what is said, and fails if there are several axes. Where it does is known here for the most
part; kernels at which it fails all the same are written again, with results of such ops that it finds out nothing of.
"""

from __future__ import annotations

from tilewright.ir.core import Op, Value
from tilewright.ir.ops.arith import Sub
from tilewright.ir.ops.shape import Broadcast, Constant, Reshape

_DEPTH = 6  # of ops that are looked at


def any_multiple(element: str, shape: tuple[int, ...]) -> str:
    """The attributes of an op of integers or pointers of which Triton must not know a divisor."""
    if not shape or not element.startswith(("i", "!tt.ptr")) or element == "i1":
        return ""
    return f" {{tt.divisibility = dense<1> : tensor<{len(shape)}xi32>}}"


def mixes(op: Op) -> bool:
    """Whether the sum or difference ``op`` has no numbers that follow one another along an axis where an operand may
    have some: both change there, or numbers are subtracted."""
    x, y = (_changing(value, _DEPTH) for value in op.operands)
    return bool(x & y) or (isinstance(op, Sub) and bool(y))


def _changing(value: Value, depth: int) -> frozenset[int]:
    """The axes along which the elements of ``value`` may differ."""
    op, axes = value.op, frozenset(axis for axis, n in enumerate(value.tile.shape) if n != 1)
    if op is None or not axes or depth == 0:
        return axes
    if isinstance(op, Constant):
        return frozenset()
    if isinstance(op, Broadcast):
        return axes & _changing(op.x, depth - 1)
    if isinstance(op, Reshape):
        source = op.x.tile.shape
        before = [axis for axis, n in enumerate(source) if n != 1]
        after = sorted(axes)
        if [source[axis] for axis in before] == [value.tile.shape[axis] for axis in after]:
            changing = _changing(op.x, depth - 1)
            return frozenset(new for old, new in zip(before, after) if old in changing)
    if op.spec.elementwise:
        return axes & frozenset().union(*(_changing(operand, depth - 1) for operand in op.operands))
    return axes
