"""Right operands that one row is multiplied with, or few where they are a transpose: read where they lie, not copied.

A copy pays where several blocks of rows read it. How many rows a tile has inside its array is often known by the launch
alone: the tiles of kernels for GPUs have 16 rows and more, also where one is multiplied.
"""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.cpu.codegen import index
from tilewright.backends.cpu.codegen.index import Index, as_value
from tilewright.backends.cpu.codegen.mma_kernel import few_rows
from tilewright.backends.cpu.codegen.state import State, storage_bytes
from tilewright.backends.cpu.codegen.views import ViewAccess
from tilewright.backends.cpu.loops.dot import Product, dot_instruction, reader
from tilewright.backends.cpu.loops.fused import root_of
from tilewright.backends.cpu.loops.kinds import is_array_tile, view_strides
from tilewright.ir.core import Value
from tilewright.ir.dtypes import bfloat16, float16, float32, float64
from tilewright.ir.effects import is_pure
from tilewright.ir.ops.arith import Mul
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.loops import LoopNest
from tilewright.ir.ops.memory import LoadView, padding_value
from tilewright.ir.ops.shape import Permute, Reshape
from tilewright.records import NamedTuple

_LINE = 64  # bytes


class InPlace(NamedTuple):
    """Where a right operand lies, and whether it is read there (i1): the left one has one row, and zeros behind it,
    or with ``together`` few. ``transposed``: the columns of the right one are rows in the array."""

    chosen: ir.Value
    tile: ViewAccess
    transposed: bool
    together: bool


def in_place(state: State, nest: LoopNest) -> InPlace | None:
    """Whether what ``nest`` copies is multiplied where it lies instead; None where it never is."""
    op = reader(nest)
    if op is None or op.result.tile.rank > 2 or len(nest.results) > 1 or not _follows(op, nest):
        return None
    p, (load, transposed) = Product.of(op), _in_array(nest.kept[0])
    if load is None or load not in state.accesses or dot_instruction(state.processor, p) is not None:
        return None
    tile, item = state.accesses[load], storage_bytes(p.y)
    suits = p.y in (float32, float64, bfloat16, float16)
    shape = [n for n in tile.shape if n > 1]
    if not suits or shape != ([p.n, p.k] if transposed else [p.k, p.n]) or min(shape) * item < _LINE:
        return None
    together = p.m == 1 or (transposed and p.m <= few_rows(state))
    rows = 1 if together else valid_elements(state, op.x, -2)
    if rows is None or (isinstance(rows, int) and rows > 1):
        return None
    chosen = state.builder.icmp_unsigned("==", as_value(rows), as_value(1))
    if tile.inside is not None:
        chosen = state.builder.and_(chosen, tile.inside)
    return InPlace(chosen, tile, transposed, together)


def _follows(op: Mma, nest: LoopNest) -> bool:
    """Whether nothing is stored between ``nest`` and ``op``, whose accumulators are not scaled."""
    block, body = nest.block, op.block
    assert block is not None and body is not None
    after = op.ancestor_in(block)
    if not isinstance(after, LoopNest) or (isinstance(op.acc.op, Mul) and op.acc.op in body.ops):
        return False
    between = block.ops[block.ops.index(nest) + 1 : block.ops.index(after)]
    roots = (root_of(o) if isinstance(o, LoopNest) else o for o in between)
    return all(o is None or isinstance(o, Mma) or is_pure(o) for o in roots)


def _in_array(value: Value) -> tuple[LoadView | None, bool]:
    """The load of a tile whose rows are consecutive in the array, of which ``value`` is a reshape; or the transpose."""
    transposed = False
    while isinstance(op := value.op, (Reshape, Permute)):
        if isinstance(op, Permute):
            if transposed or op.axes != (1, 0):
                return None, False
            transposed = True
        value = op.x
    if not is_array_tile(value) or not isinstance(op, LoadView):
        return None, False
    strides = [stride for n, stride in zip(value.tile.shape, view_strides(op)) if n > 1]
    return (op if len(strides) == 2 and strides[1] == 1 else None), transposed


def valid_elements(state: State, x: Value, axis: int) -> Index | None:
    """How many elements along ``axis`` come from an array, with zeros behind them. None when that is not known."""
    load = loaded(x).op
    if load is None or load not in state.accesses:
        return None
    tile = state.accesses[load]
    n, long = x.tile.shape[axis], [k for k, length in enumerate(tile.shape) if length > 1]
    if [tile.shape[k] for k in long] != [length for length in x.tile.shape if length > 1] or n == 1 or len(long) < 2:
        return None
    before = sum(length > 1 for length in x.tile.shape[:axis])
    along, padding = long[before], padding_value(tile.view.partition.padding, tile.dtype)
    if not tile.checked[along]:
        return n
    if str(float(padding)) != "0.0":
        return None
    builder = state.builder
    left = index.sub(builder, tile.extents[along], tile.origins[along])
    valid = index.maximum(builder, index.minimum(builder, left, n), 0)
    if isinstance(tile.origins[along], int):
        return valid if tile.origins[along] >= 0 else n
    outside = builder.icmp_signed("<", as_value(tile.origins[along]), as_value(0))
    return builder.select(outside, as_value(n), as_value(valid))


def loaded(x: Value) -> Value:
    """What ``x`` is a reshape of, or a nest only keeps."""
    while True:
        if isinstance(x.op, Reshape):
            x = x.op.x
        elif isinstance(x.op, LoopNest):
            x = x.op.kept[x.index]
        else:
            return x
