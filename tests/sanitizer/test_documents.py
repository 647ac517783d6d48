"""The examples of Tile C++ are free of undefined behaviour: the sanitizer reports nothing about them.

What it reports of code that has some is in ``test_categories.py``.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from support.sanitizer_runs import HAS_COMPILER
from support.tile_cpp_examples import EXAMPLES

import tilewright as ct
from tilewright.backends.launch_arguments import Buffer, LaunchArguments
from tilewright.backends.registry import get_backend
from tilewright.ir.core import Function
from tilewright.ir.dtypes import float64, int32

pytestmark = pytest.mark.skipif(not HAS_COMPILER, reason="Tile C++ needs a compiler: tilewright[cpp]")
HEAD = """#include "cuda_tile.h"
#include "cuda_fp16.h"
namespace ct = cuda::tiles;
using namespace ct::literals;
template <typename T> __tile__ void keep(double* out, T x) {
    ct::store(out + ct::iota<ct::tile<int, ct::tile_shape_t<T>>>(), ct::element_cast<double>(x));
}
"""


@pytest.fixture(scope="module")
def functions() -> dict[str, Function]:
    """The checked form of each example, which keeps its values."""
    parts = [HEAD]
    for number, (statements, values) in enumerate(EXAMPLES.values()):
        kept = "".join(f"keep(out + {64 * i}, {expression});\n" for i, expression in enumerate(values))
        parts.append(f"__tile_global__ void k{number}(int* p, double* out, int n) {{\n{statements}\n{kept}}}")
    module = importlib.import_module("tilewright.frontend.cpp.module").Module
    names = [f"k{i}" for i in range(len(EXAMPLES))]
    loaded = module("\n".join(parts), "examples.cu", defines={"TW_CHECKED": 1}).load(*names)
    return {name: kernel.function for name, kernel in zip(EXAMPLES, loaded)}


def _buffer(name: str, array: np.ndarray[Any, Any], dtype: Any) -> Buffer:
    address = array.ctypes.data
    return Buffer(name, address, address, address + array.nbytes, dtype, True, array.shape, (1,))


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_clean(functions: dict[str, Function], name: str) -> None:
    p, out = np.arange(64, dtype=np.int32), np.zeros(64 * len(EXAMPLES[name].values))
    buffers = [_buffer("p", p, int32), _buffer("out", out, float64)]
    with ct.sanitize() as report:
        made = get_backend("sanitizer").compile(functions[name], {})
        made.launch((1, 1, 1), LaunchArguments([p.ctypes.data, out.ctypes.data, 5], buffers))
    assert [v.render() for v in report.violations] == [] and report.launches == 1
