"""TILEWRIGHT_CHECK=1: compiled kernels that say what is undefined about them, before it does harm."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilewright as ct


@pytest.fixture(params=["cpu", "reference"], autouse=True)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TILEWRIGHT_CHECK", "1")
    monkeypatch.setenv("TILEWRIGHT_BACKEND", request.param)
    return request.param


def ints(*shape: int) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)


@ct.kernel
def divide(x, d, out):
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (8,)) // ct.load(d, (ct.bid(0),), (8,)))


@ct.kernel
def remainder(x, d, out):
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (8,)) % d)


@ct.kernel
def shift(x, count, out):
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (8,)) << ct.load(count, (ct.bid(0),), (8,)))


@ct.kernel
def gather(x, columns, out):
    rows = ct.arange(4, dtype=ct.int32)
    found = ct.load(columns, (0,), (4,))
    ct.store(out, (0,), ct.gather(x, (rows, found), check_bounds=False, mask=found < 100))


@ct.kernel
def scatter(x, columns, out):
    found = ct.load(columns, (0,), (4,))
    ct.scatter(out, (ct.bid(0), found), 1, check_bounds=False)


@ct.kernel
def add(x, i, out):
    ct.atomic_add(out, (i,), 1, check_bounds=False)


@ct.kernel
def compare_and_swap(x, i, out):
    ct.atomic_cas(out, (i,), 0, 1, check_bounds=False)


@ct.kernel
def load(x, i, out):
    ct.store(out, (0,), ct.load(x, (i,), (8,), check_bounds=False))


@ct.kernel
def store(x, i, out):
    ct.store(out, (0, i), ct.zeros((2, 4), ct.int32), check_bounds=False)


@ct.kernel
def view_store(x, i, out):
    out.tiled_view((4,)).store((i,), ct.zeros(4, ct.int32), check_bounds=False)


@ct.kernel
def raw(x, offset, out):
    ct.store(out, (0,), x.get_raw_memory().load_offset(ct.arange(4, dtype=ct.int32) + offset))


@ct.kernel
def raw_store(x, offset, out):
    out.get_raw_memory().store_offset(offset, 1)


@ct.kernel
def element_of_list(arrays, i, out):
    ct.store(out, (0,), ct.load(arrays[i], (0,), (8,)))


@ct.kernel
def part(x, i, out):
    ct.store(out, (0,), ct.extract(ct.load(x, (0,), (16,)), (i,), (8,)))


@ct.kernel
def assume(x, i, out):
    ct.store(out, (ct.assume_divisible_by(i, 4),), ct.zeros(8, ct.int32))


@ct.kernel
def assertion(x, i, out):
    ct.assert_(ct.load(x, (0,), (8,)) < i, "too large")
    ct.store(out, (0,), ct.zeros(8, ct.int32))


WIDE = ints(4, 8)[:, :5]  # its rows lie in a larger allocation
ZEROS_AT_11 = np.where(np.arange(16) == 11, 0, 1).astype(np.int32)
# A kernel, its arguments but for the array that it writes, the shape of that, and what the error says.
CASES: tuple[tuple[Any, Any, Any, tuple[int, ...], str], ...] = (
    (
        divide,
        ints(16),
        ZEROS_AT_11,
        (16,),
        "the divisor is 0; it must not be 0, at element 3 of the tile, in block (1, 0, 0)",
    ),
    (remainder, ints(16), 0, (16,), "the divisor is 0; it must not be 0, in block (0, 0, 0)"),
    (
        shift,
        ints(16),
        ints(16) * 3,
        (16,),
        "the shift count is 33; valid are 0 to 31, at element 3 of the tile, in block (1, 0, 0)",
    ),
    (
        shift,
        ints(16),
        2 - ints(16),
        (16,),
        "the shift count is -1; valid are 0 to 31, at element 3 of the tile, in block (0, 0, 0)",
    ),
    (
        gather,
        WIDE,
        np.array([0, 4, 5, 100], np.int32),
        (4,),
        "index 5 along axis 1 of 'x', whose bounds are not checked; valid are 0 to 4, at element 2 of the tile",
    ),
    (
        gather,
        WIDE,
        np.array([0, -1, 5, 1], np.int32),
        (4,),
        "index -1 along axis 1 of 'x', whose bounds are not checked; valid are 0 to 4, at element 1 of the tile",
    ),
    (
        scatter,
        ints(8),
        np.array([0, 1, 2, 9], np.int32),
        (2, 9),
        "index 9 along axis 1 of 'out', whose bounds are not checked; valid are 0 to 8, at element 3 of the tile",
    ),
    (
        add,
        ints(8),
        8,
        (8,),
        "index 8 along axis 0 of 'out', whose bounds are not checked; valid are 0 to 7, in block (0, 0, 0)",
    ),
    (
        compare_and_swap,
        ints(8),
        -1,
        (8,),
        "index -1 along axis 0 of 'out', whose bounds are not checked; valid are 0 to 7",
    ),
    (load, ints(15), 1, (8,), "load of the elements 8 to 15 along axis 0 of 'x', which has the elements 0 to 14"),
    (store, ints(8), 2, (2, 11), "store of the elements 8 to 11 along axis 1 of 'out', which has the elements 0 to 10"),
    (
        view_store,
        ints(8),
        -1,
        (8,),
        "store of the elements -4 to -1 along axis 0 of 'out', which has the elements 0 to 7",
    ),
    (
        raw,
        ints(8),
        5,
        (4,),
        "offset 8 in the memory of 'x', whose bounds are not checked; valid are 0 to 7, at element 3 of the tile",
    ),
    (
        raw_store,
        ints(8),
        30,
        (20,),
        "offset 30 in the memory of 'out', whose bounds are not checked; valid are 0 to 19",
    ),
    (element_of_list, [ints(8)] * 3, 3, (8,), "index 3 into the list 'arrays'; valid are 0 to 2"),
    (part, ints(16), 2, (8,), "index 2 of the subtile along axis 0; valid are 0 to 1"),
    (assume, ints(8), 6, (64,), "6 is no multiple of 4, as the program assumes"),
    (assertion, ints(8), 7, (8,), "assertion failed: too large, in block (0, 0, 0)"),
)
DEFINED: tuple[tuple[Any, Any, Any, tuple[int, ...]], ...] = (
    (divide, ints(16), ints(16) + 1, (16,)),
    (remainder, ints(16), -1, (16,)),
    (shift, ints(16), ints(16) * 2, (16,)),
    (gather, WIDE, np.array([0, 4, 3, 100], np.int32), (4,)),
    (scatter, ints(8), np.array([0, 1, 2, 8], np.int32), (2, 9)),
    (add, ints(8), 7, (8,)),
    (compare_and_swap, ints(8), 0, (8,)),
    (load, ints(16), 1, (8,)),
    (store, ints(8), 1, (2, 8)),
    (view_store, ints(8), 1, (8,)),
    (raw, ints(8), 4, (4,)),
    (raw_store, ints(8), 19, (20,)),
    (element_of_list, [ints(8)] * 3, 2, (8,)),
    (part, ints(16), 1, (8,)),
    (assume, ints(8), 4, (64,)),
    (assertion, ints(8), 8, (8,)),
)


def launch(kernel: Any, x: Any, y: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Launches ``kernel`` on an output array inside of a larger one; returns that, of which nothing else may change."""
    whole = np.full((shape[0] + 2, *(n + 2 for n in shape[1:])), -7, np.int32)
    out = whole[tuple(slice(1, -1) for _ in shape)]
    try:
        ct.launch(None, (2 if shape == (16,) else 1,), kernel, (x, y, out))
    finally:
        frame = np.ones(whole.shape, bool)
        frame[tuple(slice(1, -1) for _ in shape)] = False
        assert (whole[frame] == -7).all(), "memory around the array has changed"
    return out


@pytest.mark.parametrize("kernel, x, y, shape, words", CASES, ids=[f"{c[0].name}-{i}" for i, c in enumerate(CASES)])
def test_violation(kernel: Any, x: Any, y: Any, shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(ct.TileError, match=re.escape(words)) as caught:
        launch(kernel, x, y, shape)
    loc, code = caught.value.loc, kernel.function.__code__
    assert loc is not None and loc.file == __file__ and loc.function == kernel.name
    assert code.co_firstlineno + 1 < loc.line <= code.co_firstlineno + 4


@pytest.mark.parametrize("kernel, x, y, shape", DEFINED, ids=[c[0].name for c in DEFINED])
def test_nearest_defined_neighbour(
    kernel: Any, x: Any, y: Any, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = launch(kernel, x, y, shape)
    monkeypatch.setenv("TILEWRIGHT_CHECK", "0")
    np.testing.assert_array_equal(found, launch(kernel, x, y, shape))


def test_constants_need_no_check(backend: str) -> None:
    @ct.kernel
    def constant(x, out):
        i = ct.bid(0) // 4 % 2
        ct.store(out, (i,), (ct.load(x, (0,), (8,)) << 3) // 2)

    if backend == "reference":
        pytest.skip("only compiled backends optimize")
    ct.launch(None, (1,), constant, (ints(8), ints(8)))
    (found,) = constant.inspect().specializations
    assert "assert" not in found.stage("optimized Tile IR")


def test_the_variable_counts_at_every_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    for wanted in ("1", "0", "1"):
        monkeypatch.setenv("TILEWRIGHT_CHECK", wanted)
        if wanted == "0":
            launch(remainder, ints(16), 0, (16,))
            continue
        with pytest.raises(ct.TileError, match="divisor is 0"):
            launch(remainder, ints(16), 0, (16,))
