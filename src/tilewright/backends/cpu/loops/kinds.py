"""Which ops may be fused, and what is known of scalars and views while the loop-level form is made."""

from __future__ import annotations

from tilewright.backends.cpu.scratch import element_bytes
from tilewright.backends.cpu.target import Processor
from tilewright.backends.vector import ELEMENTWISE_OPS
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import float32, float64
from tilewright.ir.effects import is_ordered
from tilewright.ir.opdef import OPS
from tilewright.ir.ops import memory, shape
from tilewright.ir.ops.linear import Mma
from tilewright.ir.types import TileType

POINTER_OPS = frozenset({shape.PtrOffset, shape.PtrDiff, shape.PtrToInt, shape.IntToPtr})
ASSUMPTIONS = (memory.AssumeDivisible, memory.AssumeBounded, memory.AssumeBlocked)
ELEMENTWISE = frozenset(OPS[name] for name in ELEMENTWISE_OPS) | POINTER_OPS | set(ASSUMPTIONS)
# Elements along a side of the squares that are transposed in registers: fewer are not worth it, more need too many.
# A transposition takes 30 ms with 16 at most, 37 with 8, 39 with 4: benchmarks/results/constants.md.
SMALLEST_SQUARE, LARGEST_SQUARE = 4, 16
# Bytes of a tile that is transposed or scanned, of which three fit into a second-level cache: the next one is fetched
# while it is stored (benchmarks/results/cpu_notes.md).
LONGEST_STORED = 128 << 10
FUSIBLE = (
    ELEMENTWISE | set(shape.REARRANGING) | {shape.Constant, shape.Undefined, shape.Iota, memory.LoadView, memory.Load}
)


def is_fusible(op: Op) -> bool:
    """Whether elements of the result of ``op`` can be computed where they are needed."""
    return type(op) in FUSIBLE and not is_ordered(op)


def is_array_tile(value: Value) -> bool:
    """Whether ``value`` is a tile of a view that its users read where it lies."""
    return isinstance(value.op, memory.LoadView) and not is_ordered(value.op) and value.tile.size > 1


def known_integer(value: Value) -> int | None:
    """The integer that the scalar ``value`` always is, if that is known."""
    op = value.op
    while isinstance(op, ASSUMPTIONS + shape.REARRANGING):
        op = op.x.op
    return int(op.value) if isinstance(op, shape.Constant) else None


def view_strides(op: memory.ViewMemoryOp) -> tuple[int | None, ...]:
    """The strides in elements of the axes of the tile that ``op`` accesses, as far as they are known."""
    t = op.view.partition
    return tuple(_strides(op.view, t.view.strides)[axis] for axis in t.order)


def _strides(view: Value, static: tuple[int | None, ...]) -> tuple[int | None, ...]:
    made = view.op.view.op if isinstance(view.op, memory.MakePartitionView) else view.op
    given = iter(made.strides if isinstance(made, memory.MakeTensorView) else ())
    found = []
    for stride in static:
        value = next(given, None) if stride is None else None
        found.append(stride if value is None else known_integer(value))
    return tuple(found)


def takes_lines(op: Mma, processor: Processor) -> bool:
    """Whether ``op`` multiplies few rows with a transpose, whose columns are read as lines where they are in an array.

    The accumulators for a vector of columns leave registers for squares of the lines then, which are transposed.
    """
    t, made = op.y.tile, op.y.op
    few = op.x.tile.shape[-2] <= processor.vector_registers // 4
    if not few or not isinstance(made, shape.Permute) or made.axes != (1, 0) or t.dtype not in (float32, float64):
        return False
    return min(t.shape) >= processor.lanes(element_bytes(t.dtype))


def array_axis(load: memory.LoadView) -> int | None:
    """The axis along which neighbours in the tile of ``load`` are neighbours in the array; None when unknown."""
    axes = [k for k, stride in enumerate(view_strides(load)) if stride == 1]
    return next((k for k in axes if load.result.tile.shape[k] > 1), None)


def by_squares(t: TileType, axis: int | None) -> int | None:
    """``axis``, along which neighbours of a tile are neighbours in memory, where the tile is to be read by squares
    that are transposed in registers; None where its rows are read, or nothing is known."""
    last = innermost(t)
    if axis is None or axis == last or min(t.shape[axis], t.shape[last]) < SMALLEST_SQUARE:
        return None
    return None if t.is_pointer or t.element.is_bool else axis


def extents_of(value: Value) -> list[int]:
    """The extents of ``value`` but those of 1."""
    return [n for n in value.tile.shape if n > 1]


def innermost(t: TileType) -> int:
    """The last axis of more than one element."""
    return max((k for k, n in enumerate(t.shape) if n > 1), default=0)
