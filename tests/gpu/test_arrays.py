"""Arrays of every arrangement and size, where they are on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.cuda import DeviceArray

import tilewright as ct
from tilewright.gpu_runtime import driver

GIB = 1 << 30


@ct.kernel
def copied(x, y, T0: ct.Constant[int], T1: ct.Constant[int]):
    ct.store(y, (ct.bid(0), ct.bid(1)), ct.load(x, (ct.bid(0), ct.bid(1)), (T0, T1)))


VIEWS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda a: a.T,
    "backwards": lambda a: a[::-1, ::-1],
    "a part": lambda a: a[3:40:2, 5:50],
    "rows of one element": lambda a: a[:, :1],
    "one row, repeated": lambda a: np.broadcast_to(a[1], a.shape),
}


@pytest.mark.parametrize("name", VIEWS)
def test_strides(name: str) -> None:
    base = np.arange(64 * 80, dtype=np.float32).reshape(64, 80)
    wanted = VIEWS[name](base)
    whole, out = DeviceArray.of(base), DeviceArray(wanted.shape, np.float32)
    grid = tuple(-(-n // 32) for n in wanted.shape)
    ct.launch(None, grid, copied, (whole.view(wanted, base), out, 32, 32))
    np.testing.assert_array_equal(out.numpy(), wanted)
    if name != "one row, repeated":
        target, expected = DeviceArray.of(np.zeros_like(base)), np.zeros_like(base)
        VIEWS[name](expected)[...] = wanted
        ct.launch(None, grid, copied, (out, target.view(wanted, base), 32, 32))
        np.testing.assert_array_equal(target.numpy(), expected)


@ct.kernel
def by_engine(x, y, T0: ct.Constant[int], T1: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    tile = ct.load(x, (i, j), (T0, T1), padding_mode=ct.PaddingMode.ZERO, allow_tma=True)
    ct.store(y, (i, j), tile + 1, allow_tma=True)


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64])
def test_what_lies_between_rows_is_left_alone(dtype: Any) -> None:
    """Rows that end inside a unit of 16 bytes, as those of a part of a matrix may."""
    rng, base = np.random.default_rng(0), np.full((40, 256), 7, dtype)
    for columns in range(97, 97 + 2 * 16 // base.itemsize):
        source, expected = base.copy(), base.copy()
        source[:33, :columns] = rng.integers(-5, 5, (33, columns))
        x, y = DeviceArray.of(source), DeviceArray.of(base)
        parts = x.view(source[:33, :columns], source), y.view(base[:33, :columns], base)
        ct.launch(None, (2, 2), by_engine, (*parts, 32, 64))
        expected[:33, :columns] = source[:33, :columns] + 1
        np.testing.assert_array_equal(y.numpy(), expected)
        padded = DeviceArray.of(np.full((64, 128), 3, dtype))
        ct.launch(None, (2, 2), by_engine, (parts[0], padded, 32, 64))
        zeros = np.ones((64, 128), dtype)
        zeros[:33, :columns] = expected[:33, :columns]
        np.testing.assert_array_equal(padded.numpy(), zeros)


def test_cupy_views() -> None:
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    base = cupy.arange(64 * 80, dtype=cupy.float32).reshape(64, 80)
    for view in (lambda a: a.T, lambda a: a[::-1, ::-1], lambda a: a[3:40:2, 5:50]):
        x = view(base)
        y = cupy.zeros(x.shape, x.dtype)
        ct.launch(cupy.cuda.get_current_stream(), tuple(-(-n // 32) for n in x.shape), copied, (x, y, 32, 32))
        assert bool((x == y).all())


def test_arrays_without_elements_or_axes() -> None:
    @ct.kernel
    def kernel(nothing, scalar, out):
        ct.store(nothing, (0,), ct.load(nothing, (0,), (16,)) + 1)
        ct.store(out, (), ct.load(scalar, (), ()) + 1)

    scalar, out = DeviceArray.of(np.array(41, np.int32)), DeviceArray((), np.int32)
    ct.launch(None, (1,), kernel, (DeviceArray((0,), np.float32), scalar, out))
    assert out.numpy() == 42


def test_read_only_arrays() -> None:
    x, y = DeviceArray.of(np.ones((32, 32), np.float32)), DeviceArray((32, 32), np.float32)
    x.read_only = True
    ct.launch(None, (1, 1), copied, (x, y, 32, 32))
    assert (y.numpy() == 1).all()
    with pytest.raises(ValueError, match="'y' of copied\\(\\) is read-only, but the kernel stores to it"):
        ct.launch(None, (1, 1), copied, (y, x, 32, 32))


def test_arrays_in_host_memory_are_refused() -> None:
    x, host = DeviceArray((32, 32), np.float32), np.zeros((32, 32), np.float32)
    for args, words in (((x, host), "'x' on cuda:0, 'y' on cpu"), ((host, x), "'x' on cpu, 'y' on cuda:0")):
        with pytest.raises(ValueError, match=words):
            ct.launch(None, (1, 1), copied, (*args, 32, 32))
    with pytest.raises(
        ValueError, match=r"'x' of copied\(\) is in the memory of a device \(cpu\) that the backend 'triton'"
    ):
        ct.launch(None, (1, 1), copied, (host, host, 32, 32), backend="triton")

    class Elsewhere:
        __cuda_array_interface__ = {**x.__cuda_array_interface__, "data": (host.ctypes.data, False)}  # noqa: RUF012

    with pytest.raises(ValueError, match=r"'y' of copied\(\) has the address .* the driver knows of none there"):
        ct.launch(None, (1, 1), copied, (x, Elsewhere(), 32, 32))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_indices_outside(dtype: Any) -> None:
    """Neither read nor written; the arrays lie in the middle of memory that shows it."""

    @ct.kernel
    def kernel(x, indices, found, y):
        i = ct.load(indices, (0,), (64,))
        ct.store(found, (0,), ct.gather(x, i, padding_value=-7))
        ct.scatter(y, i, i.astype(ct.int32))
        ct.atomic_add(y, i, 1)

    rng, info = np.random.default_rng(0), np.iinfo(dtype)
    indices = np.concatenate([rng.integers(-100, 200, 58), [info.min, info.max, -1, 0, 99, 100]]).astype(dtype)
    indices[:58] = np.unique(rng.permutation(300) - 100)[::5][:58]
    indices = np.where(np.isin(indices, [0, 99]) & (np.arange(64) < 58), -5, indices)
    memory = np.arange(300, dtype=np.int32)
    x, y, found = DeviceArray.of(memory), DeviceArray.of(memory), DeviceArray((64,), np.int32)
    part = memory[100:200]
    ct.launch(None, (1,), kernel, (x.view(part, memory), DeviceArray.of(indices), found, y.view(part, memory)))
    inside = (indices >= 0) & (indices < 100)
    np.testing.assert_array_equal(found.numpy(), np.where(inside, part[np.where(inside, indices, 0)], -7))
    expected = memory.copy()
    expected[100 + indices[inside]] = indices[inside] + 1
    np.testing.assert_array_equal(y.numpy(), expected)


# -- sizes


def test_grids() -> None:
    @ct.kernel
    def kernel(count, last):
        ct.atomic_add(count, 0, 1)
        if (
            (ct.bid(0) == ct.num_blocks(0) - 1)
            & (ct.bid(1) == ct.num_blocks(1) - 1)
            & (ct.bid(2) == ct.num_blocks(2) - 1)
        ):
            ct.store(last, (0,), ct.bid(0) + ct.bid(1) + ct.bid(2))

    for grid in ((1 << 20,), ((1 << 24) - 1,), (3, 65535), (2, 3, 65535), (1, 1, 1)):
        count, last = DeviceArray((1,), np.int32), DeviceArray((1,), np.int32)
        ct.launch(None, grid, kernel, (count, last))
        assert (count.numpy()[0], last.numpy()[0]) == (np.prod(grid), sum(grid) - len(grid))
    for grid in ((1, 65536), (1, 2, 1 << 20)):
        with pytest.raises(ct.TileError, match="has more than 65535 blocks along its second or third axis"):
            ct.launch(None, grid, kernel, (count, last))


def needs(size: int) -> None:
    free, total = driver.memory(0)
    if free < size + GIB:
        pytest.skip(f"{size >> 30} GiB of memory are needed, and {free >> 30} of {total >> 30} are free")


def test_more_elements_than_32_bits_count() -> None:
    needs(10 * GIB)
    count = (1 << 32) + 12345

    @ct.kernel
    def kernel(x: ct.IndexedWithInt64, y: ct.IndexedWithInt64, places: ct.IndexedWithInt64, found):
        tile = ct.num_tiles(x, 0, (4096,)) - 1 - ct.bid(0).astype(ct.int64)
        ct.store(y, (tile,), ct.load(x, (tile,), (4096,)) + 3)
        i = ct.load(places, (0,), (4,))
        ct.store(found, (0,), ct.gather(x, i, padding_value=9))

    ends = np.array([0, (1 << 31) + 5, count - 1, count], np.int64)
    x, y, found = DeviceArray((count,), np.int8), DeviceArray((count,), np.int8), DeviceArray((4,), np.int8)
    ct.launch(None, (2,), kernel, (x, y, DeviceArray.of(ends), found))
    assert found.numpy().tolist() == [0, 0, 0, 9]
    whole, rest = divmod(count, 4096)
    assert (y.numpy((whole - 1) * 4096, 4096 + rest) == 3).all() and not y.numpy((whole - 3) * 4096, 2 * 4096).any()
    with pytest.raises(OverflowError, match="extent 4294979641 along axis 0"):
        ct.launch(None, (1,), ct.kernel(_one_tile), (x,))


def _one_tile(x):
    ct.store(x, (0,), ct.zeros((16,), ct.int8))


@pytest.mark.parametrize("dtype", [np.int8, np.float64])
def test_offsets_beyond_4_gib_of_arrays_with_short_extents(dtype: Any) -> None:
    item = np.dtype(dtype).itemsize
    rows, columns = 70001, 65552 // item * 8 // 8
    needs(rows * columns * item)

    @ct.kernel
    def kernel(x, n):
        i = ct.bid(0)
        ct.store(x, (n - 1 - i, 0), ct.full((1, 1024), i + 1, x.dtype))
        ct.scatter(x, (n - 1 - i, x.shape[1] - 1), (i + 1).astype(x.dtype))
        t = ct.load(x, (n - 1 - i, 0), (1, 1024))
        ct.store(x, (n - 1 - i, 1), t + 1)

    x = DeviceArray((rows, columns), dtype)
    ct.launch(None, (3,), kernel, (x, rows))
    for i in range(3):
        row = x.numpy((rows - 1 - i) * columns, columns)
        assert (row[:1024] == i + 1).all() and (row[1024:2048] == i + 2).all() and row[-1] == i + 1
        assert not row[2048:-1].any()
    assert not x.numpy((rows - 4) * columns, columns).any() and not x.numpy(0, columns).any()
