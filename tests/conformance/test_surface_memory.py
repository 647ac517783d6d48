"""Arrays, tiled views, loads, stores, gathers, scatters and atomics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import ml_dtypes
import numpy as np
import pytest
from support.tile_code import evaluate, gives, refuses

import tilewright as ct

A = np.arange(6 * 10, dtype=np.float32).reshape(6, 10)
V = np.arange(20, dtype=np.int32)
I32 = np.int32
TTE, TVE = ct.TileTypeError, ct.TileValueError


def ints(*values: int) -> Any:
    return np.array(values, np.int32)


def run(kernel: Any, *args: Any, grid: tuple[int, ...] = (1,)) -> None:
    ct.launch(None, grid, kernel, args)


# -- 1.5 arrays


def test_array_attributes(backend: str) -> None:
    def facts(a):
        ct.static_assert(a.dtype == ct.float32)
        ct.static_assert(a.ndim == 2)
        ct.static_assert(len(a.shape) == 2 and a.shape[0].dtype == ct.int32 and a.shape[0].ndim == 0)
        return a.shape[0], a.shape[1], a.strides[0], a.strides[1]

    gives(facts, (I32(6), I32(10), I32(10), I32(1)), A, load=False)
    gives(facts, (I32(10), I32(6), I32(1), I32(10)), A.T, load=False)


def test_shapes_are_run_time_values_unless_declared(backend: str) -> None:
    Static = Annotated[Any, ct.ArrayAnnotation(static_shape_dims=(0, -1), static_stride_dims=(-2,))]

    @ct.kernel
    def static(a: Static, out):
        rows, columns = a.shape
        ct.static_assert(rows == 6 and columns == 10 and a.strides[0] == 10)
        ct.store(out, 0, ct.zeros((16,), ct.int32) + ct.ensure_constant(rows))

    @ct.kernel
    def dynamic(a, out):
        ct.ensure_constant(a.shape[0])

    @ct.kernel
    def unit_is_no_constant(a, out):
        ct.ensure_constant(a.strides[1])

    out = np.zeros(16, np.int32)
    run(static, A, out)
    assert (out == 6).all()
    for kernel in (dynamic, unit_is_no_constant):
        with pytest.raises(ct.TileStaticAssertionError):
            run(kernel, A, out)


def test_static_extents_specialise(backend: str) -> None:
    @ct.kernel
    def rows(a: Annotated[Any, ct.ArrayAnnotation(static_shape_dims=(0,))], out):
        ct.store(out, 0, ct.full((1,), ct.static_eval(a.shape[0] * 2), ct.int32))

    for n in (3, 5):
        out = np.zeros(1, np.int32)
        run(rows, A[:n], out)
        assert out[0] == 2 * n


def test_int64_indices(backend: str) -> None:
    @ct.kernel
    def wide(a: ct.IndexedWithInt64, out):
        ct.static_assert(a.shape[0].dtype == ct.int64 and a.strides[1].dtype == ct.int64)
        ct.store(out, (0, 0), ct.load(a, (ct.int64(1), 0), (2, 4)))

    out = np.zeros((2, 4), np.float32)
    run(wide, A, out)
    np.testing.assert_array_equal(out, A[2:4, :4])


def test_slice(backend: str) -> None:
    def part(a, k):
        b = a.slice(0, k, k + 3).slice(axis=-1, start=4, stop=9)
        ct.static_assert(b.shape[1] == 5)
        return ct.load(b, (0, 0), (4, 8), padding_mode=ct.PaddingMode.ZERO), b.shape[0]

    want = np.zeros((4, 8), np.float32)
    want[:3, :5] = A[2:5, 4:9]
    gives(part, (want, I32(3)), A, 2, load=False)
    gives(lambda a: ct.load(a.slice(0, 2, a.shape[0]), (0, 0), (4, 2)), A[2:6, :2], A, load=False)


@pytest.mark.parametrize(
    "bad",
    [
        lambda a: a.slice(2, 0, 1),
        lambda a: a.slice(0, -1, 1),
        lambda a: a.slice(0, 3, 1),
        lambda a: a.slice(0, 0.0, 1),
        lambda a: a.slice(ct.bid(0), 0, 1),
        lambda a: a.slice(0, ct.uint32(0), 1),
        lambda a: a.slice(0, ct.zeros((2,), ct.int32), 1),
        lambda a: a[0],
        lambda a: a[0, 0],
        lambda a: len(a),
        lambda a: a + 1,
        lambda a: a.size,
        lambda a: a.T,
        lambda a: a.load((0, 0), (1, 1)),
        lambda a: tuple(a),
        lambda a: 1 if a else 2,
    ],
    ids=range(16),
)
def test_what_arrays_do_not_have(bad: Callable[..., Any]) -> None:
    refuses(bad, TTE, A, load=False)


def test_item_assignment_is_refused() -> None:
    def assign(a):
        a[0, 0] = 1.0

    refuses(assign, TTE, A, load=False)


def test_foreign_pointers_round_trip(backend: str) -> None:
    def again(a):
        p = a.foreign_pointer
        ct.static_assert(p.shape == () and p.dtype == ct.foreign_pointer_dtype(ct.float32))
        b = ct.Array.from_foreign(p, (a.shape[0], 10), (10, 1))
        return ct.load(b, (1, 1), (2, 4)), b.shape[0]

    gives(again, (A[2:4, 4:8], I32(6)), A, load=False)

    def wide(a):
        b = ct.Array.from_foreign(a.foreign_pointer, (ct.int64(6), 10), (10, 1))
        ct.static_assert(b.strides[0].dtype == ct.int64)
        return ct.load(b, (0, 0), (4, 8))

    gives(wide, A[:4, :8], A, load=False)

    def chosen(a, first):
        p, q = a.foreign_pointer, a.slice(0, 2, 6).foreign_pointer
        r = ct.extract(ct.broadcast_to(ct.where(first == 1, p, q), (2, 2)), (1, 0), ())
        return ct.load(ct.Array.from_foreign(r, (4, 10), (10, 1)), (0, 0), (2, 4))

    gives(chosen, A[:2, :4], A, 1, load=False)
    gives(chosen, A[2:4, :4], A, 0, load=False)
    for bad in (
        lambda a: ct.Array.from_foreign(a.foreign_pointer, (6, 10), (1,)),
        lambda a: ct.Array.from_foreign(a.foreign_pointer, (-6,), (1,)),
        lambda a: ct.Array.from_foreign(a.foreign_pointer, (6.0,), (1,)),
        lambda a: ct.Array.from_foreign(a.foreign_pointer, (ct.uint32(6),), (1,)),
        lambda a: ct.Array.from_foreign(3, (6,), (1,)),
        lambda a: a.foreign_pointer + 1,
        lambda a: ct.uint64(a.foreign_pointer),
        lambda a: ct.bitcast(a.foreign_pointer, ct.int64),
        lambda a: a.foreign_pointer == a.foreign_pointer,
        lambda a: ct.less(a.foreign_pointer, a.foreign_pointer),
    ):
        refuses(bad, TTE, A, load=False)


def test_foreign_pointer_dtypes() -> None:
    dtype = ct.foreign_pointer_dtype(ct.float32)
    assert dtype == ct.foreign_pointer_dtype(np.float32) != ct.foreign_pointer_dtype(ct.int32)
    for bad in (dtype, "float32", 3, float):
        with pytest.raises(TypeError):
            ct.foreign_pointer_dtype(bad)


# -- 1.7 tiled views


def test_tiled_view_attributes(backend: str) -> None:
    def facts(a):
        v = a.tiled_view((4, 2), padding_mode="NAN")
        ct.static_assert(v.dtype == ct.float32 and v.tile_shape == (4, 2) and v.traversal_steps == (4, 2))
        w = a.tiled_view((4, 2), traversal_steps=(3, 5))
        ct.static_assert(w.traversal_steps == (3, 5))
        ct.static_assert(a.tiled_view((1, 1)).traversal_steps == (1, 1))
        return v.num_tiles(0), v.num_tiles(axis=-1), w.num_tiles(0), w.num_tiles(1)

    gives(facts, (I32(2), I32(5), I32(2), I32(2)), A, load=False)


def test_tiled_view_of_a_vector_and_of_single_elements(backend: str) -> None:
    def loads(v):
        w = v.tiled_view(4)
        ct.static_assert(w.tile_shape == (4,))
        return w.load(2), w.load((1,)), w.load(ct.int32(4))

    gives(loads, (V[8:12], V[4:8], V[16:]), V, load=False)

    def scalar(a):
        v = a.tiled_view(())
        ct.static_assert(v.tile_shape == () and v.traversal_steps == ())
        return v.load(())

    gives(scalar, I32(7), np.array(7, np.int32), load=False)


def test_tiled_view_steps(backend: str) -> None:
    def overlapping(v):
        w = v.tiled_view((8,), traversal_steps=(3,), padding_mode=ct.PaddingMode.ZERO)
        return w.load(2), w.load(6, latency=2, allow_tma=False), w.num_tiles(0)

    tail = np.zeros(8, np.int32)
    tail[:2] = V[18:]
    gives(overlapping, (V[6:14], tail, I32(7)), V, load=False)

    @ct.kernel
    def gapped(v):
        w = v.tiled_view((2,), traversal_steps=(8,))
        w.store(1, ct.zeros((2,), ct.int32) - 1)
        w.store(0, -2)
        w.store((2,), ct.full((1,), -3, ct.int8), check_bounds=False)

    v = V.copy()
    run(gapped, v)
    want = V.copy()
    want[8:10], want[:2], want[16:18] = -1, -2, -3
    np.testing.assert_array_equal(v, want)


@pytest.mark.parametrize(
    "bad",
    [
        lambda a: a.tiled_view((4,)),
        lambda a: a.tiled_view((3, 4)),
        lambda a: a.tiled_view((4, 4), traversal_steps=(0, 1)),
        lambda a: a.tiled_view((4, 4), traversal_steps=(4,)),
        lambda a: a.tiled_view((4, 4), traversal_steps=(ct.bid(0), 1)),
        lambda a: a.tiled_view((4, 4), padding_mode="zero"),
        lambda a: a.tiled_view((4, 4), (4, 4)),
        lambda a: a.tiled_view((4, 4)).load(0),
        lambda a: a.tiled_view((4, 4)).load((0, 0.0)),
        lambda a: a.tiled_view((4, 4)).load((0, ct.uint8(0))),
        lambda a: a.tiled_view((4, 4)).store((0, 0), ct.zeros((8, 4), ct.float32)),
        lambda a: a.tiled_view((4, 4)).store((0, 0), ct.zeros((4, 4), ct.float64)),
        lambda a: a.tiled_view((4, 4)).num_tiles(2),
        lambda a: a.tiled_view((4, 4)).num_tiles(ct.bid(0)),
        lambda a: a.tiled_view((4, 4)).shape,
        lambda a: ct.load(a.tiled_view((4, 4)), (0, 0), (4, 4)),
        lambda a: a.tiled_view((4, 4)).load((0, 0), check_bounds=1),
    ],
    ids=range(17),
)
def test_mistakes_with_tiled_views(bad: Callable[..., Any]) -> None:
    refuses(bad, TTE, A, load=False)


# -- 1.8 indices and metadata


def test_block_indices(backend: str) -> None:
    @ct.kernel
    def place(out):
        ct.static_assert(ct.bid(0).dtype == ct.int32 and ct.num_blocks(axis=2).dtype == ct.int32)
        n = (ct.bid(2) * ct.num_blocks(1) + ct.bid(1)) * ct.num_blocks(0) + ct.bid(axis=0)
        ct.store(out, (n,), n)

    out = np.zeros(24, np.int32)
    run(place, out, grid=(2, 3, 4))
    np.testing.assert_array_equal(out, np.arange(24))
    for bad in (lambda a: ct.bid(3), lambda a: ct.bid(-1), lambda a: ct.num_blocks(ct.bid(0)), lambda a: ct.bid(0.0)):
        refuses(bad, TTE, V)


def test_num_tiles(backend: str) -> None:
    def counts(a, v):
        return (
            ct.num_tiles(a, 0, (4, 4)),
            ct.num_tiles(a, axis=1, shape=(4, 4)),
            ct.num_tiles(a, 0, (4, 2), order="F"),
            ct.num_tiles(a, -1, (4, 2), (1, 0)),
            ct.num_tiles(v, 0, 8),
        )

    gives(counts, tuple(map(I32, (2, 3, 3, 3, 3))), A, V, load=False)
    refuses(lambda a: ct.num_tiles(a, 2, (4, 4)), TTE, A, load=False)
    refuses(lambda a: ct.num_tiles(a, 0, (4,)), TTE, A, load=False)


def test_assume_divisible_by(backend: str) -> None:
    gives(lambda n: ct.assume_divisible_by(n, 8), I32(24), 24)
    gives(lambda n: ct.assume_divisible_by(x=n, divisor=1), I32(7), 7)
    gives(lambda n: ct.assume_divisible_by(24, 8), I32(24), 1)
    gives(lambda a: ct.load(a, (0, 0), (1, ct.ensure_constant(2))), A[:1, :2], A, load=False)
    for bad in (
        lambda n: ct.assume_divisible_by(n, 0),
        lambda n: ct.assume_divisible_by(n, -2),
        lambda n: ct.assume_divisible_by(n, n),
        lambda n: ct.assume_divisible_by(n, 2.0),
        lambda n: ct.assume_divisible_by(7, 2),
        lambda n: ct.assume_divisible_by(n + 0.5, 2),
        lambda n: ct.assume_divisible_by(ct.zeros((2,), ct.int32), 2),
    ):
        refuses(bad, TTE, 8)


# -- 1.9 load and store


@pytest.mark.parametrize("order", ["C", "F", (0, 1), (1, 0), (-1, 0)])
def test_orders(backend: str, order: Any) -> None:
    source = A if order in ("C", (0, 1)) else A.T
    gives(lambda a: ct.load(a, (1, 0), (2, 4), order=order), source[2:4, :4], A, load=False)

    @ct.kernel
    def put(out, tile):
        ct.store(out, (1, 0), ct.load(tile, (0, 0), (2, 4)), order=order)

    out = np.zeros((6, 10), np.float32)
    run(put, out, A[:2, :4].copy())
    want = np.zeros((6, 10), np.float32)
    (want if source is A else want.T)[2:4, :4] = A[:2, :4]
    np.testing.assert_array_equal(out, want)


def test_orders_of_three_axes(backend: str) -> None:
    cube = np.arange(2 * 4 * 8, dtype=np.float32).reshape(2, 4, 8)
    for order in ((2, 0, 1), (1, 2, 0)):
        shape = tuple(cube.shape[axis] for axis in order)
        gives(
            lambda a, order=order, shape=shape: ct.load(a, (0, 0, 0), shape, order=order),
            cube.transpose(order),
            cube,
            load=False,
        )


PADDING = {"ZERO": 0.0, "NEG_ZERO": -0.0, "NAN": np.nan, "POS_INF": np.inf, "NEG_INF": -np.inf}


@pytest.mark.parametrize("mode", PADDING)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_padding(backend: str, mode: str, dtype: Any) -> None:
    a = np.arange(1, 7).astype(dtype)
    want = np.concatenate([a[4:], np.array([PADDING[mode]] * 2, dtype)])
    member = ct.PaddingMode[mode]
    gives(lambda a: ct.load(a, 1, 4, padding_mode=member), want, a, load=False)
    if dtype is np.float32:  # other forms of the same
        gives(lambda a: ct.load(a, (1,), shape=(4,), padding_mode=mode), want, a, load=False)
        gives(lambda a: a.tiled_view(4, padding_mode=member).load(1), want, a, load=False)


def test_forms_of_index_and_shape(backend: str) -> None:
    gives(lambda v: ct.load(v, 1, 4), V[4:8], V, load=False)
    gives(lambda v: ct.load(v, index=(ct.int64(1),), shape=(4,)), V[4:8], V, load=False)
    gives(lambda v: ct.load(v, ct.int8(1), (4,), check_bounds=True, latency=10, allow_tma=True), V[4:8], V, load=False)
    gives(lambda v: ct.load(v, 1, 4, check_bounds=False), V[4:8], V, load=False)
    gives(lambda a: ct.load(a, (), ()), np.float32(3), np.array(3, np.float32), load=False)
    gives(lambda v: ct.load(v, -1 + 1, 4), V[:4], V, load=False)


def test_stores(backend: str) -> None:
    @ct.kernel
    def stores(v, a):
        ct.store(v, 0, 5)
        ct.store(v, index=(1,), tile=ct.full((1,), 6, ct.int8))
        ct.store(v, (1,), ct.arange(4, dtype=ct.int16), latency=1, allow_tma=False)
        ct.store(v, 2, tile=ct.arange(8, dtype=ct.int32), check_bounds=True)
        ct.store(a, (0, 1), 2)
        ct.store(a, (1, 0), ct.ones((1, 2), ct.bool_), memory_order=ct.MemoryOrder.RELEASE, memory_scope="SYS")

    v, a = np.full(20, -1, np.int32), np.zeros((2, 2), np.float32)
    run(stores, v, a)
    np.testing.assert_array_equal(v, [5, 6, -1, -1, 0, 1, 2, 3, *[-1] * 8, 0, 1, 2, 3])
    np.testing.assert_array_equal(a, [[0, 2], [1, 1]])


@pytest.mark.parametrize("order", ["WEAK", "RELAXED", "ACQUIRE"])
def test_load_orders(backend: str, order: str) -> None:
    scope = "NONE" if order == "WEAK" else "DEVICE"
    gives(lambda v: ct.load(v, 0, 4, memory_order=order, memory_scope=scope), V[:4], V, load=False)


@pytest.mark.parametrize(
    ("error", "bad"),
    [
        (TTE, lambda a: ct.load(a, (0,), (4, 4))),
        (TTE, lambda a: ct.load(a, (0, 0), (4,))),
        (TTE, lambda a: ct.load(a, (0, 0), (3, 4))),
        (TTE, lambda a: ct.load(a, (0, 0), (4, a.shape[1]))),
        (TTE, lambda a: ct.load(a, (0, 0.5), (4, 4))),
        (TTE, lambda a: ct.load(a, (0, True), (4, 4))),
        (TTE, lambda a: ct.load(a, (0, ct.uint64(1)), (4, 4))),
        (TTE, lambda a: ct.load(a, (0, ct.zeros((2,), ct.int32)), (4, 4))),
        (TTE, lambda a: ct.load(a, (0, 0), (4, 4), "F")),
        (TTE, lambda a: ct.load(a, (0, 0), (4, 4), order="A")),
        (TTE, lambda a: ct.load(a, (0, 0), (4, 4), order=(0, 0))),
        (TTE, lambda a: ct.load(a, (0, 0), (4, 4), order=(0,))),
        (TTE, lambda a: ct.load(a, (0, 0), (4, 4), padding_mode=0)),
        (TTE, lambda a: ct.load(a, (0, 0), (4, 4), padding_mode="nan")),
        (TTE, lambda a: ct.load(a, (0, 0), (4, 4), check_bounds=0)),
        (TVE, lambda a: ct.load(a, (0, 0), (4, 4), latency=0)),
        (TVE, lambda a: ct.load(a, (0, 0), (4, 4), latency=11)),
        (TTE, lambda a: ct.load(a, (0, 0), (4, 4), latency=2.0)),
        (TTE, lambda a: ct.load(a, (0, 0), (4, 4), allow_tma=1)),
        (TTE, lambda a: ct.load(a, (0, 0), (4, 4), memory_order="RELEASE", memory_scope="DEVICE")),
        (TTE, lambda a: ct.load(a, (0, 0), (4, 4), memory_order="ACQ_REL", memory_scope="DEVICE")),
        (TTE, lambda a: ct.load(a, (0, 0), (4, 4), memory_order="ACQUIRE")),
        (TTE, lambda a: ct.load(a, (0, 0), (4, 4), memory_scope="DEVICE")),
        (TTE, lambda a: ct.load(a, (0, 0), (4, 4), memory_order="RELAXED", memory_scope="CLUSTER")),
        (TTE, lambda a: ct.load(a, (0, 0), (4, 4), dtype=ct.float32)),
        (TTE, lambda a: ct.load(array=a, index=(0, 0), shape=(4, 4))),
        (TTE, lambda a: ct.load(ct.zeros((4, 4), ct.float32), (0, 0), (4, 4))),
        (TTE, lambda a: ct.store(a, (0, 0), ct.zeros((4, 4), ct.float64))),
        (TTE, lambda a: ct.store(a, (0, 0), "x")),
        (TTE, lambda a: ct.store(a, (0, 0), a)),
        (TTE, lambda a: ct.store(a, (0, 0), ct.zeros((4, 4), ct.float32), memory_order="ACQUIRE", memory_scope="SYS")),
        (TTE, lambda a: ct.store(a, (0, 0), ct.zeros((4, 4), ct.float32), padding_mode="ZERO")),
    ],
    ids=range(32),
)
def test_mistakes_with_loads_and_stores(error: type[ct.TileError], bad: Callable[..., Any]) -> None:
    refuses(bad, error, A, load=False)


# -- gather and scatter


def test_gather(backend: str) -> None:
    def gathers(a, v):
        i = ct.arange(4, dtype=ct.int32)
        return (
            ct.gather(v, i * 3),
            ct.gather(v, (i.astype(ct.uint8),), padding_value=9),
            ct.gather(v, i * 8 - 1, padding_value=-5),
            ct.gather(v, i, mask=i > 1, padding_value=i * 10, latency=4),
            ct.gather(a, (i[:, None], ct.arange(2, dtype=ct.int64)[None, :])),
            ct.gather(a, (i, 3), check_bounds=False),
            ct.gather(a, (2, 3)),
            ct.gather(v, 30),
            ct.gather(a, (i[:, None], i[None, :] * 4), mask=(i < 2)[None, :], padding_value=-1),
        )

    masked = np.full((4, 4), -1, np.float32)
    masked[:, :2] = A[:4][:, [0, 4]]
    gives(
        gathers,
        (
            V[::3][:4],
            V[:4],
            np.array([-5, 7, 15, -5], np.int32),
            np.array([0, 10, 2, 3], np.int32),
            A[:4, :2],
            A[:4, 3],
            A[2, 3],
            I32(0),
            masked,
        ),
        A,
        V,
        load=False,
    )


def test_scatter(backend: str) -> None:
    @ct.kernel
    def scatters(a, v):
        i = ct.arange(4, dtype=ct.int32)
        ct.scatter(v, i * 2, i + 100)
        ct.scatter(v, i * 2 + 1, -1, mask=i == 2)
        ct.scatter(v, i - 2 + 18, ct.ones((4,), ct.int8), check_bounds=False, latency=2)
        ct.scatter(v, (i * 10 - 10,), 55)
        ct.scatter(a, (i[:, None], i[None, :] * 2), ct.full((1, 4), 9, ct.float16), mask=(i != 0)[:, None])
        ct.scatter(a, (5, 9), 1)

    v, a = V.copy(), A.copy()
    run(scatters, a, v)
    want = V.copy()
    want[:8:2] = [100, 101, 102, 103]
    want[5] = -1
    want[16:20] = 1
    want[[0, 10]] = 55
    np.testing.assert_array_equal(v, want)
    want2 = A.copy()
    want2[1:4, :8:2] = 9
    want2[5, 9] = 1
    np.testing.assert_array_equal(a, want2)


@pytest.mark.parametrize(
    "bad",
    [
        lambda v: ct.gather(v, (0, 0)),
        lambda v: ct.gather(v, ()),
        lambda v: ct.gather(v, 0.0),
        lambda v: ct.gather(v, True),
        lambda v: ct.gather(v, ct.zeros((4,), ct.bool_)),
        lambda v: ct.gather(v, 0, mask=1),
        lambda v: ct.gather(v, 0, mask=ct.zeros((4,), ct.bool_)),
        lambda v: ct.gather(v, 0, padding_value=0.5),
        lambda v: ct.gather(v, 0, padding_value=ct.int64(0)),
        lambda v: ct.gather(v, 0, padding_value=None),
        lambda v: ct.gather(v, 0, padding_mode="ZERO"),
        lambda v: ct.gather(v, indices=0),
        lambda v: ct.gather(v, 0, check_bounds=None),
        lambda v: ct.scatter(v, 0, 0.5),
        lambda v: ct.scatter(v, 0, ct.zeros((4,), ct.int32)),
        lambda v: ct.scatter(v, ct.arange(4, dtype=ct.int32), ct.zeros((2,), ct.int32)),
        lambda v: ct.scatter(v, 0),
        lambda v: ct.scatter(ct.zeros((4,), ct.int32), 0, 0),
    ],
    ids=range(18),
)
def test_mistakes_with_gather_and_scatter(bad: Callable[..., Any]) -> None:
    refuses(bad, TTE, V, load=False)


# -- advanced indexing


def test_advanced_indexing_loads(backend: str) -> None:
    rows = ints(4, 0, 4, 5)

    def loads(a, rows):
        r = ct.load(rows, 0, 4)
        return (
            ct.load_advanced_indexing(a, (r, ct.Slice(2, 4))),
            ct.load_advanced_indexing(a, (ct.Slice(1, 2), r.astype(ct.int64)), latency=2, allow_tma=False),
            ct.load_advanced_indexing(a, (r + 1, ct.Slice(ct.int32(8), 4)), padding_mode=ct.PaddingMode.NEG_INF),
            ct.load_advanced_indexing(a, (r.astype(ct.uint8), ct.Slice(-1, 2)), padding_mode="ZERO"),
        )

    beyond = np.full((4, 4), -np.inf, np.float32)
    beyond[[0, 1, 2], :2] = A[[5, 1, 5], 8:]
    before = np.zeros((4, 2), np.float32)
    before[:, 1] = A[rows, 0]
    gives(loads, (A[rows, 2:6], A[1:3][:, rows], beyond, before), A, rows, load=False)


def test_advanced_indexing_in_three_dimensions(backend: str) -> None:
    cube = np.arange(4 * 5 * 6, dtype=np.int16).reshape(4, 5, 6)
    pick = ints(3, 1, 0, 3)

    def load(a, p):
        return ct.load_advanced_indexing(a, (ct.Slice(1, 2), ct.load(p, 0, 4), ct.Slice(2, 4)))

    gives(load, cube[1:3][:, pick][:, :, 2:], cube, pick, load=False)


def test_advanced_indexing_stores(backend: str) -> None:
    @ct.kernel
    def store(a, rows, tile):
        r = ct.load(rows, 0, 4)
        ct.store_advanced_indexing(a, (r, ct.Slice(8, 4)), ct.load(tile, (0, 0), (4, 4)), latency=1, allow_tma=True)

    a = A.copy()
    rows = ints(5, 0, 7, 2)
    run(store, a, rows, np.arange(16, dtype=np.int8).reshape(4, 4))
    want = A.copy()
    want[[5, 0, 2], 8:] = [[0, 1], [4, 5], [12, 13]]
    np.testing.assert_array_equal(a, want)


@pytest.mark.parametrize(
    "bad",
    [
        lambda a, v: ct.load_advanced_indexing(v, (ct.arange(4, dtype=ct.int32),)),
        lambda a, v: ct.load_advanced_indexing(a, (ct.Slice(0, 4), ct.Slice(0, 4))),
        lambda a, v: ct.load_advanced_indexing(a, (ct.arange(4, dtype=ct.int32), ct.arange(4, dtype=ct.int32))),
        lambda a, v: ct.load_advanced_indexing(a, (ct.arange(4, dtype=ct.float32), ct.Slice(0, 4))),
        lambda a, v: ct.load_advanced_indexing(a, (ct.zeros((2, 2), ct.int32), ct.Slice(0, 4))),
        lambda a, v: ct.load_advanced_indexing(a, (ct.arange(4, dtype=ct.int32), 0)),
        lambda a, v: ct.load_advanced_indexing(a, (ct.arange(4, dtype=ct.int32), ct.Slice(0, 3))),
        lambda a, v: ct.load_advanced_indexing(a, (ct.arange(4, dtype=ct.int32), ct.Slice(0, ct.bid(0)))),
        lambda a, v: ct.load_advanced_indexing(a, (ct.arange(4, dtype=ct.int32), ct.Slice(0.5, 4))),
        lambda a, v: ct.load_advanced_indexing(a, (ct.arange(4, dtype=ct.int32), ct.Slice(ct.uint32(0), 4))),
        lambda a, v: ct.load_advanced_indexing(a, (ct.arange(4, dtype=ct.int32), ct.Slice(start=0, length=4))),
        lambda a, v: ct.load_advanced_indexing(a, ct.arange(4, dtype=ct.int32)),
        lambda a, v: ct.load_advanced_indexing(a, (ct.arange(4, dtype=ct.int32), ct.Slice(0, 4)), check_bounds=False),
        lambda a, v: ct.store_advanced_indexing(a, (ct.arange(4, dtype=ct.int32), ct.Slice(0, 4)), 0.0),
        lambda a, v: ct.store_advanced_indexing(
            a, (ct.arange(4, dtype=ct.int32), ct.Slice(0, 4)), ct.zeros((1, 4), ct.float32)
        ),
        lambda a, v: ct.store_advanced_indexing(
            a, (ct.arange(4, dtype=ct.int32), ct.Slice(0, 4)), ct.zeros((4, 4), ct.float64)
        ),
    ],
    ids=range(16),
)
def test_mistakes_with_advanced_indexing(bad: Callable[..., Any]) -> None:
    refuses(bad, TTE, A, V, load=False)


# -- section 5


def test_views_of_one_array_may_overlap(backend: str) -> None:
    @ct.kernel
    def shift(a):
        left, right = a.slice(0, 0, 8), a.slice(0, 1, 9)
        ct.store(right, 0, ct.load(left, 0, 8))
        ct.store(left, 0, ct.load(right, 0, 8) + 1)

    a = np.arange(9, dtype=np.int32)
    run(shift, a)
    np.testing.assert_array_equal(a, [*range(1, 9), 7])


def test_program_order_within_a_block(backend: str) -> None:
    @ct.kernel
    def sequence(a):
        ct.store(a, 0, ct.arange(4, dtype=ct.int32))
        ct.scatter(a, ct.arange(4, dtype=ct.int32), 3 - ct.gather(a, ct.arange(4, dtype=ct.int32)))
        ct.atomic_add(a, 0, ct.load(a, 3, 1).item() + 10)

    a = np.zeros(4, np.int32)
    run(sequence, a)
    np.testing.assert_array_equal(a, [13, 2, 1, 0])


def test_integer_padding_is_accepted(backend: str) -> None:
    for mode in PADDING:
        found = evaluate(lambda v, mode=mode: ct.load(v, 2, 8, padding_mode=mode), V[:8], V, load=False)
        np.testing.assert_array_equal(found[:4], V[16:])
