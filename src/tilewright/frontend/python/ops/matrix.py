"""Matmuls and MMA ops."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.python.context import Context, OpBuilder
from tilewright.frontend.python.merge import describe
from tilewright.frontend.python.ops import arguments as check
from tilewright.frontend.python.ops.convert import broadcast, cast, constant, is_number, numeric, promoted_dtype
from tilewright.frontend.python.values import Tile
from tilewright.ir.core import Value
from tilewright.ir.dtypes import DType, dtype_from_short
from tilewright.ir.ops.linear import MMA_ACCUMULATORS, MMA_SCALED_BLOCKS, Mma, MmaScaled, mma_accepts
from tilewright.ir.ops.shape import Reshape
from tilewright.ir.promotion import broadcast_shapes
from tilewright.language import tiles as lang


def _matrix(ctx: Context, value: Any, name: str) -> Tile:
    if is_number(value) or not isinstance(value, Tile):
        check.wrong(ctx, name, f"must be a tile, not {describe(value)}")
    return numeric(ctx, value)


def _batch(ctx: Context, x: Value, y: Value) -> tuple[Value, Value]:
    """Two operands with equal batch dimensions."""
    m, k = x.tile.shape[-2:]
    k2, n = y.tile.shape[-2:]
    if k != k2:
        ctx.fail(
            f"tiles of shapes {x.tile.shape} and {y.tile.shape} cannot be multiplied: the last extent of the "
            f"first ({k}) must equal the last but one of the second ({k2}). ct.transpose swaps them"
        )
    batch = broadcast_shapes(x.tile.shape[:-2], y.tile.shape[:-2])
    if batch is None:
        ctx.fail(f"the batch dimensions of shapes {x.tile.shape} and {y.tile.shape} do not broadcast")
    return broadcast(ctx, x, (*batch, m, k)), broadcast(ctx, y, (*batch, k, n))


def _mma(ctx: Context, x: Any, y: Any, acc: Any, *, use_fast_acc: Any) -> Tile:
    a, b, c = _matrix(ctx, x, "x"), _matrix(ctx, y, "y"), _matrix(ctx, acc, "acc")
    fast = check.const_bool(ctx, use_fast_acc, "use_fast_acc")
    for name, tile in (("x", a), ("y", b), ("acc", c)):
        if tile.ndim < 2:
            check.wrong(
                ctx,
                name,
                f"must have two or more dimensions, not shape {tile.shape}; x[None, :] is a row, x[:, None] a "
                "column, and ct.matmul and @ take vectors",
            )
    if not mma_accepts(a.dtype, b.dtype, c.dtype):
        known = MMA_ACCUMULATORS.get(a.dtype.short, ())
        choices = " or ".join(dtype_from_short(s).name for s in known)
        advice = (
            f"{a.dtype} operands of equal dtype accumulate in {choices}" if known else f"mma does not take {a.dtype}"
        )
        ctx.fail(f"mma of {a.dtype} by {b.dtype} into {c.dtype} is not possible: {advice}")
    if fast and a.dtype.short not in ("f8e4m3fn", "f8e5m2"):
        check.wrong(ctx, "use_fast_acc", f"is for fp8 operands, not {a.dtype}")
    p, q = _batch(ctx, a.value, b.value)
    expected = (*p.tile.shape[:-1], q.tile.shape[-1])
    if c.shape != expected:
        check.wrong(ctx, "acc", f"has shape {c.shape}, but the product has shape {expected}")
    return Tile(ctx.builder.emit(Mma, p, q, c.value, fast_acc=fast))


def _matmul(ctx: Context, x: Any, y: Any) -> Tile:
    a, b = _matrix(ctx, x, "x"), _matrix(ctx, y, "y")
    if not a.ndim or not b.ndim:
        ctx.fail("matmul needs tiles of one or more dimensions, not scalars; write * for a scalar factor")
    dtype = (
        promoted_dtype(ctx, a, b) if a.dtype.short not in ("i8", "u8") or b.dtype.short not in ("i8", "u8") else None
    )
    if dtype is not None:
        accumulators = MMA_ACCUMULATORS.get(dtype.short)
        if accumulators is None:
            ctx.fail(f"matmul does not take {dtype}; convert the operands with astype")
        a, b = Tile(cast(ctx, a.value, dtype)), Tile(cast(ctx, b.value, dtype))
        result: DType = dtype
    else:
        accumulators = ("i32",)
        result = dtype_from_short("i32") if a.dtype is not b.dtype else a.dtype
    p, q = a.value, b.value
    if a.ndim == 1:
        p = ctx.builder.emit(Reshape, p, shape=(1, *a.shape))
    if b.ndim == 1:
        q = ctx.builder.emit(Reshape, q, shape=(*b.shape, 1))
    p, q = _batch(ctx, p, q)
    shape = (*p.tile.shape[:-1], q.tile.shape[-1])
    zero = constant(ctx, 0, dtype_from_short(accumulators[0]), shape)
    product = cast(ctx, ctx.builder.emit(Mma, p, q, zero), result)
    dims = list(shape)
    if b.ndim == 1:
        del dims[-1]
    if a.ndim == 1:
        del dims[-1 if b.ndim == 1 else -2]
    return Tile(product if tuple(dims) == shape else ctx.builder.emit(Reshape, product, shape=tuple(dims)))


def _mma_scaled(ctx: Context, x: Any, x_scale: Any, y: Any, y_scale: Any, acc: Any) -> Tile:
    a, b, c = _matrix(ctx, x, "x"), _matrix(ctx, y, "y"), _matrix(ctx, acc, "acc")
    s, u = _matrix(ctx, x_scale, "x_scale"), _matrix(ctx, y_scale, "y_scale")
    blocks = MMA_SCALED_BLOCKS.get((a.dtype.short, s.dtype.short))
    if a.dtype is not b.dtype or s.dtype is not u.dtype or blocks is None or c.dtype.short != "f32":
        ctx.fail(
            f"mma_scaled of {a.dtype} (scale {s.dtype}) by {b.dtype} (scale {u.dtype}) into {c.dtype} is not possible: "
            "the operands have one dtype, such as float8_e4m3fn, the scales one, as float8_e8m0fnu, and acc float32"
        )
    if min(t.ndim for t in (a, b, c, s, u)) < 2:
        ctx.fail("mma_scaled needs tiles of two or more dimensions")
    k, groups = a.shape[-1], s.shape[-1]
    good = k % groups == 0 and k // groups in blocks
    good = good and s.shape == (*a.shape[:-1], groups) and u.shape == (*b.shape[:-2], groups, b.shape[-1])
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    good = good and b.shape[-2] == k and batch is not None and c.shape == (*batch, a.shape[-2], b.shape[-1])
    if not good:
        ctx.fail(
            f"the shapes {a.shape}, {s.shape}, {b.shape}, {u.shape} and {c.shape} do not fit: for x (M, K) and "
            f"y (K, N), scales are (M, K / B) and (K / B, N) with B = {' or '.join(map(str, blocks))}, acc is (M, N)"
        )
    operands = (broadcast(ctx, t.value, (*(batch or ()), *t.shape[-2:])) for t in (a, s, b, u))
    return Tile(ctx.builder.emit(MmaScaled, *operands, c.value))


BUILDERS: dict[Any, OpBuilder] = {lang.mma: _mma, lang.matmul: _matmul, lang.mma_scaled: _mma_scaled}
OPERATORS: dict[str, OpBuilder] = {"matmul": _matmul}
