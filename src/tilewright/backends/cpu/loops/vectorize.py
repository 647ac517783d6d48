"""The pass that chooses how many elements the loops of a nest compute at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tilewright.backends.cpu.loops.combiner_identity import identity_element
from tilewright.backends.cpu.loops.fused import loop_values, root_of
from tilewright.backends.cpu.loops.groups import CHEAP, element_cost
from tilewright.backends.cpu.loops.kinds import (
    ELEMENTWISE,
    LARGEST_SQUARE,
    SMALLEST_SQUARE,
    is_array_tile,
    is_fusible,
)
from tilewright.backends.cpu.scratch import element_bytes
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.effects import is_ordered
from tilewright.ir.ops.arith import Add, Mul, keeps_integers
from tilewright.ir.ops.linear import Mma, Reduce, Scan
from tilewright.ir.ops.loops import LoopNest, WritePart
from tilewright.ir.ops.memory import Assert, Load, Store, StoreView
from tilewright.ir.ops.shape import (
    REARRANGING,
    Broadcast,
    Constant,
    Extract,
    Iota,
    Permute,
    PtrOffset,
    Reshape,
    constant_of,
)
from tilewright.ir.reachable import reachable
from tilewright.ir.types import TileType
from tilewright.records import dataclass
from tilewright.transforms.base import InPlacePass

# Side by side: longer runs in memory, independent additions. Most rows of benchmarks/results/constants.md take as long
# with 2 and 8.
_ROW_VECTORS = 4
# Side by side in stores of rows: the loop around costs less. By processor time of one thread, rows of 4 KiB in cache,
# norms and softmax backward were 1.1 to 1.25 times as fast; with four 1.2 to 1.45 times, but arrays of 16 MiB, others
# at work beside it, were slower: RMS norm 0.84 times as fast as with one, with two 0.93.
_STORED_VECTORS = 2
LONGEST_STEP = 4  # elements, by which lanes are apart that are accessed as vectors, not one by one


@dataclass(frozen=True)
class VectorizeNests(InPlacePass):
    """Sets ``lanes`` of each nest, so that the widest elements fill registers of ``vector_bytes``, and how reductions
    and scans use them.

    After fusion: the widest element of all the ops that are fused decides.
    """

    name: ClassVar[str] = "vectorize-nests"
    vector_bytes: int

    def change(self, function: Function) -> bool:
        """Never fails."""
        changed = False
        for op in function.walk():
            if isinstance(op, LoopNest) and not op.lanes:
                values = loop_values(op)
                lanes = self._lanes(op, values)
                root = root_of(op)
                along = isinstance(root, (Reduce, Scan)) and _goes_along(root, lanes)
                square = _square(root, lanes) if isinstance(root, Scan) and not along else None
                op.vectorize(lanes, _vectors(op, lanes), square, along=along)
                changed = True
        return changed

    def _lanes(self, nest: LoopNest, values: Sequence[Value]) -> int:
        root = root_of(nest)
        if root is not None and not isinstance(root, _BY_VECTORS):
            return 1
        widest = widest_bytes([root.value] if isinstance(root, Store) and _are_near(root.ptrs) else values)
        if widest == 1 and self.vector_bytes > _SAFE_BYTES and any(map(_rearranges, nest.body.ops)):
            return _SAFE_BYTES
        return max(1, self.vector_bytes // widest)


# The x86 backend of LLVM 22 does not come to an end with a vector of 64 bytes that is twice another whose bytes stand
# two or four times in a row; constants that fold late may make a doubling of any arithmetic.
_SAFE_BYTES = 32


def _rearranges(op: Op) -> bool:
    return isinstance(op, REARRANGING) and op.x.tile.size > 1


_BY_VECTORS = (StoreView, Store, Reduce, Scan, WritePart, Assert, Mma)


def widest_bytes(values: Sequence[Value]) -> int:
    """The size of the largest element among ``values`` and what they are computed from in the same loops.

    Pointers to neighbours, and whether these are there, need no vectors.
    """
    tiles = (v.tile for v in reachable(values, _computed_from))
    return max((element_bytes(t.dtype) for t in tiles if t.size > 1), default=1)


def _computed_from(value: Value) -> list[Value]:
    op = value.op
    if op is None or not is_fusible(op) or is_array_tile(value) or value.tile.size == 1:
        return []
    if isinstance(op, Load) and _are_near(op.ptrs):
        return [] if op.padding is None else [op.padding]
    return [v for v in op.operands if isinstance(v.type, TileType)]


def _are_near(pointers: Value) -> bool:
    """Whether neighbours in rows are near each other, so that they are accessed as vectors."""
    return (row_step(pointers) or 0) in range(1, LONGEST_STEP + 1)


def row_step(value: Value, known: dict[Value, int | None] | None = None) -> int | None:
    """By how much neighbours in rows of ``value`` differ, in elements for pointers; None when unknown."""
    known, op = {} if known is None else known, value.op
    if value.tile.size == 1 or value.tile.shape[-1] == 1 or isinstance(op, Constant):
        return 0
    if isinstance(op, Iota):
        return 1
    if value not in known:
        known[value] = None if op is None else _row_step(op, known)
    return known[value]


def _row_step(op: Op, known: dict[Value, int | None]) -> int | None:
    moves = _moves(op) or (isinstance(op, Reshape) and op.x.tile.shape[-1:] != op.result.tile.shape[-1:])
    if moves or type(op) not in (*ELEMENTWISE, Broadcast, Reshape):
        return None
    steps = [row_step(v, known) for v in op.operands if isinstance(v.type, TileType)]
    if not any(step != 0 for step in steps):
        return 0
    if isinstance(op, (Broadcast, Reshape)) or keeps_integers(op):
        return steps[0]
    if isinstance(op, Mul) and None not in steps and (factors := [c for c in map(constant_of, op.operands) if c]):
        return sum(s for s in steps if s) * int(factors[0])
    return sum(s for s in steps if s is not None) if isinstance(op, (Add, PtrOffset)) and None not in steps else None


def _goes_along(op: Reduce | Scan, lanes: int) -> bool:
    """Whether the lanes are neighbours along the axis: those of memory, where that is the innermost axis.

    A scan combines them in pairs, at distances 1, 2, 4 and so on, which gives the same to the last bit for integers
    only.
    """
    if not (op.commutative if isinstance(op, Reduce) else _is_exact(op)):
        return False
    shape, axis = op.values[0].tile.shape, op.axis
    return shape[axis] >= lanes > 1 and all(n == 1 for n in shape[axis + 1 :])


def _is_exact(op: Scan) -> bool:
    """Whether the combiner is one operation on integers, with an identity: all of these are associative."""
    return identity_element(op.body) is not None and op.values[0].tile.element.is_integer


def rows_axis(outer: tuple[int, ...]) -> int:
    """The axis of the rows next to each other, of the extents ``outer`` in front of that of a row. ValueError if there
    is one row."""
    return max(k for k, n in enumerate(outer) if n > 1)


def _square(op: Scan, lanes: int) -> int | None:
    """The side of the squares of a scan of rows; None where it walks along the axis by vectors."""
    shape, axis = op.values[0].tile.shape, op.axis
    if any(n > 1 for n in shape[axis + 1 :]) or any(v.tile.is_pointer or v.tile.element.is_bool for v in op.values):
        return None
    if all(n == 1 for n in shape[:axis]):
        return None
    side = min(LARGEST_SQUARE, shape[rows_axis(shape[:axis])], shape[axis])
    return side if SMALLEST_SQUARE <= side <= lanes else None


def _vectors(nest: LoopNest, lanes: int) -> int:
    """More than one if little is to be done for each element, or if elements of a row are stored."""
    root = root_of(nest)
    if isinstance(root, StoreView):
        return _stored_vectors(nest, root, lanes)
    if not isinstance(root, (Reduce, Scan)):
        return 1
    shape = root.values[0].tile.shape
    others = shape[: root.axis] + shape[root.axis + 1 :]
    cheap = sum(_cost(nest, v) for v in root.values) <= CHEAP
    return _ROW_VECTORS if others and others[-1] >= _ROW_VECTORS * lanes and cheap else 1


def _stored_vectors(nest: LoopNest, root: StoreView, lanes: int) -> int:
    if is_ordered(root) or lanes == 1 or widest_bytes(loop_values(nest)) == 1 or any(map(_moves, nest.body.ops)):
        return 1
    return max(1, min(_STORED_VECTORS, root.value.tile.shape[-1] // lanes))


def _moves(op: Op) -> bool:
    """Whether neighbours in a row come from elsewhere than from neighbours."""
    return isinstance(op, (Permute, Extract)) and op.x.tile.size > 1


def _cost(nest: LoopNest, value: Value) -> int:
    """About how much work one element of ``value`` is in the loops."""
    inside = set(nest.body.ops)
    return element_cost(value, lambda v: v.op not in inside)
