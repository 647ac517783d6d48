"""A kernel in C++ and the same one in Python are the same ops after optimization.

What differs is how a kernel learns of its arrays: Python's come with extents and strides as parameters, which the IR
assumes to be no less than zero and may know to be multiples of 16; a C++ kernel gets a pointer, and says the rest in
its own code. Assumptions, constants, and the grid's unsigned indices are therefore left out of the comparison.
"""

from __future__ import annotations

import pytest
from cpp_harness import PREAMBLE

import tilewright as ct
from tilewright.frontend.cpp.module import Module
from tilewright.frontend.python.compile import trace
from tilewright.frontend.signature import ArraySpec, ScalarSpec, Signature
from tilewright.ir.core import Function, Op
from tilewright.ir.dtypes import float16, float32, int32
from tilewright.ir.types import TileType
from tilewright.transforms.pipelines import optimize

SOURCE = (
    PREAMBLE
    + """
template <typename T> __tile__ auto rows(T* p, int n) {
    return ct::partition_view{ct::tensor_span{p, ct::extents{n}}, ct::shape{16_ic}};
}
__tile_global__ void add(float* a, float* b, float* out, int n) {
    auto i = ct::bid().x;
    rows(out, n).store_masked(rows(a, n).load_masked(i) + rows(b, n).load_masked(i), i);
}
__tile_global__ void total(float* a, float* out, int n, int count) {
    auto view = rows(a, n);
    auto sum = ct::zeros<ct::tile<float, ct::shape<16>>>();
    for (int i = 0; i < count; ++i) sum = sum + ct::exp(view.load_masked(i));
    rows(out, n).store_masked(sum, 0);
}
template <typename T> __tile__ auto blocks(T* p, int m, int n) {
    return ct::partition_view{ct::tensor_span{p, ct::extents{m, n}}, ct::shape{16_ic, 16_ic}};
}
__tile_global__ void product(__half* a, __half* b, float* out, int n, int count) {
    auto x = blocks(a, n, n), y = blocks(b, n, n);
    auto sum = ct::zeros<ct::tile<float, ct::shape<16, 16>>>();
    auto i = ct::bid().x, j = ct::bid().y;
    for (int k = 0; k < count; ++k) sum = ct::mma(x.load_masked(i, k), y.load_masked(k, j), sum);
    blocks(out, n, n).store_masked(sum, i, j);
}
"""
)


def add(a, b, out):
    i = ct.bid(0)
    x = ct.load(a, index=(i,), shape=(16,), padding_mode=ct.PaddingMode.ZERO)
    y = ct.load(b, index=(i,), shape=(16,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, index=(i,), tile=x + y)


def total(a, out, count):
    sum = ct.zeros((16,), ct.float32)
    for i in range(count):
        sum = sum + ct.exp(ct.load(a, index=(i,), shape=(16,), padding_mode=ct.PaddingMode.ZERO))
    ct.store(out, index=(0,), tile=sum)


def product(a, b, out, count):
    sum = ct.zeros((16, 16), ct.float32)
    i, j = ct.bid(0), ct.bid(1)
    for k in range(count):
        x = ct.load(a, index=(i, k), shape=(16, 16), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, index=(k, j), shape=(16, 16), padding_mode=ct.PaddingMode.ZERO)
        sum = ct.mma(x, y, sum)
    ct.store(out, index=(i, j), tile=sum)


F1 = ArraySpec(float32, (None,), (1,))
F2, H2 = (ArraySpec(dtype, (None, None), (None, 1)) for dtype in (float32, float16))
COUNT = ScalarSpec(int32)
CASES = {"add": (add, (F1, F1, F1)), "total": (total, (F1, F1, COUNT)), "product": (product, (H2, H2, F2, COUNT))}
_LEFT_OUT = ("constant", "make_tensor_view", "make_partition_view")


def essence(function: Function) -> list[tuple[str, str]]:
    """The ops that compute and move data, in order, each with the shape and dtype of the tiles that it handles."""
    return [
        (op.name, _tiles(op))
        for op in optimize(function).walk()
        if op.name not in _LEFT_OUT and not op.name.startswith("assume") and not _counts_blocks(op)
    ]


def _counts_blocks(op: Op) -> bool:
    """Whether ``op`` only changes how an index is written."""
    return op.name in ("cast", "bitcast") and op.result.tile.rank == 0


def _tiles(op: Op) -> str:
    return ", ".join(str(v.type) for v in (*op.operands, *op.results) if isinstance(v.type, TileType) and v.tile.rank)


@pytest.mark.parametrize("name", CASES)
def test_the_same_ops(name: str) -> None:
    function, arguments = CASES[name]
    python = essence(trace(function, Signature(arguments), {}))
    assert essence(Module(SOURCE).kernel(name).function) == python
    assert len(python) > 3
