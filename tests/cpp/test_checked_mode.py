"""TILEWRIGHT_CHECK=1 for kernels in Tile C++: pointers, whose arrays only the launch knows, and what else they promise."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.cpp import Module

SOURCE = """#include "cuda_tile.h"
namespace ct = cuda::tiles;

using ints = ct::tile<int, ct::shape<8>>;

__tile_global__ void copy(int const* x, int* out, int first, int last) {
    auto at = ct::iota<ints>() + first;
    ct::store_masked(out + ct::iota<ints>(), ct::load_masked(x + at, at < last), at < last);
}

__tile_global__ void put(int* out, int at) { ct::store(out + at, 1); }

__tile_global__ void count(int* out, int at) { ct::atomic_add(out + at, 1, ct::memory_order_relaxed_t{}, ct::thread_scope_device_t{}); }

__tile_global__ void divide(int const* x, int* out, int d) {
    ct::store(out + ct::iota<ints>(), ct::load(x + ct::iota<ints>()) / d);
}

__tile_global__ void shift(int const* x, int* out, int n) {
    ct::store(out + ct::iota<ints>(), ct::load(x + ct::iota<ints>()) << n);
}
"""


@pytest.fixture(scope="module")
def module() -> Module:
    return ct.cpp.compile(SOURCE, name="checked.cu")


@pytest.fixture(params=["cpu", "reference"], autouse=True)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CHECK", "1")
    monkeypatch.setenv("TILEWRIGHT_BACKEND", request.param)


X = np.arange(8, dtype=np.int32)
# A kernel, what it gets besides the output, and what the error says; None where all is well.
CASES: tuple[tuple[str, tuple[Any, ...], tuple[Any, ...], str | None], ...] = (
    ("copy", (X,), (0, 8), None),
    ("copy", (X,), (3, 8), None),
    ("copy", (X,), (3, 9), "load of the element 8 of 'x', which has the elements 0 to 7, at element 5 of the tile"),
    ("copy", (X,), (-2, 4), "load of the element -2 of 'x', which has the elements 0 to 7, at element 0 of the tile"),
    (
        "copy",
        (X[::-1],),
        (0, 8),
        "load of the element 1 of 'x', which has the elements -7 to 0, at element 1 of the tile",
    ),
    ("put", (), (7,), None),
    ("put", (), (8,), "store of the element 8 of 'out', which has the elements 0 to 7, in block (0, 0, 0)"),
    ("count", (), (-1,), "atomic rmw of the element -1 of 'out', which has the elements 0 to 7"),
    ("divide", (X,), (3,), None),
    ("divide", (X,), (0,), "the divisor is 0; it must not be 0, in block (0, 0, 0)"),
    ("shift", (X,), (31,), None),
    ("shift", (X,), (32,), "the shift count is 32; valid are 0 to 31"),
)


@pytest.mark.parametrize("name, before, after, words", CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_checks(module: Module, name: str, before: tuple[Any, ...], after: tuple[Any, ...], words: str | None) -> None:
    kernel, whole = module.kernel(name), np.full(24, -7, np.int32)
    arguments = (*before, whole[8:16], *after)
    if words is None:
        ct.launch(None, (1,), kernel, arguments)
    else:
        with pytest.raises(ct.TileError, match=re.escape(words)) as caught:
            ct.launch(None, (1,), kernel, arguments)
        assert caught.value.loc is not None and caught.value.loc.file == "checked.cu"
        assert f"{caught.value.loc.line} | __tile_global__" in str(caught.value) or "    ct::store" in str(caught.value)
        assert (whole[8:16] == -7).all()
    assert (whole[:8] == -7).all() and (whole[16:] == -7).all()
