"""How many warps suit a kernel: few where they wait for each other, more where tiles are large."""

from __future__ import annotations

import numpy as np
import pytest
from support.irbuild import KernelBuilder

import tilewright as ct
from tilewright.analysis.gpu.warps import suitable_warps
from tilewright.ir.core import Block, Function
from tilewright.ir.dtypes import DType, bfloat16, float32
from tilewright.ir.gpu_stage import DEEPER, num_warps
from tilewright.ir.ops.arith import Add, Cast, Max, Mul
from tilewright.ir.ops.control import Yield
from tilewright.ir.ops.linear import Reduce
from tilewright.ir.types import TileType
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.lowering import lower_to_gpu
from tilewright.transforms.pipelines import optimize


def streamed(columns: int, dtype: DType) -> Function:
    k = KernelBuilder()
    x, y = k.array("x", dtype, 1), k.array("y", dtype, 1)
    tile = k.load_tile(x, (columns,), [k.bid(0)])
    k.store_tile(y, k.emit(Add, tile, tile), [k.bid(0)])
    return k.function()


def reduced(columns: int, dtype: DType, *, beside: bool = False) -> Function:
    """With ``beside``, what is reduced is the product of two tiles that are loaded."""
    k = KernelBuilder()
    x, y = k.array("x", dtype, 1), k.array("y", float32, 1)
    tile = k.load_tile(x, (columns,), [k.bid(0)])
    wide = tile if dtype is float32 else k.emit(Cast, tile, dtype=float32)
    if beside:
        other = k.load_tile(k.array("z", dtype, 1), (columns,), [k.bid(0)])
        wide = k.emit(Mul, wide, k.emit(Cast, other, dtype=float32))
    body = Block((TileType(float32), TileType(float32)))
    with k.b.at(body):
        k.b.emit_op(Yield, [k.b.emit(Max, *body.args)])
    most = k.emit(Reduce, [wide], axis=0, identities=(0.0,), commutative=True, body=body)
    k.store_tile(y, k.emit(Add, wide, k.fill(most, (columns,))), [k.bid(0)])
    return k.function()


@pytest.mark.parametrize(
    ("make", "columns", "dtype", "warps"),
    [
        (streamed, 1024, bfloat16, 2),
        (streamed, 4096, bfloat16, 8),
        (streamed, 1 << 17, float32, 32),
        (reduced, 1024, bfloat16, 1),
        (reduced, 8192, bfloat16, 8),
        (reduced, 8192, float32, 8),
        (reduced, 16384, bfloat16, 16),
        (reduced, 32768, bfloat16, 16),
        (reduced, 1 << 16, bfloat16, 16),
        (reduced, 1 << 17, bfloat16, 32),
    ],
)
def test_warps(make: object, columns: int, dtype: DType, warps: int) -> None:
    assert callable(make)
    assert suitable_warps(make(columns, dtype)) == warps


@pytest.mark.parametrize(("columns", "many", "one"), [(1024, 1, 2), (4096, 4, 8), (16384, 16, 16)])
def test_a_block_alone_on_an_sm_has_more_warps(columns: int, many: int, one: int) -> None:
    function = reduced(columns, bfloat16)
    assert [suitable_warps(function, blocks=blocks) for blocks in (0, 2, 1)] == [many, many, one]
    lowered = lower_to_gpu(function, None)
    assert (DEEPER in lowered.hints) == (many != one)
    assert num_warps(lower_to_gpu(function, None, blocks=1)) == one


def test_all_rows_that_a_block_waits_for_are_bytes_under_way() -> None:
    """Of one row of two an SM would have too few with one CTA, which then has as many warps as suit the arithmetic."""
    assert suitable_warps(reduced(16384, bfloat16, beside=True)) == 16


@ct.kernel
def copied(x, y, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (T,)))


@ct.kernel
def added(x, y, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (T,)) + ct.load(y, (ct.bid(0),), (T,)))


@ct.kernel
def exponentials(x, y, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    ct.store(out, (ct.bid(0),), ct.exp(ct.load(x, (ct.bid(0),), (T,))))


def test_nothing_but_numbers_is_reduced() -> None:
    """Places alone need no registers."""

    @ct.kernel
    def largest(out):  # type: ignore[no-untyped-def]
        table = ct.arange(16, dtype=ct.int32).reshape((4, 4)) * 7 % 16
        ct.store(out, index=(0, 0), tile=ct.max(table, axis=1, keepdims=True))

    arguments = (np.zeros((4, 1), np.int32),)
    assert suitable_warps(optimize(specialization(largest, arguments, "reference").function)) == 1


@pytest.mark.parametrize(
    ("kernel", "dtype", "first", "warps"),
    [
        (copied, np.float16, 0, 16),
        (copied, np.float32, 0, 16),
        (added, np.float32, 0, 16),
        (exponentials, np.float32, 0, 8),
        (copied, np.float16, 1, 4),
        (copied, np.float32, 1, 8),
        (added, np.float16, 1, 8),
        (added, np.float32, 1, 16),
    ],
)
def test_warps_to_move_4096_elements(kernel: ct.Kernel, dtype: type, first: int, warps: int) -> None:
    """More where little is computed, and fewer of what does not begin on 16 bytes."""
    arrays = [np.zeros(4096 + 1, dtype)[first : 4096 + first] for _ in range(3)]
    assert suitable_warps(optimize(specialization(kernel, (*arrays, 4096), "reference").function)) == warps


@ct.kernel
def step(state, key, out, D: ct.Constant[int], T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    tile = ct.load(state, (0, ct.bid(0)), (D, T))
    known = ct.sum(tile * ct.load(key, (0,), (D,))[:, None], axis=0, keepdims=True)
    ct.store(out, (0, ct.bid(0)), tile - known)


@pytest.mark.parametrize(("columns", "warps"), [(32, 2), (64, 4), (128, 8)])
def test_fewer_warps_share_columns_that_are_reduced(columns: int, warps: int) -> None:
    arrays = np.zeros((128, 256), np.float32), np.zeros(128, np.float32), np.zeros((128, 256), np.float32)
    function = optimize(specialization(step, (*arrays, 128, columns), "reference").function)
    assert suitable_warps(function) == warps


@ct.kernel
def normed(x, out, C: ct.Constant[int], T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    v = ct.load(x, (0, ct.bid(0)), (C, T)).astype(ct.float32)
    d = v - ct.sum(v, axis=0, keepdims=True) / C
    ct.store(out, (0, ct.bid(0)), (d * ct.rsqrt(ct.sum(d * d, axis=0, keepdims=True) / C)).astype(out.dtype))


def test_two_blocks_that_reduce_many_columns_have_room() -> None:
    arrays = np.zeros((1024, 256), np.float16), np.zeros((1024, 256), np.float16)
    function = optimize(specialization(normed, (*arrays, 1024, 16), "reference").function)
    assert suitable_warps(function) == 4


@pytest.mark.parametrize(("columns", "warps", "seeking"), [(1024, 1, 1), (2048, 1, 1), (4096, 2, 1), (8192, 4, 4)])
def test_loops_that_add_sums_up_wait_for_nobody(columns: int, warps: int, seeking: int) -> None:
    """Nor does one warp, where each iteration asks for the largest number."""

    @ct.kernel
    def totals(x, sums, seeks: ct.Constant[bool], T: ct.Constant[int]):  # type: ignore[no-untyped-def]
        s, top = 0.0, 0.0
        for j in range(x.shape[0]):
            v = ct.load(x, (j, 0), (1, T))
            s += ct.sum(v)
            if seeks:
                top = max(top, ct.max(v))
        ct.scatter(sums, 0, s + top)

    x = np.zeros((8, columns), np.float32)
    for seeks, count in ((False, warps), (True, seeking)):
        function = optimize(specialization(totals, (x, x[0], seeks, columns), "reference").function)
        assert suitable_warps(function) == count


@ct.kernel
def scan(x, decay, keys, out, T: ct.Constant[int], N: ct.Constant[int]):  # type: ignore[no-untyped-def]
    slowed, state = ct.load(decay, (ct.bid(0), 0), (T, N)), ct.zeros((T, N), ct.float32)
    for t in range(x.shape[0]):
        state = state * slowed + ct.load(x, (t, ct.bid(0)), (1, T)).reshape((T, 1)) * ct.load(keys, (t, 0), (1, N))
        ct.store(out, (t, ct.bid(0)), ct.sum(state, axis=1).reshape((1, T)))


@pytest.mark.parametrize(("channels", "warps"), [(32, 2), (64, 4), (128, 8)])
def test_warps_of_recurrences_follow_from_their_states(channels: int, warps: int) -> None:
    arrays = [np.zeros(shape, np.float32) for shape in ((64, 256), (256, 16), (64, 16), (64, 256))]
    function = optimize(specialization(scan, (*arrays, channels, 16), "reference").function)
    assert suitable_warps(function) == warps


def test_no_loop_spills() -> None:
    """A loop that reduces 16,384 numbers, and one that stores as many, have 16 warps, as four would spill."""

    @ct.kernel
    def rows(x, out):  # type: ignore[no-untyped-def]
        top, total = ct.full((1, 1), -np.inf, ct.float32), ct.zeros((1, 1), ct.float32)
        for j in range(8):
            values = ct.load(x, (0, j), (1, 16384)).astype(ct.float32)
            new_top = ct.maximum(top, ct.max(values, axis=1, keepdims=True))
            total = total * ct.exp(top - new_top) + ct.sum(ct.exp(values - new_top), axis=1, keepdims=True)
            top = new_top
        for j in range(8):
            values = ct.load(x, (0, j), (1, 16384)).astype(ct.float32)
            wanted = ct.arange(16384, dtype=ct.int32)[None, :] == j
            ct.store(out, (0, j), (ct.exp(values - top) / total - ct.where(wanted, 1.0, 0.0)).astype(out.dtype))

    arrays = [np.zeros((1, 8 * 16384), np.float16) for _ in range(2)]
    assert suitable_warps(optimize(specialization(rows, tuple(arrays), "reference").function)) == 16


def test_loops_that_add_up_tiles_have_as_many_warps_as_move_them() -> None:
    """What a loop carries is reduced after it."""

    @ct.kernel
    def columns(x, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
        total = ct.zeros((T,), ct.float32)
        for j in range(8):
            total += ct.exp(ct.load(x, (0, j), (1, T)).reshape((T,)).astype(ct.float32))
        ct.store(out, (0,), ct.sum(total, keepdims=True))

    arrays = np.zeros((1, 1 << 15), np.float16), np.zeros(1, np.float32)
    functions = [specialization(columns, (*arrays, T), "reference").function for T in (512, 1024, 4096)]
    assert [suitable_warps(optimize(function)) for function in functions] == [1, 1, 8]


@pytest.mark.parametrize(
    ("dtype", "tile", "warps"), [(np.float16, 32, 2), (np.float16, 64, 4), (np.float32, 64, 2), (np.float32, 128, 4)]
)
def test_small_products_have_two_warps(dtype: type, tile: int, warps: int) -> None:
    @ct.kernel
    def product(x, y, out):  # type: ignore[no-untyped-def]
        total = ct.mma(
            ct.load(x, (0, 0), (tile, 32)), ct.load(y, (0, 0), (32, tile)), ct.zeros((tile, tile), ct.float32)
        )
        ct.store(out, (0, 0), total)

    arrays = np.zeros((tile, 32), dtype), np.zeros((32, tile), dtype), np.zeros((tile, tile), np.float32)
    assert suitable_warps(optimize(specialization(product, arrays, "reference").function)) == warps
