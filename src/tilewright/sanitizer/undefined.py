"""Values without a definition, followed through the operations of a block.

An element is undefined when the documents leave its value open: padding of an undetermined mode, masked-off lanes
without padding, memory that nobody wrote, a tile that was never given a value. Computing with it is no violation.
Storing it where it is kept, branching on it and addressing memory with it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.backends.reference.shape import SHAPE
from tilewright.backends.reference.values import Array
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType, float4_e2m1fn
from tilewright.ir.ops.arith import And, Mul, Or, Select
from tilewright.ir.ops.linear import Mma, MmaScaled, Reduce, Scan
from tilewright.ir.ops.memory import MakePartitionView, MakeTensorView
from tilewright.ir.ops.shape import Broadcast, Cat, Extract, Insert, Pack, Permute, Reshape, Unpack
from tilewright.ir.types import TileType
from tilewright.records import dataclass
from tilewright.sanitizer.report import Related


@dataclass(frozen=True)
class Undefined:
    """Which elements of a value are undefined, and where the first of them came from.

    ``unassigned`` marks a tile that was never given a value, which must not be used at all. ``reported`` values are
    what is left of an access that was not done: what depends on them is not reported again.
    """

    mask: Array
    origin: Related
    unassigned: bool = False
    reported: bool = False


Marks = Sequence["Undefined | None"]


_DEFINED: Array = np.zeros((), bool)


def masks(marks: Marks) -> list[Array]:
    """The mask of every operand, False where it is defined."""
    return [_DEFINED if m is None else m.mask for m in marks]


def _shape(value: Value) -> tuple[int, ...]:
    type = value.type
    return type.shape if isinstance(type, TileType) else ()


def _any(op: Op, operands: Sequence[Any], m: list[Array]) -> Array:
    result: Array = m[0]
    for other in m[1:]:
        result = result | other
    return result


def _whole(op: Op, operands: Sequence[Any], m: list[Array]) -> Array:
    """One undefined element makes everything undefined."""
    return np.asarray(any(bool(x.any()) for x in m))


def _absorbing(value: Callable[[DType], int]) -> Callable[[Op, Sequence[Any], list[Array]], Array]:
    """For operations that one operand alone can decide: a defined ``value`` makes the result defined."""

    def rule(op: Op, operands: Sequence[Any], m: list[Array]) -> Array:
        dtype = op.results[0].tile.element
        if dtype.is_floating:
            return m[0] | m[1]
        decided = np.asarray(value(dtype)).astype(dtype.storage)
        left, right = operands
        return np.asarray((m[0] | m[1]) & ~((left == decided) & ~m[0]) & ~((right == decided) & ~m[1]))

    return rule


def _moved(op: Op, operands: Sequence[Any], m: list[Array]) -> Array:
    """Ops that move elements move the marks with them."""
    moved = [
        np.broadcast_to(mask, v.tile.shape) if v.tile.shape != () else mask
        for v, mask in zip(op.operands, m)
        if isinstance(v.type, TileType)
    ]
    if isinstance(op, (Extract, Insert)):
        tiles = 1 if isinstance(op, Extract) else 2
        moved = [*moved[:tiles], *operands[tiles:]]
        if any(bool(mask.any()) for mask in m[tiles:]):
            return np.asarray(True)
    return SHAPE[type(op)](op.attributes, moved, [v.type for v in op.operands])


def _bytes(op: Pack, operands: Sequence[Any], m: list[Array]) -> Array:
    dtype = op.x.tile.element
    if dtype is float4_e2m1fn:
        return _whole(op, operands, m)
    return np.repeat(np.broadcast_to(m[0], _shape(op.x)).reshape(-1), dtype.bytes)


def _elements(op: Unpack, operands: Sequence[Any], m: list[Array]) -> Array:
    dtype = op.results[0].tile.element
    if dtype is float4_e2m1fn:
        return _whole(op, operands, m)
    return np.asarray(np.broadcast_to(m[0], _shape(op.x)).reshape(-1, dtype.bytes).any(axis=1))


def _reduced(op: Reduce, operands: Sequence[Any], m: list[Array]) -> Array:
    whole = np.broadcast_to(_any(op, operands, m), _shape(op.values[0]))
    return np.asarray(whole.any(axis=op.axis))


def _scanned(op: Scan, operands: Sequence[Any], m: list[Array]) -> Array:
    axis, reverse = op.axis, op.reverse
    whole = np.broadcast_to(_any(op, operands, m), _shape(op.values[0]))
    if reverse:
        whole = np.flip(whole, axis)
    result = np.logical_or.accumulate(whole, axis=axis)
    return np.flip(result, axis) if reverse else result


def _product(op: Mma | MmaScaled, operands: Sequence[Any], m: list[Array]) -> Array:
    full = [np.broadcast_to(mask, _shape(v)) for v, mask in zip(op.operands, m)]
    x, y, acc = full[0], full[1 if isinstance(op, Mma) else 2], full[-1]
    rows, columns = np.asarray(x.any(axis=-1)), np.asarray(y.any(axis=-2))
    if isinstance(op, MmaScaled):
        rows, columns = rows | full[1].any(axis=-1), columns | full[3].any(axis=-2)
    return np.asarray(rows[..., :, None] | columns[..., None, :] | acc)


_Rule = Callable[[Any, Sequence[Any], list[Array]], Array]
_RULES: dict[type[Op], _Rule] = {
    Select: lambda op, operands, m: np.asarray(np.where(operands[0], m[1], m[2]) | m[0]),
    And: _absorbing(lambda dtype: 0),
    Mul: _absorbing(lambda dtype: 0),
    Or: _absorbing(lambda dtype: 1 if dtype.is_bool or dtype.min == 0 else -1),
    **dict.fromkeys((Reshape, Broadcast, Permute, Cat, Extract, Insert), _moved),
    Pack: _bytes,
    Unpack: _elements,
    Reduce: _reduced,
    Scan: _scanned,
    Mma: _product,
    MmaScaled: _product,
    MakeTensorView: _whole,
    MakePartitionView: _whole,
}


def propagate(op: Op, operands: Sequence[Any], marks: Marks) -> Undefined | None:
    """The undefined elements of the results of ``op``, at least one of whose operands has some."""
    rule: _Rule = _RULES.get(type(op), _any)
    mask = rule(op, operands, masks(marks))
    if not mask.any():
        return None
    known = [m for m in marks if m is not None]
    return Undefined(mask, known[0].origin, reported=any(m.reported for m in known))
