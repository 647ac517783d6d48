"""Matrix products, reductions and scans of every shape and dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from backends.cpu.comparison import compare
from support.irbuild import KernelBuilder

import tilewright as ct
from tilewright.backends.cpu.codegen.kernel import lower
from tilewright.backends.cpu.loops.pipeline import loop_form
from tilewright.backends.cpu.target import host
from tilewright.ir import dtypes
from tilewright.ir.core import Value
from tilewright.ir.dtypes import DType, float16, float32, float64, int8, int32, uint8
from tilewright.ir.enums import CmpPredicate, PaddingMode
from tilewright.ir.errors import TileUnsupportedFeatureError
from tilewright.ir.location import Loc
from tilewright.ir.ops.arith import Add, Cast, Cmp, Max, Min, Mul, Select, Sub
from tilewright.ir.ops.control import Continue, For
from tilewright.ir.ops.linear import MMA_SCALED_BLOCKS, Mma, MmaScaled, Reduce, Scan
from tilewright.ir.ops.memory import Load
from tilewright.ir.ops.shape import Broadcast, Permute
from tilewright.ir.types import TileType

MMA_TYPES = [
    (float32, float32, float32),
    (float16, float16, float32),
    (float16, float16, float16),
    (dtypes.bfloat16, dtypes.bfloat16, float32),
    (dtypes.tfloat32, dtypes.tfloat32, float32),
    (dtypes.float8_e4m3fn, dtypes.float8_e4m3fn, float32),
    (dtypes.float8_e5m2, dtypes.float8_e5m2, float16),
    (float64, float64, float64),
    (int8, int8, int32),
    (uint8, int8, int32),
    (uint8, uint8, int32),
]


def zeros(k: KernelBuilder, rank: int) -> list[Value]:
    return [k.constant(0)] * rank


def random_array(dtype: DType, shape: Sequence[int], seed: int = 0) -> np.ndarray[Any, Any]:
    """Small multiples of 1/4, which every format of more than 4 bits holds."""
    numbers = np.random.default_rng(seed).integers(-8 if dtype.is_signed else 0, 9, shape)
    return (numbers / 4 if dtype.is_floating else numbers).astype(dtype.storage)


@pytest.mark.parametrize(("x", "y", "out"), MMA_TYPES, ids=lambda t: t.short)
@pytest.mark.parametrize("shape", [(16, 32, 8), (64, 128, 32)])
def test_mma_dtypes(x: DType, y: DType, out: DType, shape: tuple[int, int, int]) -> None:
    m, n, depth = shape
    k = KernelBuilder()
    a, b, c = (k.array(name, t, 2) for name, t in (("a", x), ("b", y), ("c", out)))
    tiles = [k.load_tile(p, s, zeros(k, 2)) for p, s in ((a, (m, depth)), (b, (depth, n)), (c, (m, n)))]
    k.store_tile(c, k.emit(Mma, *tiles), zeros(k, 2))
    compare(
        k.function(),
        a=random_array(x, (m, depth)),
        b=random_array(y, (depth, n), 1),
        c=random_array(out, (m, n), 2),
    )


@pytest.mark.parametrize("dtype", [float16, float32, float64, int32], ids=lambda t: t.short)
@pytest.mark.parametrize("start", ["zero", "scaled rows", "scaled rows, kept", "scaled columns"])
def test_mma_accumulators(dtype: DType, start: str) -> None:
    """A zero, or a tile times a factor for each row, is not computed as a whole before the product is added."""
    operand = int8 if dtype is int32 else dtype
    k = KernelBuilder()
    a, b, c, f = (k.array(name, t, 3) for name, t in zip("abcf", (operand, operand, dtype, dtype)))
    x, y, old = (k.load_tile(p, s, zeros(k, 3)) for p, s in ((a, (2, 16, 8)), (b, (2, 8, 32)), (c, (2, 16, 32))))
    shape = (2, 1, 32) if start == "scaled columns" else (2, 16, 1)
    factor = k.emit(Broadcast, k.load_tile(f, shape, zeros(k, 3)), shape=(2, 16, 32))
    acc = k.emit(Mul, factor, old)
    if start == "zero":
        acc = k.constant(0, dtype, (2, 16, 32))
    result = k.emit(Mma, x, y, acc)
    if start.endswith("kept"):
        result = k.emit(Add, result, acc)
    k.store_tile(c, result, zeros(k, 3))
    compare(
        k.function(),
        a=random_array(operand, (2, 16, 8)),
        b=random_array(operand, (2, 8, 32), 1),
        c=random_array(dtype, (2, 16, 32), 2),
        f=random_array(dtype, shape, 3),
    )


@ct.kernel
def products(a, b, c, order: ct.Constant[tuple[int, int]], acc: ct.Constant[object]):
    i, k = ct.bid(0), ct.bid(1)
    x = ct.load(a, (i, k), (16, 32), order=order, padding_mode=ct.PaddingMode.ZERO)
    y = ct.load(b, (k, 0), (32, 16), padding_mode=ct.PaddingMode.ZERO)
    ct.store(c, (i, k), ct.mma(x, y, ct.ones((16, 16), acc)))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("rows", [70, 78, 96])
def test_mma_of_tiles_in_an_array(dtype: type, order: tuple[int, int], rows: int) -> None:
    """The left operand of each block lies inside the array, or is padded below, at the right, or both.

    Where both operands are padded, their products are left out, but not those of infinity with the padding of one.
    """
    numbers = np.random.default_rng(0).integers(-8, 9, (200, 90)).astype(dtype)
    left, right = numbers[:41, :75].copy(), numbers[:rows, -16:]
    left[3, 72] = right[-1, 5] = np.inf
    left = left if order == (0, 1) else left.T.copy()
    acc = ct.float64 if dtype is np.float64 else ct.float32
    found = []
    for backend in ("cpu", "reference"):
        found.append(np.zeros((48, 48), np.float64 if dtype is np.float64 else np.float32))
        with ct.use_backend(backend):
            ct.launch(None, (3, 3), products, (left, right, found[-1], order, acc))
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("m", [1, 2, 16, 128])
@pytest.mark.parametrize("n", [1, 4, 32])
@pytest.mark.parametrize("depth", [1, 2, 8])
def test_mma_shapes(m: int, n: int, depth: int) -> None:
    k = KernelBuilder()
    a, b, c = (k.array(name, float32, 2) for name in "abc")
    x, y = k.load_tile(a, (m, depth), zeros(k, 2)), k.load_tile(b, (depth, n), zeros(k, 2))
    k.store_tile(c, k.emit(Mma, x, y, k.constant(0.5, float32, (m, n))), zeros(k, 2))
    compare(
        k.function(),
        a=random_array(float32, (m, depth)),
        b=random_array(float32, (depth, n), 1),
        c=np.zeros((m, n), np.float32),
    )


@pytest.mark.parametrize(
    ("x", "y"), [(int8, int8), (uint8, int8), (int8, uint8), (uint8, uint8)], ids=lambda t: t.short
)
@pytest.mark.parametrize("shape", [(1, 16, 4), (2, 32, 8), (16, 128, 64)])
def test_mma_of_all_bytes(x: DType, y: DType, shape: tuple[int, int, int]) -> None:
    m, n, depth = shape
    k = KernelBuilder()
    a, b, c = (k.array(name, t, 3) for name, t in (("a", x), ("b", y), ("c", int32)))
    shapes = ((2, m, depth), (2, depth, n), (2, m, n))
    tiles = [k.load_tile(p, s, zeros(k, 3)) for p, s in zip((a, b, c), shapes)]
    k.store_tile(c, k.emit(Mma, *tiles), zeros(k, 3))
    numbers = np.random.default_rng(0)
    arrays = [numbers.integers(t.min, t.max, s, t.storage, endpoint=True) for t, s in zip((x, y, int32), shapes)]
    arrays[0][0, 0, :], arrays[1][0, :, 0] = x.min, y.min
    compare(k.function(), **dict(zip("abc", arrays)))


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda t: t.short)
@pytest.mark.parametrize("m", [1, 3, 8])
@pytest.mark.parametrize("shape", [(32, 64), (45, 50), (1, 1)])
@pytest.mark.parametrize("columns", [False, True])
def test_few_rows_by_a_transpose(dtype: DType, m: int, shape: tuple[int, int], columns: bool) -> None:
    """Whose lines are read in their array, or copied first where the tile of 32 x 64 leaves it. The rows are read in
    their array, too, or are ``columns`` of it."""
    k = KernelBuilder()
    a, b, c = (k.array(name, dtype, 2) for name in "abc")
    a.strides[1] = b.strides[1] = k.constant(1)
    rows = 1 << (m - 1).bit_length()
    padded: dict[str, Any] = {"padding": PaddingMode.ZERO}
    x = k.load_tile(a, (rows, 64), zeros(k, 2), order=(1, 0) if columns else None, **padded)
    lines = k.load_tile(b, (32, 64), zeros(k, 2), **padded)
    y = k.emit(Permute, lines, axes=(1, 0))
    k.store_tile(c, k.emit(Mma, x, y, k.constant(0.5, dtype, (rows, 32))), zeros(k, 2))
    n, depth = shape
    draw = np.random.default_rng(n)
    left, right = (draw.integers(-9, 9, s).astype(dtype.storage) for s in ((m, depth), (n, depth)))
    left = np.ascontiguousarray(left.T) if columns else left
    compare(k.function(), a=left, b=right, c=np.zeros((m, n), dtype.storage))
    assert ("transposed." in lower(k.function(), host()).text) == (rows <= host().vector_registers // 4)


@pytest.mark.parametrize("dtype", [dtypes.bfloat16, float32, float64, int8], ids=lambda t: t.short)
@pytest.mark.parametrize("shape", [(2, 32, 16), (2, 21, 11), (2, 1, 3)])
def test_transposed_rows(dtype: DType, shape: tuple[int, int, int]) -> None:
    """A left operand that is the transpose of a tile is read as that lies, and the tile where it is another operand."""
    k = KernelBuilder()
    out = int32 if dtype is int8 else float64 if dtype is float64 else float32
    a, c = k.array("a", dtype, 3), k.array("c", out, 3)
    tile = k.load_tile(a, (2, 32, 16), zeros(k, 3), padding=PaddingMode.ZERO)
    x = k.emit(Permute, tile, axes=(0, 2, 1))
    k.store_tile(c, k.emit(Mma, x, tile, k.constant(1, out, (2, 16, 16))), zeros(k, 3))
    compare(k.function(), a=random_array(dtype, shape), c=np.zeros((2, shape[2], shape[2]), out.storage))
    plain = host()._replace(features=host().features._replace(dot_bytes=False, dot_byte_tiles=False))
    (product,) = (op for op in loop_form(k.function(), plain).walk() if isinstance(op, Mma))
    assert isinstance(product.x.op, Permute) and product.x.op.parent is product.parent


def test_batched_and_transposed_mma() -> None:
    k = KernelBuilder()
    a, b, c = k.array("a", float16, 3), k.array("b", float16, 3), k.array("c", float32, 3)
    x = k.load_tile(a, (4, 8, 16), zeros(k, 3))
    y = k.emit(Permute, k.load_tile(b, (4, 32, 16), zeros(k, 3)), axes=(0, 2, 1))
    k.store_tile(c, k.emit(Mma, x, y, k.constant(0.0, float32, (4, 8, 32))), zeros(k, 3))
    compare(
        k.function(),
        a=random_array(float16, (4, 8, 16)),
        b=random_array(float16, (4, 32, 16), 1),
        c=np.zeros((4, 8, 32), np.float32),
    )


@pytest.mark.parametrize(("operand", "scale"), MMA_SCALED_BLOCKS)
def test_mma_scaled(operand: str, scale: str) -> None:
    element, factor = dtypes.dtype_from_short(operand), dtypes.dtype_from_short(scale)
    for block in MMA_SCALED_BLOCKS[operand, scale]:
        k = KernelBuilder()
        arrays = [k.array(n, t, 2) for n, t in (("a", element), ("s", factor), ("b", element), ("t", factor))]
        shapes = [(16, 64), (16, 64 // block), (64, 32), (64 // block, 32)]
        tiles = [k.load_tile(p, s, zeros(k, 2)) for p, s in zip(arrays, shapes)]
        out = k.array("c", float32, 2)
        k.store_tile(out, k.emit(MmaScaled, *tiles, k.constant(1.0, float32, (16, 32))), zeros(k, 2))
        numbers = np.random.default_rng(block)
        every = np.arange(1 << element.bitwidth, dtype=np.uint8)
        finite = every[np.isfinite(every.view(element.storage).astype(np.float32))]
        codes = [numbers.choice(finite, s) for s in shapes]
        for i in (1, 3):  # also far outside the range of float32, in opposite directions
            codes[i] = numbers.integers(100 * (i - 1) // 2 + 1, 100 * (i - 1) // 2 + 120, shapes[i]).astype(np.uint8)
        values = [c.view(t.storage) for c, t in zip(codes, (element, factor, element, factor))]
        compare(
            k.function(),
            a=values[0],
            s=values[1],
            b=values[2],
            t=values[3],
            c=np.zeros((16, 32), np.float32),
        )


def test_accumulation_in_a_loop_over_ragged_arrays() -> None:
    """The accumulator is carried, and tiles at the edges are padded."""
    k = KernelBuilder()
    a, b, c = (k.array(name, float32, 2) for name in "abc")
    i, j = k.bid(0), k.bid(1)
    acc_type = TileType(float32, (16, 32))
    with k.region(TileType(int32), acc_type) as body:
        step, acc = body.args
        x = k.load_tile(a, (16, 8), [i, step])
        y = k.load_tile(b, (8, 32), [step, j])
        scaled = k.emit(Mul, acc, k.constant(0.5, float32, (16, 32)))
        k.b.emit_op(Continue, [k.emit(Mma, x, y, scaled)])
    init = k.constant(0.0, float32, (16, 32))
    total = k.b.emit_op(For, k.constant(0), k.constant(3), k.constant(1), [init], body=body).results[0]
    k.store_tile(c, total, [i, j])
    compare(
        k.function(),
        (2, 2),
        a=random_array(float32, (21, 19)),
        b=random_array(float32, (19, 45), 1),
        c=np.zeros((21, 45), np.float32),
    )


@ct.kernel
def product_and_sums(a, b, c, sums, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((TM, TN), c.dtype)
    for k in range(ct.num_tiles(a, 1, (TM, TK))):
        left = ct.load(a, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, ct.load(b, (k, j), (TK, TN), padding_mode=ct.PaddingMode.ZERO), total)
    ct.store(c, (i, j), total)
    ct.store(sums, (i, j), ct.sum(total, axis=0, keepdims=True))


@pytest.mark.parametrize(("dtype", "turned"), [(float32, False), (float64, False), (float32, True)])
@pytest.mark.parametrize("tile", [(32, 32, 32), (64, 16, 8), (4, 64, 16)])
@pytest.mark.parametrize("shape", [(21, 45, 19), (33, 70, 3), (64, 64, 65), (7, 5, 130)])
def test_products_read_operands_up_to_their_ends(
    dtype: DType, turned: bool, tile: tuple[int, int, int], shape: tuple[int, int, int]
) -> None:
    """The left operand lies among numbers that are none; the right one has more rows; padded rows add zeros."""
    m, n, depth = shape
    room = np.full((depth + 9, m + 9) if turned else (m + 9, depth + 9), np.nan, dtype.storage)
    a = (room.T if turned else room)[:m, :depth]
    a[...] = random_array(dtype, (m, depth))
    b, blocks = random_array(dtype, (depth + 5, n), 1), (-(-m // tile[0]), -(-n // tile[1]))
    c, sums = np.empty((m, n), dtype.storage), np.empty((blocks[0], n), dtype.storage)
    ct.launch(None, blocks, product_and_sums, (a, b, c, sums, *tile), backend="cpu")
    wanted = a @ b[:depth]
    np.testing.assert_array_equal(c, wanted)
    parts = [wanted[i : i + tile[0]].sum(axis=0) for i in range(0, m, tile[0])]
    np.testing.assert_array_equal(sums, parts)


SHAPES = [(64,), (4, 1024), (256, 4), (8, 2), (4, 64, 2), (1, 8), (16, 1), (2, 2, 2, 2), (2048,)]
REDUCED = [float32, float16, float64, int32, int8]


@pytest.mark.parametrize("commutative", [False, True])
@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_reduce_and_scan(number: int, commutative: bool) -> None:
    """In the prescribed order, so that float sums agree in every bit. Every shape and every dtype is reduced both
    ways."""
    shape, dtype = SHAPES[number], REDUCED[(number + commutative) % len(REDUCED)]
    k = KernelBuilder()
    rank = len(shape)
    source = k.array("x", dtype, rank)
    x = k.load_tile(source, shape, zeros(k, rank))
    values = np.random.default_rng(1).normal(0, 20, shape).astype(dtype.storage)
    arrays: dict[str, Any] = {"x": values}
    for axis in range(rank):
        for op in (Add, Max):
            body = k.combiner([dtype], lambda a, b, op=op: [k.emit(op, a, b)])
            found = k.emit(Reduce, [x], axis=axis, identities=(0,), commutative=commutative, body=body)
            name = f"r{axis}{op.__name__}"
            k.store_tile(k.array(name, dtype, rank - 1), found, zeros(k, rank - 1))
            arrays[name] = np.zeros(found.tile.shape, dtype.storage)
        body = k.combiner([dtype], lambda a, b: [k.emit(Sub, a, b)])
        found = k.emit(Scan, [x], axis=axis, identities=(0,), reverse=commutative, body=body)
        k.store_tile(k.array(f"s{axis}", dtype, rank), found, zeros(k, rank))
        arrays[f"s{axis}"] = np.zeros(shape, dtype.storage)
    compare(k.function(), **arrays)


def test_running_extremes_of_what_is_no_nan() -> None:
    """LLVM knows that of converted integers."""
    k = KernelBuilder()
    x = k.emit(Cast, k.load_tile(k.array("x", int32, 2), (4, 64), zeros(k, 2)), dtype=float32)
    arrays: dict[str, Any] = {"x": np.random.default_rng(0).integers(-99, 99, (4, 64)).astype(np.int32)}
    for op in (Max, Min):
        for axis, reverse in ((0, False), (1, True)):
            body = k.combiner([float32], lambda a, b, op=op: [k.emit(op, a, b)])
            found = k.emit(Scan, [x], axis=axis, identities=(0,), reverse=reverse, body=body)
            k.store_tile(k.array(f"{op.__name__}{axis}", float32, 2), found, zeros(k, 2))
            arrays[f"{op.__name__}{axis}"] = np.zeros((4, 64), np.float32)
    compare(k.function(), **arrays)


@pytest.mark.parametrize("axis", [0, 1])
def test_reduce_of_two_tiles_with_a_captured_scalar(axis: int) -> None:
    k = KernelBuilder()
    source, factor = k.array("x", float32, 2), k.scalar("factor", float32)
    x = k.load_tile(source, (16, 128), zeros(k, 2))
    scaled = k.emit(Mul, x, k.fill(factor, (16, 128)))

    def combine(a: Value, i: Value, b: Value, j: Value) -> list[Value]:
        larger = k.emit(Cmp, a, k.emit(Mul, b, factor), predicate=CmpPredicate.GT)
        return [k.emit(Select, larger, a, b), k.emit(Select, larger, i, j)]

    body = k.combiner([float32, int32], combine)
    op = k.b.emit_op(Reduce, [scaled, k.iota(16, 128)], axis=axis, identities=(0.0, 0), commutative=True, body=body)
    shape = op.results[0].tile.shape
    k.store_tile(k.array("value", float32, 1), op.results[0], zeros(k, 1))
    k.store_tile(k.array("index", int32, 1), k.emit(Cast, op.results[1], dtype=int32), zeros(k, 1))
    compare(
        k.function(),
        x=np.random.default_rng(2).normal(0, 1, (16, 128)).astype(np.float32),
        factor=1.25,
        value=np.zeros(shape, np.float32),
        index=np.zeros(shape, np.int32),
    )


def test_a_combiner_with_memory_access_is_not_supported() -> None:
    k = KernelBuilder()
    k.b.loc = Loc("kernel.py", 3, 8)
    source = k.array("x", float32, 1)
    x = k.load_tile(source, (8,), zeros(k, 1))

    def combine(a: Value, b: Value) -> list[Value]:
        return [k.emit(Add, a, k.emit(Load, source.base, None, None))]

    k.b.emit_op(Reduce, [x], axis=0, identities=(0.0,), commutative=True, body=k.combiner([float32], combine))
    with pytest.raises(TileUnsupportedFeatureError, match="a combiner of reduce or scan") as caught:
        lower(k.function(), host())
    assert caught.value.loc == Loc("kernel.py", 3, 8)


@ct.kernel
def byte_product(a, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    total = ct.zeros((M, N), ct.int32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        left = ct.load(a, (ct.bid(0), k), (M, K), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (k, ct.bid(1)), (K, N), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, right, total)
    ct.store(c, (ct.bid(0), ct.bid(1)), total)


@pytest.mark.parametrize(
    ("shape", "turned"),
    [*(((50, 70, 90), names) for names in ("", "a", "b", "ab")), ((64, 64, 128), "b"), ((3, 100, 65), "a")],
)
@pytest.mark.parametrize("kinds", [(np.int8, np.int8), (np.uint8, np.int8), (np.uint8, np.uint8)])
def test_bytes_where_they_lie(kinds: tuple[Any, Any], shape: tuple[int, int, int], turned: str) -> None:
    """Operands in arrays that tiles leave, row by row or column by column."""
    m, n, k = shape
    draw = np.random.default_rng(0).integers
    a, b = (draw(0, 256, s, dtype=np.uint8).view(kind) for s, kind in zip(((m, k), (k, n)), kinds))
    a, b = (np.asfortranarray(x) if name in turned else x for name, x in (("a", a), ("b", b)))
    c = np.empty((m, n), np.int32)
    ct.launch(None, (-(-m // 32), -(-n // 32)), byte_product, (a, b, c, 32, 32, 64), backend="cpu")
    np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32))
