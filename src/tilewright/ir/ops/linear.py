"""Reductions, scans and MMA ops. C++ reference 2.6 and 2.10."""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.ir.core import Block, Op, Value
from tilewright.ir.dtypes import DType
from tilewright.ir.opdef import attribute, define, operand, operands, region
from tilewright.ir.ops.arith import Add, And, Max, Min, Mul, Or, Xor
from tilewright.ir.ops.rules import region_args, require, tile
from tilewright.ir.types import TileType, Type

_IDENTITIES: dict[type[Op], Callable[[DType], float]] = {
    Add: lambda dtype: 0,
    Mul: lambda dtype: 1,
    Max: lambda dtype: -math.inf if dtype.is_floating else dtype.min,
    Min: lambda dtype: math.inf if dtype.is_floating else dtype.max,
    And: lambda dtype: dtype.max if dtype.min == 0 else -1,
    Or: lambda dtype: 0,
    Xor: lambda dtype: 0,
}


def identity_of(combiner: type[Op], dtype: DType) -> bool | int | float:
    """What reductions by an op begin with in the languages: of sums of floats 0.0, which changes -0.0."""
    number = _IDENTITIES[combiner](dtype)
    return float(number) if dtype.is_floating else bool(number) if dtype.is_bool else int(number)


def _combiner(op: Op, values: list[Value], axis: int, identities: tuple[object, ...], body: Block) -> list[TileType]:
    types = combiner_types(op, values, axis, body)
    require(len(identities) == len(types), op, "needs one identity per tile")
    return types


def combiner_types(op: Op, values: list[Value], axis: int, body: Block) -> list[TileType]:
    """The types of ``values``, tiles of one shape that the combiner in ``body`` combines along ``axis``."""
    require(values, op, "needs at least one tile")
    types = [tile(op, v) for v in values]
    require(all(t.shape == types[0].shape for t in types), op, "tiles of different shapes: {}", types)
    require(0 <= axis < types[0].rank, op, "axis {} of {}", axis, types[0])
    scalars = tuple(t.with_shape(()) for t in types)
    region_args(op, body, scalars + scalars)
    yielded = tuple(v.type for v in body.terminator.operands)
    require(yielded == scalars, op, "combiner yields {}, expected {}", list(yielded), list(scalars))
    return types


class CombiningOp(Op):
    """What reductions and scans have in common: tiles, an axis, and a combiner of scalars."""

    values: list[Value] = operands()
    axis: int = attribute(int)
    identities: tuple[bool | int | float, ...] = attribute(tuple)
    body: Block = region()


@define("reduce")
class Reduce(CombiningOp):
    """Folds ``values`` along ``axis``, which disappears, with the combiner in ``body``.

    The combiner takes the left scalars, then the right ones, and yields the combined scalars. With ``commutative``
    the elements are folded into P partials (P = min(n, 64) when all later axes have length 1, else min(n, 4));
    partial l takes elements l, l + P, l + 2 P, ... in order, and the partials are folded by halving: p[i] with
    p[i + h] for h = P/2, ..., 1. Without it the fold runs strictly left to right. The identities are not folded in.
    """

    commutative: bool = attribute(bool, default=False)

    def infer(self) -> tuple[Type, ...]:
        types = _combiner(self, self.values, self.axis, self.identities, self.body)
        return tuple(_without_axis(t, self.axis) for t in types)


def _without_axis(t: TileType, axis: int) -> TileType:
    if t.layout is not None and t.rank > 1:
        return t.with_layout(t.layout.slice(axis))
    return t.with_shape(t.shape[:axis] + t.shape[axis + 1 :])


def reduction_partials(shape: tuple[int, ...], axis: int) -> int:
    """The number P of partial results of a commutative ``reduce`` over ``axis`` of a tile of ``shape``."""
    innermost = all(n == 1 for n in shape[axis + 1 :])
    return min(shape[axis], 64 if innermost else 4)


@define("scan")
class Scan(CombiningOp):
    """Inclusive scan of ``values`` along ``axis``, strictly in order, from the end when ``reverse``."""

    reverse: bool = attribute(bool, default=False)

    def infer(self) -> tuple[Type, ...]:
        return tuple(_combiner(self, self.values, self.axis, self.identities, self.body))


# operand dtype -> accumulator dtypes
MMA_ACCUMULATORS: dict[str, tuple[str, ...]] = {
    "f16": ("f16", "f32"),
    "bf16": ("f32",),
    "f32": ("f32",),
    "f64": ("f64",),
    "tf32": ("f32",),
    "f8e4m3fn": ("f16", "f32"),
    "f8e5m2": ("f16", "f32"),
    "i8": ("i32",),
    "u8": ("i32",),
}


def mma_accepts(x: DType, y: DType, acc: DType) -> bool:
    """Whether ``mma`` multiplies ``x`` by ``y`` elements into an accumulator of ``acc``."""
    mixed_bytes = {x.short, y.short} <= {"i8", "u8"}
    return (x is y or mixed_bytes) and acc.short in MMA_ACCUMULATORS.get(x.short, ())


def _mma_shapes(op: Op, x: TileType, y: TileType, acc: TileType) -> None:
    require(x.rank == y.rank == acc.rank >= 2, op, "ranks of {}, {} and {}", x, y, acc)
    m, k = x.shape[-2:]
    k2, n = y.shape[-2:]
    batch = x.shape[:-2]
    require(k == k2 and y.shape[:-2] == batch and acc.shape == (*batch, m, n), op, "shapes of {}, {} and {}", x, y, acc)


class MmaOp(Op):
    """What MMA ops have in common: the factors and the accumulator."""

    x: Value
    y: Value
    acc: Value


@define("mma")
class Mma(MmaOp):
    """x @ y + acc, batched over the leading dimensions.

    The language leaves the order of summation open; on CPU backends the products are added to acc in order along the
    last axis of x, each with one rounding (two on processors without fused multiply-add), in float32 (float64 for
    float64, int32 wrapping for integers); a float16 accumulator is rounded once, at the end. ``fast_acc`` allows lower
    intermediate precision for fp8.
    """

    x: Value = operand()
    y: Value = operand()
    acc: Value = operand()
    fast_acc: bool = attribute(bool, default=False)

    def infer(self) -> tuple[Type, ...]:
        x, y, acc = tile(self, self.x), tile(self, self.y), tile(self, self.acc)
        require(mma_accepts(x.element, y.element, acc.element), self, "dtypes of {}, {} and {}", x, y, acc)
        _mma_shapes(self, x, y, acc)
        return (acc,)


# operand dtype, scale dtype -> how many elements of K share one scale
MMA_SCALED_BLOCKS: dict[tuple[str, str], tuple[int, ...]] = {
    ("f8e4m3fn", "f8e8m0fnu"): (32,),
    ("f8e5m2", "f8e8m0fnu"): (32,),
    ("f4e2m1fn", "f8e8m0fnu"): (16, 32),
    ("f4e2m1fn", "f8e4m3fn"): (16,),
    ("f4e2m1fn", "f8e5m3fnu"): (16, 32),
}


@define("mma_scaled")
class MmaScaled(MmaOp):
    """(x * x_scale) @ (y * y_scale) + acc, where one scale serves a run of elements along K."""

    x: Value = operand()
    x_scale: Value = operand()
    y: Value = operand()
    y_scale: Value = operand()
    acc: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        x, xs = tile(self, self.x), tile(self, self.x_scale)
        y, ys = tile(self, self.y), tile(self, self.y_scale)
        acc = tile(self, self.acc)
        blocks = MMA_SCALED_BLOCKS.get((x.element.short, xs.element.short), ())
        fit = x.dtype == y.dtype and xs.dtype == ys.dtype and blocks
        require(fit, self, "dtypes of {}, {}, {} and {}", x, xs, y, ys)
        require(acc.element.short == "f32", self, "accumulator {} is not float32", acc)
        _mma_shapes(self, x, y, acc)
        block, rest = divmod(x.shape[-1], xs.shape[-1])
        allowed = " or ".join(map(str, blocks))
        require(rest == 0 and block in blocks, self, "{} needs one scale per {} elements", x, allowed)
        require(xs.shape == (*x.shape[:-1], x.shape[-1] // block), self, "scale {} does not fit {}", xs, x)
        require(ys.shape == (*y.shape[:-2], y.shape[-2] // block, y.shape[-1]), self, "scale {} does not fit {}", ys, y)
        return (acc,)
