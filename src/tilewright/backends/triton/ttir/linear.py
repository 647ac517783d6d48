"""Reductions, scans and MMA ops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tilewright.backends.triton.ttir import convert
from tilewright.backends.triton.ttir.shape import join, split, zero
from tilewright.backends.triton.ttir.state import LoweringState
from tilewright.backends.triton.ttir.text import FP8, Shape, Val, Writer, squeezed
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.linear import Mma, Reduce, Scan
from tilewright.ir.reachable import reachable
from tilewright.ir.types import TileType

Combine = Callable[[LoweringState, Op], None]


def reduce(s: LoweringState, op: Reduce, lower: Combine) -> None:
    """A custom combiner need not be commutative: its fold is a scan, which keeps the order, and its last element."""
    values = s.all(op.operands)
    shape, axis = op.values[0].tile.shape, op.axis
    if shape[axis] == 1:
        for result, value in zip(op.results, values):
            s.bind(result, value)
        return
    position = len(squeezed(shape[:axis]))
    if op.commutative:
        # Triton permutes a flattened tile before a fold of rank 1, each of several tiles in its own way.
        lifted = len(values) > 1 and len(values[0].shape) == 1
        if lifted:
            values, position = [s.w.expand(v, 0) for v in values], 1
        kept = values[0].shape[:position] + values[0].shape[position + 1 :]
        results = _combine(s, op, "reduce", values, f"axis = {position} : i32", kept, lower)
        if lifted:
            results = [s.w.reshape(v, ()) for v in results]
    else:
        attributes = f"axis = {position} : i32, reverse = false"
        scanned = _combine(s, op, "scan", values, attributes, values[0].shape, lower)
        results = [_last(s.w, v, position) for v in scanned]
    for result, value in zip(op.results, results):
        s.bind(result, value)


def scan(s: LoweringState, op: Scan, lower: Combine) -> None:
    values = s.all(op.operands)
    shape, axis = op.values[0].tile.shape, op.axis
    if shape[axis] != 1:
        reverse = "true" if op.reverse else "false"
        attributes = f"axis = {len(squeezed(shape[:axis]))} : i32, reverse = {reverse}"
        values = _combine(s, op, "scan", values, attributes, values[0].shape, lower)
    for result, value in zip(op.results, values):
        s.bind(result, value)


def _combine(
    s: LoweringState, op: Op, name: str, values: list[Val], attributes: str, shape: Shape, lower: Combine
) -> list[Val]:
    """tt.reduce or tt.scan, whose region is the combiner. Triton folds no 8-bit floats: their bits take their place."""
    w, body = s.w, op.regions[0]
    kinds = [v.element for v in values]

    def foldable(x: Val) -> Val:
        return w.bitcast(x, "i8") if x.element in FP8 else x

    def combiner(scalars: list[Val]) -> list[Val]:
        for arg, scalar, kind in zip(body.args, scalars, kinds * 2):
            s.bind(arg, w.bitcast(scalar, kind))
        for nested in body.ops[:-1]:
            w.loc = nested.loc
            lower(s, nested)
        return [foldable(v) for v in s.all(body.terminator.operands)]

    found = w.combine(name, [foldable(v) for v in values], attributes, shape, combiner)
    return [w.bitcast(v, kind) for v, kind in zip(found, kinds)]


def _last(w: Writer, x: Val, axis: int) -> Val:
    """The last element of x along ``axis``."""
    n = x.shape[axis]
    at = w.compare("eq", w.arange(n), w.constant(n - 1, "i32", (n,)))
    kind = x.element
    bits = w.convert("arith.extui", x, "i8") if kind == "i1" else w.bitcast(x, f"i{x.bits}")
    kept = w.select(w.broadcast_along(at, (axis,), x.shape), bits, w.like(0, bits))
    found = w.reduce("arith.ori", kept, axis)
    return w.convert("arith.trunci", found, "i1") if kind == "i1" else w.bitcast(found, kind)


# -- MMA ops

# Bits of an element -> the smallest K of the matrix instructions. Shorter MMA ops get zeros.
_SMALLEST_K = {8: 32, 16: 16, 32: 8, 64: 16}
_BATCHED_COLUMNS = 8  # of a matrix instruction: of batches with fewer, Triton mixes up the accumulators
_BYTE = 8


def mma(s: LoweringState, op: Mma) -> Val:
    x, y, acc = (_matrix(s, v) for v in (op.x, op.y, op.acc))
    return s.w.reshape(_mma(s, op, x, y, acc), squeezed(op.acc.tile.shape))


def _matrix(s: LoweringState, value: Value) -> Val:
    """The tensor of a matrix operand with rank 2, or 3 when batched."""
    *batch, m, n = value.tile.shape
    count = math.prod(batch)
    shape = (m, n) if count == 1 else (count, m, n)
    x = s[value]
    for position, axis in enumerate(shape):
        if axis == 1:
            x = s.w.expand(x, position) if x.shape else s.w.splat(x, (1,))
    return s.w.reshape(x, shape)


def _mma(s: LoweringState, op: Mma, x: Val, y: Val, acc: Val) -> Val:
    w = s.w
    dtype = op.x.tile.element
    if dtype.short in ("i8", "u8"):
        return _integer_product(s, op, x, y, acc)
    if x.element == "i8":  # an 8-bit float that the target cannot multiply
        x = w.convert("arith.truncf", convert.decode(w, x, dtype), "f16")
        y = w.convert("arith.truncf", convert.decode(w, y, dtype), "f16")
    short = acc.element == "f16"
    total = w.convert("arith.extf", acc, "f32") if short else acc
    precision = _precision(w, x, y, dtype)
    total = dot(w, x, y, total, precision, origin=min(_origin(op.x), _origin(op.y)))
    return w.convert("arith.truncf", total, "f16") if short else total


def _precision(w: Writer, x: Val, y: Val, dtype: DType) -> str:
    """float32 MMA ops as three tf32 ones on NVIDIA's tensor cores; the MMA op of both low parts is dropped. Triton 3.6
    has no tf32 MMA ops of AMD's for a K of 8; those of float32 give the same."""
    if dtype.short == "tf32":
        return "tf32" if w.target.is_cuda or x.shape[-1] >= 16 else "ieee"
    large = x.element == "f32" and w.target.is_cuda and min(x.shape[-2], y.shape[-1]) >= 16
    return "tf32x3" if large else "ieee"


def _origin(value: Value) -> int:
    """Bits of the narrowest elements that ``value`` is made of, but no less than those of a byte."""

    def sources(v: Value) -> Sequence[Value]:
        return () if v.op is None or v.op.spec.effect & Effect.READ or v.op.regions else v.op.operands

    types = (v.type for v in reachable([value], sources))
    widths = (t.element.bitwidth for t in types if isinstance(t, TileType) and not t.is_pointer)
    return max(min(widths, default=64), _BYTE)


def dot(w: Writer, x: Val, y: Val, acc: Val, precision: str = "ieee", *, origin: int = _BYTE) -> Val:
    """``origin`` is the width of the elements that x and y were loaded as, or less where zeros were joined.

    Triton gives each of the four threads of a row 32 bits of those, and twice as much where zeros were joined. What is
    shorter it multiplies more than once, and float64 it cannot multiply then: such operands hide where they come from.
    """
    rank = len(x.shape)
    if rank == 3 and y.shape[2] < _BATCHED_COLUMNS and w.target.is_cuda:
        y, acc = _lengthened(w, y, 2), _lengthened(w, acc, 2)
        return _first_columns(w, dot(w, x, y, acc, precision, origin=origin // 2))
    hidden = x.shape[-1] < max(_SMALLEST_K[x.bits], 4 * 32 // origin) or (x.bits == 64 and origin < 32)
    while x.shape[-1] < _SMALLEST_K[x.bits]:
        x, y = _lengthened(w, x, rank - 1), _lengthened(w, y, rank - 2)
    if hidden and w.target.is_cuda and x.bits > _BYTE:
        x, y = w.optimization_barrier(x, pure=False), w.optimization_barrier(y, pure=False)
    if rank == 2 and acc.element == "f64" and not w.target.is_cuda:  # Triton has such MMA ops with batches only
        x, y, total = (w.reshape(v, (1, *v.shape)) for v in (x, y, acc))
        return w.reshape(dot(w, x, y, total), acc.shape)
    options = f", inputPrecision = {precision}"
    text = f"tt.dot {x.name}, {y.name}, {acc.name}{options} : {x.type} * {y.type} -> {acc.type}"
    return w.emit(text, acc.element, acc.shape)


def _first_columns(w: Writer, x: Val) -> Val:
    """The first half of the last axis of x, a batch of matrices."""
    batch, rows, columns = x.shape
    halves = w.trans(w.reshape(x, (batch, rows, 2, columns // 2)), [0, 1, 3, 2])
    return split(w, halves)[0]


def _lengthened(w: Writer, x: Val, axis: int) -> Val:
    """As many zeros after x along ``axis``."""
    rank = len(x.shape)
    joined = join(w, x, zero(w, x.element, x.shape))
    moved = w.trans(joined, [*range(axis), rank, *range(axis, rank)])
    return w.reshape(moved, (*x.shape[:axis], 2 * x.shape[axis], *x.shape[axis + 1 :]))


def _integer_product(s: LoweringState, op: Mma, x: Val, y: Val, acc: Val) -> Val:
    """The matrix instructions take signed bytes; an unsigned byte is 2 * (byte >> 1) + (byte & 1)."""
    w = s.w
    x_parts = _signed_parts(w, x, op.x.tile.element.is_signed)
    y_parts = _signed_parts(w, y, op.y.tile.element.is_signed)
    for a, a_shift in x_parts:
        for b, b_shift in y_parts:
            shift = a_shift + b_shift
            if shift == 0:
                acc = dot(w, a, b, acc)
                continue
            mma = dot(w, a, b, zero(w, "i32", acc.shape))
            acc = w.op("arith.addi", acc, w.op("arith.shli", mma, w.like(shift, mma)))
    return acc


def _signed_parts(w: Writer, x: Val, signed: bool) -> list[tuple[Val, int]]:
    if signed:
        return [(x, 0)]
    one = w.like(1, x)
    return [(w.op("arith.shrui", x, one), 1), (w.op("arith.andi", x, one), 0)]
