"""Launches: arguments, annotations, specialisation, large arrays, threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as ct

V = np.arange(8, dtype=np.int32)


def run(kernel: Any, *args: Any, grid: tuple[int, ...] = (1,)) -> None:
    ct.launch(None, grid, kernel, args)


# -- scalars and constants


def test_dtypes_of_scalars(backend: str) -> None:
    @ct.kernel
    def kernel(b, i, f, wide: ct.ScalarInt64, plain: ct.Scalar, out):
        ct.static_assert(b.dtype == ct.bool_ and i.dtype == ct.int32 and f.dtype == ct.float32)
        ct.static_assert(wide.dtype == ct.int64 and plain.dtype == ct.float32)
        ct.store(out, 0, wide + i + b)

    out = np.zeros(1, np.int64)
    run(kernel, True, 5, 2.5, 1 << 40, 1.0, out)
    assert out[0] == (1 << 40) + 6
    with pytest.raises(OverflowError):
        run(kernel, True, 1 << 31, 2.5, 1, 1.0, out)
    with pytest.raises(OverflowError):
        run(kernel, True, 1, 2.5, 1 << 63, 1.0, out)


def test_scalars_are_no_constants(backend: str) -> None:
    @ct.kernel
    def kernel(n, out):
        ct.store(out, 0, ct.zeros((n,), ct.int32))

    with pytest.raises(ct.TileTypeError):
        run(kernel, 4, V.copy())


@pytest.mark.parametrize("value", [3, True, 2.5, (1, 2.5, (False,)), (), 1 << 63, -(1 << 63)], ids=str)
def test_constants(backend: str, value: Any) -> None:
    @ct.kernel
    def bare(c: ct.Constant, out):
        ct.static_assert(c == value)
        ct.store(out, 0, len(c) if ct.static_eval(isinstance(c, tuple)) else 1)

    @ct.kernel
    def typed(c: ct.Constant[Any], out):
        ct.ensure_constant(c)
        ct.store(out, 0, 2)

    out = np.zeros(1, np.int32)
    run(bare, value, out)
    assert out[0] == (len(value) if isinstance(value, tuple) else 1)
    run(typed, value, out)
    assert out[0] == 2


@pytest.mark.parametrize("value", ["text", None, ml_dtypes, 1j, [1], b"x"], ids=repr)
def test_what_is_no_constant(value: Any) -> None:
    @ct.kernel
    def kernel(c: ct.Constant):
        pass

    with pytest.raises(TypeError):
        run(kernel, value)


def test_constants_that_do_not_fit() -> None:
    @ct.kernel
    def kernel(c: ct.Constant):
        pass

    for value in (1 << 64, -(1 << 63) - 1):
        with pytest.raises(OverflowError):
            run(kernel, value)


# -- tuples and lists


def test_tuples(backend: str) -> None:
    @ct.kernel
    def kernel(pair: tuple[Any, ct.Constant[int]], many: tuple[ct.ScalarInt64, ...], nested, out):
        x, n = pair
        ct.static_assert(ct.ensure_constant(n) == 4)
        total = ct.load(x, 0, n) + nested[0][1][0]
        for item in ct.static_iter(many):
            ct.static_assert(item.dtype == ct.int64)
        ct.store(out, 0, total + len(many) + nested[1])

    out = np.zeros(4, np.int32)
    run(kernel, (V, 4), (1, 2, 1 << 33), ((1, (10,)), 100), out)
    np.testing.assert_array_equal(out, V[:4] + 113)
    with pytest.raises(TypeError):
        run(kernel, (V,), (1,), ((1, (10,)), 100), out)
    with pytest.raises(TypeError):
        run(kernel, (V, 4, 5), (1,), ((1, (10,)), 100), out)
    with pytest.raises(TypeError):
        run(kernel, [V, 4], (1,), ((1, (10,)), 100), out)


def test_tuples_nest_up_to_64_deep(backend: str) -> None:
    @ct.kernel
    def kernel(t, out):
        ct.store(out, 0, 1)

    def nested(depth: int) -> Any:
        value: Any = 5
        for _ in range(depth):
            value = (value,)
        return value

    out = np.zeros(1, np.int32)
    run(kernel, nested(64), out)
    assert out[0] == 1
    with pytest.raises(TypeError):
        run(kernel, nested(65), out)


class Named(tuple):
    pass


def test_subclasses_of_tuples_are_refused() -> None:
    @ct.kernel
    def kernel(t):
        pass

    with pytest.raises(TypeError):
        run(kernel, Named((1, 2)))


def test_lists(backend: str) -> None:
    @ct.kernel
    def kernel(xs, n, out):
        total = ct.zeros((4,), ct.int32)
        for i in range(len(xs)):
            total += ct.load(xs[i], 0, 4, padding_mode="ZERO") * (i + 1)
        ct.store(out, 0, total + xs[n].shape[0] + ct.load(xs[ct.uint8(0)], 0, 4) * 0)

    arrays = [V[:4].copy(), V[::2], V[5:]]
    out = np.zeros(4, np.int32)
    run(kernel, arrays, 2, out)
    padded = np.array([*V[5:], 0])
    np.testing.assert_array_equal(out, arrays[0] + arrays[1] * 2 + padded * 3 + 3)
    for bad in ([], [V, V.astype(np.int64)], [V, V.reshape(2, 4)], [V, 3]):
        with pytest.raises(TypeError):
            run(kernel, bad, 0, out)

    @ct.kernel
    def misuse(xs, out):
        ct.load(xs, 0, 4)

    with pytest.raises(ct.TileTypeError):
        run(misuse, arrays, out)


KINDS_OF_LISTS = {
    "dense": lambda: [np.arange(i, i + 8, dtype=np.int32) for i in (10, 20)],
    "strided": lambda: [np.arange(32, dtype=np.int32)[::3], np.arange(64, dtype=np.int32)[::5]],
    "misaligned": lambda: [np.arange(9, dtype=np.int32)[1:], np.arange(11, dtype=np.int32)[3:]],
    "single": lambda: [np.full(1, 7, np.int32), np.full(1, 8, np.int32)],
    "three": lambda: [np.arange(i, i + 5, dtype=np.int32) for i in (40, 50, 60)],
}


@pytest.mark.parametrize("first", KINDS_OF_LISTS)
@pytest.mark.parametrize("second", KINDS_OF_LISTS)
def test_lists_meet_where_paths_meet(backend: str, first: str, second: str) -> None:
    """A list that depends on the path taken relies only on what is true of the arrays of all."""

    @ct.kernel
    def kernel(xs, ys, n, sums, facts):
        if n > 1:
            zs = xs
        else:
            zs = ys
        ws = xs
        for i in range(n):
            ct.store(sums, (0, i), ct.sum(ct.load(ws[1], 0, 8, padding_mode="ZERO")))
            ws = zs
        while True:
            ct.store(sums, (1, 0), ct.sum(ct.load(ws[0], 0, 8, padding_mode="ZERO")))
            if len(ws) == 2 or n == 0:
                break
            ws = ys
            n -= 1
        ct.store(facts, 0, len(ws) * 1000 + ws[1].shape[0] * 10 + ws[1].strides[0])

    for n in range(4):
        xs, ys = KINDS_OF_LISTS[first](), KINDS_OF_LISTS[second]()
        sums, facts = np.zeros((2, 4), np.int32), np.zeros(1, np.int32)
        run(kernel, xs, ys, n, sums, facts)
        want = np.zeros_like(sums)
        zs, ws, k = (xs if n > 1 else ys), xs, n
        for i in range(n):
            want[0, i] = ws[1][:8].sum()
            ws = zs
        while True:
            want[1, 0] = ws[0][:8].sum()
            if len(ws) == 2 or k == 0:
                break
            ws, k = ys, k - 1
        np.testing.assert_array_equal(sums, want)
        assert facts.item() == len(ws) * 1000 + len(ws[1]) * 10 + ws[1].strides[0] // 4


def test_lists_of_different_arrays_do_not_meet(backend: str) -> None:
    @ct.kernel
    def kernel(xs, ys, n, out):
        zs = xs if n > 1 else ys
        ct.store(out, 0, zs[0].shape[0])

    with pytest.raises(ct.TileTypeError, match="1-dimensional arrays of int32 on one path and a list of 2-dimensional"):
        run(kernel, [V], [V.reshape(2, 4)], 1, np.zeros(1, np.int32))


def test_list_annotations(backend: str) -> None:
    Static = ct.ListAnnotation(element=ct.ArrayAnnotation(static_shape_dims=(0,)))

    @ct.kernel
    def kernel(xs: Annotated[list, Static], out):
        ct.store(out, 0, ct.full((1,), ct.ensure_constant(xs[0].shape[0]), ct.int32))

    out = np.zeros(1, np.int32)
    run(kernel, [V[:4], V[4:]], out)
    assert out[0] == 4
    with pytest.raises(ValueError):
        run(kernel, [V[:4], V[5:]], out)


def test_annotations_that_exclude_each_other() -> None:
    Wide = ct.ArrayAnnotation(index_dtype=ct.int64)

    @ct.kernel
    def kernel(x: Annotated[ct.Constant[int], Wide]):
        pass

    with pytest.raises(TypeError):
        run(kernel, 1)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (ct.IndexedWithInt64, 3),
        (ct.ScalarInt64, V),
        (ct.ScalarInt64, 2.5),
        (ct.Constant[int], V),
        (Annotated[list, ct.ListAnnotation(element=ct.ArrayAnnotation())], V),
        (tuple[Any, Any], V),
        (ct.ScalarInt64, True),
    ],
    ids=range(7),
)
def test_annotations_are_checked(annotation: Any, value: Any) -> None:
    def body(x):
        pass

    body.__annotations__["x"] = annotation
    with pytest.raises(TypeError):
        run(ct.kernel(body), value)


def test_unknown_keywords_of_launch() -> None:
    @ct.kernel
    def kernel(x):
        pass

    with pytest.raises(RuntimeError, match="no keyword 'shared_memory'"):
        ct.launch(None, (1,), kernel, (V,), shared_memory=3)  # type: ignore[arg-type]


# -- specialisation


def test_what_compiles_again(backend: str) -> None:
    traced: list[Any] = []

    @ct.kernel
    def kernel(x, n, c: ct.Constant[int]):
        ct.static_eval(traced.append((x.dtype, c)))

    def compiled(*args: Any) -> int:
        before = len(traced)
        run(kernel, *args)
        return len(traced) - before

    x = np.zeros(64, np.float32)
    assert compiled(x, 1, 1) == 1
    assert compiled(x, 2, 1) == 0
    assert compiled(np.zeros(64, np.float32), 7, 1) == 0
    assert compiled(x, 1, 2) == 1
    assert compiled(x.astype(np.float64), 1, 1) == 1
    assert compiled(x.reshape(8, 8), 1, 1) == 1
    assert compiled(x, 1.5, 1) == 1
    assert compiled(x, 1, True) == 1
    changed = kernel.replace_hints(occupancy=2)
    run(changed, x, 1, 1)
    assert len(traced) == 7


# -- more than 2**31 elements


def test_arrays_of_more_than_2_31_elements(backend: str, tmp_path: Path) -> None:
    """A sparse file of 2**32 + 64 bytes; only the pages that are touched take space."""
    n = (1 << 32) + 64
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(n)
    large = np.memmap(path, np.uint8, "r+", shape=(n,))

    @ct.kernel
    def ends(x: ct.IndexedWithInt64, last: ct.ScalarInt64, out):
        ct.static_assert(x.shape[0].dtype == ct.int64)
        ct.store(x, last, ct.full((16,), 7, ct.uint8))
        ct.scatter(x, ct.int64(1 << 31) + ct.arange(4, dtype=ct.int64), 9)
        part = x.slice(0, ct.int64((1 << 32) + 8), x.shape[0])
        ct.store(out, 0, ct.load(part, 0, 64, padding_mode="ZERO"))
        ct.store(out, 1, ct.gather(x, ct.int64((1 << 31) - 2) + ct.arange(64, dtype=ct.int64)))

    out = np.zeros(128, np.uint8)
    run(ends, large, n // 16 - 1, out)
    np.testing.assert_array_equal(out[:64], [*[0] * 40, *[7] * 16, *[0] * 8])
    np.testing.assert_array_equal(out[64:72], [0, 0, 9, 9, 9, 9, 0, 0])
    assert large[-16:].tolist() == [7] * 16 and large[1 << 31] == 9

    @ct.kernel
    def narrow(x):
        pass

    with pytest.raises(OverflowError, match="IndexedWithInt64"):
        run(narrow, large)


def test_two_dimensions_with_more_than_2_31_elements(backend: str) -> None:
    """Each extent fits int32, but offsets do not: rows that share memory stand for a large array."""
    rows, columns = 1 << 20, 1 << 14
    row = np.arange(columns, dtype=np.int8)
    x = np.lib.stride_tricks.as_strided(row, (rows, columns), (0, 1))

    @ct.kernel
    def read(x, out):
        ct.store(out, (0, 0), ct.load(x, ((1 << 19) - 1, (1 << 12) - 1), (2, 4)))

    out = np.zeros((2, 4), np.int8)
    run(read, x, out)
    np.testing.assert_array_equal(out, [row[-4:]] * 2)


def test_offsets_beyond_int32(backend: str, tmp_path: Path) -> None:
    path = tmp_path / "wide"
    shape = (3, 1 << 31 - 1)
    with path.open("wb") as file:
        file.truncate(shape[0] * shape[1] * 2)
    wide = np.memmap(path, np.int16, "r+", shape=shape)
    wide[2, -4:] = [1, 2, 3, 4]

    @ct.kernel
    def copy(x, out):
        last = ct.num_tiles(x, 1, (1, 4)) - 1
        tile = ct.load(x, (2, last), (1, 4))
        ct.store(x, (1, last), tile * 2)
        ct.store(out, (0, 0), tile + ct.gather(x, (2, x.shape[1] - 1)))
        ct.store(out, (1, 0), ct.load(x, (0, last), (4, 4)))  # its rows are further apart than int32 can tell

    out = np.zeros((8, 4), np.int16)
    run(copy, wide, out)
    np.testing.assert_array_equal(out[0], [5, 6, 7, 8])
    np.testing.assert_array_equal(out[4:], [[0] * 4, [2, 4, 6, 8], [1, 2, 3, 4], [0] * 4])
    assert wide[1, -4:].tolist() == [2, 4, 6, 8]


# -- threads


def concurrently(work: Callable[[int], None], threads: int = 8) -> None:
    """Run ``work(i)`` in many threads that start together; the first failure is raised."""
    failures: list[BaseException] = []
    start = threading.Barrier(threads)

    def body(i: int) -> None:
        try:
            start.wait()
            work(i)
        except BaseException as e:  # noqa: BLE001 - raised below, in the thread of the test
            failures.append(e)

    pool = [threading.Thread(target=body, args=(i,)) for i in range(threads)]
    for t in pool:
        t.start()
    for t in pool:
        t.join()
    if failures:
        raise failures[0]


def test_concurrent_compilation_and_launch(backend: str) -> None:
    """Threads meet in first launches of one kernel, of different specialisations, and of kernels with mistakes."""
    traced: list[int] = []

    @ct.kernel
    def scale(x, out, K: ct.Constant[int]):
        ct.static_eval(traced.append(K))
        i = ct.bid(0)
        ct.store(out, i, ct.load(x, i, 16) * K)

    @ct.kernel
    def wrong(x):
        ct.load(x, (0, 0), (4,))

    x = np.arange(256, dtype=np.int32)

    def work(i: int) -> None:
        for k in range(6):
            out = np.zeros_like(x)
            ct.launch(None, (16,), scale, (x, out, k % 3), backend=backend)
            np.testing.assert_array_equal(out, x * (k % 3))
            with pytest.raises(ct.TileTypeError):
                ct.launch(None, (1,), wrong, (x,), backend=backend)

    concurrently(work)
    assert sorted(traced) == [0, 1, 2]


def test_backends_are_chosen_per_thread() -> None:
    seen: dict[int, Any] = {}
    x = np.arange(16, dtype=np.int32)

    @ct.kernel
    def double(x, out):
        ct.store(out, 0, ct.load(x, 0, 16) * 2)

    def work(i: int) -> None:
        for _ in range(4):
            with ct.use_backend("reference" if i % 2 else "cpu"):
                out = np.zeros_like(x)
                ct.launch(None, (1,), double, (x, out))
                seen[i] = out

    concurrently(work)
    assert all((out == 2 * x).all() for out in seen.values()) and len(seen) == 8
