"""Views of every kind, pointers, atomics and strong accesses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends.cpu.comparison import compare
from support.irbuild import KernelBuilder, run

from tilewright.backends.cpu import BACKEND
from tilewright.backends.reference import BACKEND as REFERENCE
from tilewright.ir import dtypes
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType, bool_, float16, float32, int32, int64
from tilewright.ir.enums import AtomicKind, CmpPredicate, MemoryOrder, MemoryScope, PaddingMode
from tilewright.ir.ops.arith import Add, And, Cast, Cmp, Mul, Sub
from tilewright.ir.ops.control import Break, Continue, If, Loop, Yield
from tilewright.ir.ops.memory import (
    ATOMIC_DTYPES,
    CAS_DTYPES,
    AtomicCas,
    AtomicRmw,
    AtomicView,
    Load,
    LoadView,
    LocalArray,
    MakePartitionView,
    MakeTensorView,
    Store,
    StoreView,
)
from tilewright.ir.ops.shape import Broadcast, Cat, IntToPtr, Permute, PtrDiff, PtrOffset, PtrToInt, Reshape
from tilewright.ir.types import PartitionViewType, PointerType, TensorViewType

STRONG = {"memory_order": MemoryOrder.ACQ_REL, "memory_scope": MemoryScope.DEVICE}


@pytest.mark.parametrize("dtype", dtypes.ALL_DTYPES, ids=lambda t: t.short)
def test_every_dtype_and_padding(dtype: DType) -> None:
    """Copies of a ragged array, in tiles that stick out, and its complete padded tiles."""
    codes = np.arange(37 * dtype.bytes, dtype=np.uint8) * 7
    source = (codes % 2 if dtype.is_bool else codes % 16 if dtype.bitwidth == 4 else codes).view(dtype.storage)
    if dtype is dtypes.tfloat32 or (dtype.is_floating and dtype.bitwidth > 8):
        source = np.linspace(-4, 4, 37).astype(np.float16).astype(dtype.storage)
    k = KernelBuilder()
    x, arrays = k.array("x", dtype, 1), {"x": source}
    for padding in (PaddingMode.ZERO, PaddingMode.NEG_INF, PaddingMode.NAN, PaddingMode.NEG_ZERO):
        tile = k.load_tile(x, (16,), [k.bid(0)], padding=padding)
        for size, name in ((37, f"y {padding.name}"), (64, f"whole {padding.name}")):
            k.store_tile(k.array(name, dtype, 1), tile, [k.bid(0)])
            arrays[name] = np.zeros(size, dtype.storage)
    compare(k.function(), (4,), **arrays)


def strided(shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """An int32 array with the given element strides, any sign."""
    low = sum(min(s, 0) * (n - 1) for n, s in zip(shape, strides))
    high = sum(max(s, 0) * (n - 1) for n, s in zip(shape, strides))
    memory = np.arange(high - low + 1, dtype=np.int32)
    array: np.ndarray[Any, Any] = np.ndarray(shape, np.int32, memory.data, -low * 4, [4 * s for s in strides])
    return array


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize(
    ("shape", "strides", "tile", "order"),
    [
        ((), (), (), ()),
        ((5,), (0,), (4,), (0,)),
        ((9,), (-1,), (4,), (0,)),
        ((9,), (-3,), (1,), (0,)),
        ((7, 9), (9, 1), (4, 8), (0, 1)),
        ((7, 9), (1, 7), (4, 8), (0, 1)),
        ((7, 9), (9, 1), (8, 2), (1, 0)),
        ((40, 40), (40, 1), (32, 32), (1, 0)),
        ((3, 5, 7), (35, 7, 1), (2, 4, 4), (2, 0, 1)),
        ((3, 5, 7), (-35, 0, 2), (2, 4, 1), (0, 2, 1)),
        ((2, 3, 2, 3, 5), (90, 30, 15, 5, 1), (2, 2, 1, 2, 4), (0, 1, 2, 3, 4)),
    ],
)
def test_strides_and_orders(
    shape: tuple[int, ...], strides: tuple[int, ...], tile: tuple[int, ...], order: tuple[int, ...], static: bool
) -> None:
    """Every tile, those outside included, goes to a dense array; and adds one to the strided one."""
    rank = len(shape)
    k = KernelBuilder()
    x, out = k.array("x", int32, rank), k.array("out", int32, rank)
    if static:
        view_type = TensorViewType(int32, shape, strides)
        view = k.emit(MakeTensorView, x.base, [], [], type=view_type)
        view = k.emit(MakePartitionView, view, type=PartitionViewType(view_type, tile, order, PaddingMode.ZERO, tile))
    else:
        view = k.view(x, tile, order)
    block = [k.bid(0)] * rank
    value = k.emit(LoadView, view, block, in_bounds=(False,) * rank)
    k.store_tile(out, value, block)
    if 0 not in strides:
        one = k.constant(1, int32, tile)
        k.b.emit_op(StoreView, view, k.emit(Add, value, one), block, in_bounds=(False,) * rank)
    compare(k.function(), (4,), x=strided(shape, strides), out=np.zeros([4 * n for n in tile], np.int32))


@pytest.mark.parametrize("dtype", [float32, float16, int64, dtypes.int8, bool_], ids=lambda t: t.short)
@pytest.mark.parametrize("shape", [(64, 32), (4, 4), (2, 128)])
def test_transposed_copies(dtype: DType, shape: tuple[int, int]) -> None:
    """Of a view, of a computed tile, and within a loop."""
    k = KernelBuilder()
    x, y, z = k.array("x", dtype, 2), k.array("y", dtype, 2), k.array("z", dtype, 2)
    view_type = TensorViewType(dtype, (60, 30), (30, 1))
    view = k.emit(MakeTensorView, x.base, [], [], type=view_type)
    partition = PartitionViewType(view_type, shape, (0, 1), PaddingMode.ZERO, shape)
    index = [k.bid(0), k.constant(0)]
    tile = k.emit(LoadView, k.emit(MakePartitionView, view, type=partition), index, in_bounds=(False, False))
    k.store_tile(y, k.emit(Permute, tile, axes=(1, 0)), index[::-1])
    k.store_tile(
        z, k.emit(Permute, k.emit(Cast, k.emit(Cast, tile, dtype=float32), dtype=dtype), axes=(1, 0)), index[::-1]
    )
    source = (np.arange(1800) % 101).astype(dtype.storage).reshape(60, 30)
    flipped = np.zeros((30, 60), dtype.storage)
    compare(k.function(), (-(-60 // shape[0]),), x=source, y=flipped, z=flipped)


@pytest.mark.parametrize("offset", [-1, 0, 1, 8])
@pytest.mark.parametrize("size", [64, 61])
def test_overlapping_arrays(offset: int, size: int) -> None:
    """All elements are loaded before any is stored, though the loops are fused."""
    memory = np.arange(200, dtype=np.float32)
    k = KernelBuilder()
    x, y = k.array("x", float32, 1), k.array("y", float32, 1)
    tile = k.load_tile(x, (64,), [k.constant(0)])
    k.store_tile(y, k.emit(Add, tile, tile), [k.constant(0)])
    function = k.function()
    source, target = memory[20 : 20 + size], memory[20 + offset : 20 + offset + size]
    expected = source * 2
    run(BACKEND, function, x=source, y=target)
    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize(
    ("kind", "short"), [(kind, short) for kind, shorts in ATOMIC_DTYPES.items() for short in shorts]
)
def test_atomic_rmw(kind: AtomicKind, short: str) -> None:
    dtype = dtypes.dtype_from_short(short)
    k = KernelBuilder()
    x, old, y = k.array("x", dtype, 1), k.array("old", dtype, 1), k.array("y", dtype, 1)
    offsets = k.iota(16)
    value = k.emit(Cast, k.iota(16), dtype=dtype)
    odd = k.emit(Cmp, offsets, k.constant(11, int32, (16,)), predicate=CmpPredicate.LT)
    found = k.emit(AtomicRmw, k.pointers(x, offsets), value, odd, kind=kind, **STRONG)
    k.store_tile(old, found, [k.constant(0)])
    k.b.emit_op(AtomicView, k.view(y, (16,)), value, [k.constant(0)], kind=kind)
    compare(
        k.function(),
        x=(np.arange(16) % 5).astype(dtype.storage),
        old=np.zeros(16, dtype.storage),
        y=(np.arange(13) % 7).astype(dtype.storage),
    )


@pytest.mark.parametrize("limit", [0, 50, 64, 100])
def test_masks_of_atomics(limit: int) -> None:
    """Of a tile that is masked nowhere, here and there, or everywhere, by a number known at run time only."""
    k = KernelBuilder()
    x, old, y = (k.array(name, int32, 1) for name in ("x", "old", "y"))
    bound = k.load_tile(k.array("bound", int32, 1), (1,), [k.constant(0)])
    places = k.load_tile(k.array("places", int32, 1), (64,), [k.constant(0)])
    inside = k.emit(Cmp, places, k.emit(Broadcast, bound, shape=(64,)), predicate=CmpPredicate.LT)
    options = {"kind": AtomicKind.ADD, **STRONG}
    found = k.emit(AtomicRmw, k.pointers(x, places), places, inside, **options)
    k.store_tile(old, found, [k.constant(0)])
    k.emit(AtomicRmw, k.pointers(x, places), places, inside, **options)  # whose result nobody needs
    k.b.emit_op(AtomicView, k.view(y, (64,)), places, [k.constant(0)], kind=AtomicKind.ADD)
    compare(
        k.function(),
        x=np.zeros(64, np.int32),
        old=np.zeros(64, np.int32),
        y=np.zeros(max(limit, 1), np.int32),
        bound=np.array([limit], np.int32),
        places=np.random.default_rng(0).integers(0, 64, 64, np.int32),
    )


@pytest.mark.parametrize("target", [0, 40, 640])
@pytest.mark.parametrize("limits", [(16, 32), (12, 32), (16, 30), (-1, 32)])
def test_rows_through_pointers(limits: tuple[int, int], target: int) -> None:
    """Of 16 x 32 elements to places that may be those of other rows; some rows and columns are masked."""
    k = KernelBuilder()
    table, out = k.array("table", int32, 1), k.array("out", int32, 1)
    ends = [k.load_tile(k.array(name, int32, 1), (1,), [k.constant(0)]) for name in ("rows", "columns")]
    picked = k.load_tile(k.array("picked", int32, 1), (16,), [k.constant(0)])
    shape = (16, 32)

    def spread(v: Value, tile: tuple[int, ...]) -> Value:
        wide = k.emit(Cast, k.emit(Reshape, v, shape=tile), dtype=int64)
        return k.emit(Broadcast, wide, shape=shape)

    row, column = spread(picked, (16, 1)), spread(k.iota(32), (1, 32))
    inside = [k.emit(Cmp, v, spread(end, (1, 1)), predicate=CmpPredicate.LT) for v, end in zip((row, column), ends)]
    start = k.emit(Cmp, row, k.constant(0, int64, shape), predicate=CmpPredicate.GE)
    mask = k.emit(And, k.emit(And, *inside), start)
    place = k.emit(Add, k.emit(Mul, row, k.constant(40, int64, shape)), column)
    other = k.emit(Add, k.constant(7, int32, shape), k.constant(0, int32, shape))
    tile = k.emit(Load, k.pointers(table, place), mask, other)
    k.store_tile(out, k.emit(Reshape, tile, shape=(512,)), [k.constant(0)])
    numbers = {
        "rows": np.array(limits[:1], np.int32),
        "columns": np.array(limits[1:], np.int32),
        "picked": np.random.default_rng(0).permutation(16).astype(np.int32),
    }
    found = []
    for backend in (REFERENCE, BACKEND):
        memory = np.arange(1200, dtype=np.int32)
        run(backend, k.function(), table=memory[:640], out=memory[target : target + 512], **numbers)
        found.append(memory)
    np.testing.assert_array_equal(found[1], found[0])


@pytest.mark.parametrize("short", CAS_DTYPES)
def test_atomic_cas(short: str) -> None:
    dtype = dtypes.dtype_from_short(short)
    k = KernelBuilder()
    x, old = k.array("x", dtype, 1), k.array("old", dtype, 1)
    value = k.emit(Cast, k.iota(8), dtype=dtype)
    even = k.emit(Cmp, k.iota(8), k.constant(5, int32, (8,)), predicate=CmpPredicate.LT)
    desired = k.emit(Add, value, value)
    found = k.emit(AtomicCas, k.pointers(x, k.iota(8)), value, desired, even, **STRONG)
    k.store_tile(old, found, [k.constant(0)])
    compare(k.function(), x=(np.arange(8) // 2 * 2).astype(dtype.storage), old=np.zeros(8, dtype.storage))


@pytest.mark.parametrize("dtype", [float32, float16, int64, bool_], ids=lambda t: t.short)
def test_strong_loads_and_stores(dtype: DType) -> None:
    k = KernelBuilder()
    x, y, z = (k.array(n, dtype, 1) for n in "xyz")
    mask = k.emit(Cmp, k.iota(16), k.constant(9, int32, (16,)), predicate=CmpPredicate.LT)
    acquire = {"memory_order": MemoryOrder.ACQUIRE, "memory_scope": MemoryScope.SYS}
    release = {"memory_order": MemoryOrder.RELEASE, "memory_scope": MemoryScope.SYS}
    a = k.emit(Load, k.pointers(x, k.iota(16)), mask, None, **acquire)
    b = k.emit(LoadView, k.view(x, (16,)), [k.constant(0)], in_bounds=(False,), **acquire)
    k.b.emit_op(Store, k.pointers(y, k.iota(16)), a, mask, **release)
    k.b.emit_op(StoreView, k.view(z, (16,)), b, [k.constant(0)], in_bounds=(False,), **release)
    source = (np.arange(9) % 3).astype(dtype.storage)
    compare(k.function(), x=source, y=np.zeros_like(source), z=np.zeros_like(source))


def test_pointer_arithmetic() -> None:
    k = KernelBuilder()
    x, out = k.array("x", int32, 1), k.array("out", int64, 1)
    ptrs = k.pointers(x, k.iota(8))
    address = k.emit(PtrToInt, ptrs, dtype=int64)
    again = k.emit(IntToPtr, address, dtype=PointerType(int32))
    further = k.emit(PtrOffset, again, k.constant(3, int32, (8,)))
    k.store_tile(
        out, k.emit(PtrDiff, further, k.emit(Broadcast, k.fill(x.base, (1,)), shape=(8,)), dtype=int64), [k.constant(0)]
    )
    k.b.emit_op(Store, further, k.emit(Load, again, None, None), None)
    compare(k.function(), x=np.arange(11, dtype=np.int32), out=np.zeros(8, np.int64))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("masked", [True, False])
def test_gather_and_scatter_of_rows(stride: int, masked: bool) -> None:
    """Offsets row * 100 + stride * column + start, in 64 bits: rows are runs of elements if stride is 1."""
    k = KernelBuilder()
    x, out = k.array("x", float16, 1), k.array("out", float16, 1)
    shape = (4, 32)
    rows = k.emit(Broadcast, k.emit(Reshape, k.iota(4), shape=(4, 1)), shape=shape)
    columns = k.emit(Broadcast, k.emit(Reshape, k.iota(32), shape=(1, 32)), shape=shape)
    start = k.fill(k.emit(Mul, k.bid(0), k.constant(7)), shape)
    offsets = k.emit(Add, k.emit(Mul, rows, k.constant(100, int32, shape)), k.emit(Add, columns, start))
    if stride == 2:
        offsets = k.emit(Add, offsets, columns)
    offsets = k.emit(Cast, offsets, dtype=int64)
    mask = k.emit(Cmp, columns, k.constant(21, int32, shape), predicate=CmpPredicate.LT) if masked else None
    padding = k.constant(-1.0, float16, shape) if masked else None
    value = k.emit(Load, k.pointers(x, offsets), mask, padding)
    k.b.emit_op(Store, k.pointers(out, offsets), k.emit(Add, value, value), mask)
    source = (np.arange(400) % 61).astype(np.float16)
    compare(k.function(), (3,), x=source, out=np.zeros(400, np.float16))


def test_sum_by_atomics_over_many_blocks() -> None:
    k = KernelBuilder()
    total = k.array("total", float32, 1)
    one = k.constant(1.0, float32, (1,))
    k.emit(AtomicRmw, k.pointers(total, k.iota(1)), one, None, kind=AtomicKind.ADD, **STRONG)
    result = np.zeros(1, np.float32)
    run(BACKEND, k.function(), (1000, 3), total=result)
    assert result[0] == 3000


@pytest.mark.parametrize("first", [0, 1, 3])
@pytest.mark.parametrize("dtype", [float32, float16, dtypes.bfloat16, dtypes.float64], ids=lambda t: t.short)
def test_sums_of_neighbours_over_many_blocks(dtype: DType, first: int) -> None:
    """Some of which one swap adds to, wherever the array begins, and with masks that end among them."""
    k = KernelBuilder()
    total, places, ones = k.array("total", dtype, 1), k.iota(32), k.constant(1.0, dtype, (32,))
    inside = k.emit(Cmp, places, k.constant(29, int32, (32,)), predicate=CmpPredicate.LT)
    k.emit(AtomicRmw, k.pointers(total, places), ones, inside, kind=AtomicKind.ADD, **STRONG)
    k.b.emit_op(AtomicView, k.view(total, (32,)), ones, [k.constant(0)], kind=AtomicKind.ADD)
    found = [np.zeros(40, dtype.storage) for _ in range(2)]
    for backend, array in zip((BACKEND, REFERENCE), found):
        run(backend, k.function(), (40, 3), total=array[first : first + 31])
    np.testing.assert_array_equal(*found)


def _wait_for(k: KernelBuilder, flag: Value, wanted: Value) -> Op:
    """A loop that ends when ``*flag`` equals ``wanted``."""
    with k.region() as body:
        seen = k.emit(Load, flag, None, None, memory_order=MemoryOrder.ACQUIRE, memory_scope=MemoryScope.DEVICE)
        with k.region() as then:
            k.b.emit_op(Break, [])
        with k.region() as orelse:
            k.b.emit_op(Yield, [])
        condition = k.emit(Cmp, seen, wanted, predicate=CmpPredicate.EQ)
        k.b.emit_op(If, condition, types=(), then=then, orelse=orelse)
        k.b.emit_op(Continue, [])
    return k.b.emit_op(Loop, [], types=(), body=body)


def test_blocks_that_wait_for_later_blocks() -> None:
    """Each block waits until the next one has raised the ticket: none may keep the others from running."""
    k = KernelBuilder()
    ticket = k.array("ticket", int32, 1)
    mine = k.emit(Sub, k.constant(15), k.bid(0))
    _wait_for(k, ticket.base, mine)
    following = k.emit(Add, mine, k.constant(1))
    release = {"memory_order": MemoryOrder.RELEASE, "memory_scope": MemoryScope.DEVICE}
    k.b.emit_op(Store, ticket.base, following, None, **release)
    counter = np.zeros(1, np.int32)
    run(BACKEND, k.function(), (16,), ticket=counter)
    assert counter[0] == 16


def test_view_chosen_at_run_time() -> None:
    """Views travel through branches."""
    k = KernelBuilder()
    x, y, out = k.array("x", float32, 1), k.array("y", float32, 1), k.array("out", float32, 1)
    views = [k.view(a, (8,)) for a in (x, y)]
    regions = []
    for view in views:
        with k.region() as region:
            k.b.emit_op(Yield, [view])
        regions.append(region)
    condition = k.emit(Cmp, k.bid(0), k.constant(0), predicate=CmpPredicate.EQ)
    chosen = k.b.emit_op(If, condition, types=(views[0].type,), then=regions[0], orelse=regions[1]).results[0]
    k.store_tile(out, k.emit(LoadView, chosen, [k.constant(0)], in_bounds=(False,)), [k.bid(0)])
    source = np.arange(14, dtype=np.float32)
    compare(k.function(), (2,), x=source[:6], y=source[6::2], out=np.zeros(16, np.float32))


@pytest.mark.parametrize("dtype", [dtypes.int8, bool_, float16, dtypes.bfloat16, dtypes.float8_e4m3fn, int64], ids=str)
def test_local_arrays_belong_to_their_block(dtype: DType) -> None:
    """Each block reverses its part of x through an array of its own; another array keeps it as it was."""
    k = KernelBuilder()
    x, y = k.array("x", dtype, 1), k.array("y", dtype, 1)
    lane = k.iota(8)
    first, second = (k.fill(k.emit(LocalArray, dtype=dtype, count=8), (8,)) for _ in range(2))
    tile = k.load_tile(x, (8,), [k.bid(0)])
    k.b.emit_op(Store, k.emit(PtrOffset, first, lane), tile, None)
    k.b.emit_op(Store, k.emit(PtrOffset, second, lane), tile, None)
    back = k.emit(PtrOffset, first, k.emit(Sub, k.fill(k.constant(7), (8,)), lane))
    reversed_, kept = k.emit(Load, back, None, None), k.emit(Load, k.emit(PtrOffset, second, lane), None, None)
    k.store_tile(y, k.emit(Cat, reversed_, kept, axis=0), [k.bid(0)])
    x = (np.arange(64) * 37 % 100 > 50 if dtype.is_bool else np.arange(64) - 32).astype(dtype.storage)
    out = np.zeros(128, dtype.storage)
    compare(k.function(), (8,), x=x, y=out)
    parts = x.reshape(8, 8)
    run(BACKEND, k.function(), (8,), x=x, y=out)
    np.testing.assert_array_equal(out.reshape(8, 16), np.concatenate([parts[:, ::-1], parts], 1))
