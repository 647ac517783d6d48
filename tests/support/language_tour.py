"""A tour of the language, in Python and in Tile C++: a kernel for each thing that the programming guide explains.

Each stop is a kernel in both languages, the arguments of a launch, and what it gives. The Python form is called with
constants for what the C++ form has in its text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tilewright as ct
from tilewright.frontend.signature import ArgumentSpec, ArraySpec, ConstantSpec
from tilewright.ir.dtypes import DType, dtype_from_short

Difference = tuple[str, dict[str, int], dict[str, int]]  # the reason, the ops of Python alone and of C++ alone


@dataclass(frozen=True)
class Stop:
    """``make`` gives the arrays of a launch, the last of which is written; ``numbers`` follow them in C++."""

    python: Any
    cpp: str
    grid: tuple[int, ...]
    make: Callable[[], tuple[np.ndarray, ...]]
    expected: Callable[..., Any]
    constants: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()
    differences: tuple[Difference, ...] = ()

    @property
    def name(self) -> str:
        return str(self.python.function.__name__)

    def signature(self) -> tuple[ArgumentSpec, ...]:
        """What the Python form is compiled for, to be the C++ one."""
        arrays = [
            ArraySpec(_dtype(a), (None,) * a.ndim, (None,) * (a.ndim - 1) + (1,) * (a.ndim > 0)) for a in self.make()
        ]
        return (*arrays, *(ConstantSpec.of(c) for c in self.constants))


def _dtype(a: np.ndarray) -> DType:
    return dtype_from_short(f"{a.dtype.kind}{8 * a.dtype.itemsize}")


def _wholes(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    """Whole numbers, whose sums and products floats hold."""
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(dtype)


CPP_HELPERS = """
template <int N, typename T> __tile__ auto vector_of(T* p, int length) {
    return ct::partition_view{ct::tensor_span{p, ct::extents{length}}, ct::shape<N>{}};
}
template <int M, int N, typename T> __tile__ auto matrix_of(T* p, int rows, int columns) {
    return ct::partition_view{ct::tensor_span{p, ct::extents{rows, columns}}, ct::shape<M, N>{}};
}
"""


@ct.kernel
def difference(left, right, out, N: ct.Constant[int]):
    i = ct.bid(0)
    x, y = left.tiled_view((N,)).load((i,)), right.tiled_view((N,)).load((i,))
    out.tiled_view((N,)).store((i,), x - y)


@ct.kernel
def weighted(left, right, out, N: ct.Constant[int]):
    i = ct.bid(0)
    x, y = ct.load(left, index=(i,), shape=(N,)), ct.load(right, index=(i,), shape=(N,))
    ct.store(out, index=(i,), tile=0.5 * x + 3.0 * y)


@ct.kernel
def clipped(source, out, N: ct.Constant[int]):
    i = ct.bid(0)
    x = ct.load(source, index=(i,), shape=(N,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, index=(i,), tile=x)


@ct.kernel
def reversed_pairs(source, out, N: ct.Constant[int]):
    places = ct.bid(0) * N + ct.arange(N, dtype=ct.int32)
    ct.scatter(out, places, ct.gather(source, places ^ 1))


@ct.kernel
def column_sums(source, out, N: ct.Constant[int], COUNT: ct.Constant[int]):
    total = ct.zeros((N,), ct.float32)
    for k in range(COUNT):
        total = total + ct.load(source, index=(k,), shape=(N,))
    ct.store(out, index=(0,), tile=total)


@ct.kernel
def all_but_the_first(source, out, N: ct.Constant[int]):
    i = ct.bid(0)
    x = ct.zeros((N,), ct.float32)
    if i > 0:
        x = ct.load(source, index=(i,), shape=(N,))
    ct.store(out, index=(i,), tile=x)


@ct.kernel
def product(a, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int], STEPS: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(STEPS):
        x = ct.load(a, index=(i, k), shape=(M, K), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, index=(k, j), shape=(K, N), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, y, total)
    ct.store(c, index=(i, j), tile=total)


@ct.kernel
def grand_total(source, out, N: ct.Constant[int]):
    x = ct.load(source, index=(ct.bid(0),), shape=(N,), padding_mode=ct.PaddingMode.ZERO)
    ct.atomic_add(out, 0, ct.sum(x), memory_order=ct.MemoryOrder.RELAXED)


@ct.kernel(num_ctas=ct.ByTarget(sm_90=2, sm_100=4))
def hinted(source, out, N: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, index=(i,), tile=ct.load(source, index=(i,), shape=(N,), latency=6))


@ct.kernel
def table_of_sums(out):
    column = ct.arange(4, dtype=ct.int32).reshape((4, 1))
    ct.store(out, index=(0, 0), tile=column + 10 * ct.arange(8, dtype=ct.int32).reshape((1, 8)))


@ct.kernel
def row_maxima(out):
    table = ct.arange(16, dtype=ct.int32).reshape((4, 4)) * 7 % 16
    ct.store(out, index=(0, 0), tile=ct.max(table, axis=1, keepdims=True))


@ct.kernel
def turned(out):
    cube = ct.permute(ct.arange(16, dtype=ct.int32).reshape((2, 2, 4)), (1, 2, 0))
    ct.store(out, index=(0, 0, 0), tile=cube)


@ct.kernel
def signs(out):
    x = ct.arange(8, dtype=ct.int32)
    ct.store(out, index=(0,), tile=ct.where(x < 3, -x, x))


CHECKS = "gather and scatter of Python check every index; C++ has a form for it, which this kernel does not use"
TOUR = {
    stop.name: stop
    for stop in (
        Stop(
            difference,
            """__tile_global__ void difference(float* left, float* right, float* out) {
                auto i = ct::bid().x;
                auto x = vector_of<8>(left, 64).load(i), y = vector_of<8>(right, 64).load(i);
                vector_of<8>(out, 64).store(x - y, i);
            }""",
            (8,),
            lambda: (_wholes(64), _wholes(64, seed=1), np.zeros(64, np.float32)),
            np.subtract,
            (8,),
        ),
        Stop(
            weighted,
            """__tile_global__ void weighted(float* left, float* right, float* out) {
                auto i = ct::bid().x;
                auto x = vector_of<16>(left, 64).load(i), y = vector_of<16>(right, 64).load(i);
                vector_of<16>(out, 64).store(0.5f * x + 3.0f * y, i);
            }""",
            (4,),
            lambda: (_wholes(64), _wholes(64, seed=1), np.zeros(64, np.float32)),
            lambda x, y: x / 2 + 3 * y,
            (16,),
        ),
        Stop(
            clipped,
            """__tile_global__ void clipped(float* source, float* out, int n) {
                auto i = ct::bid().x;
                vector_of<32>(out, n).store_masked(vector_of<32>(source, n).load_masked(i), i);
            }""",
            (3,),
            lambda: (_wholes(77), np.zeros(77, np.float32)),
            np.copy,
            (32,),
            (77,),
        ),
        Stop(
            reversed_pairs,
            """__tile_global__ void reversed_pairs(int* source, int* out) {
                int first = 8 * ct::bid().x;
                auto places = first + ct::iota<ct::tile<int, ct::shape<8>>>();
                ct::store(out + places, ct::load(source + (places ^ 1)));
            }""",
            (4,),
            lambda: (_wholes(32, dtype=np.int32), np.zeros(32, np.int32)),
            lambda x: x.reshape(16, 2)[:, ::-1].ravel(),
            (8,),
            differences=((CHECKS, {"cast": 2, "reshape": 2, "broadcast": 2, "cmp": 4, "and": 2}, {}),),
        ),
        Stop(
            column_sums,
            """__tile_global__ void column_sums(float* source, float* out) {
                auto total = ct::zeros<ct::tile<float, ct::shape<8>>>();
                for (int k = 0; k < 5; ++k) total = total + vector_of<8>(source, 40).load(k);
                vector_of<8>(out, 8).store(total, 0);
            }""",
            (1,),
            lambda: (_wholes(40), np.zeros(8, np.float32)),
            lambda x: x.reshape(5, 8).sum(0),
            (8, 5),
        ),
        Stop(
            all_but_the_first,
            """__tile_global__ void all_but_the_first(float* source, float* out) {
                int i = ct::bid().x;
                auto x = ct::zeros<ct::tile<float, ct::shape<8>>>();
                if (i > 0) x = vector_of<8>(source, 32).load(i);
                vector_of<8>(out, 32).store(x, i);
            }""",
            (4,),
            lambda: (_wholes(32), np.full(32, np.nan, np.float32)),
            lambda x: np.where(np.arange(32) < 8, 0, x),
            (8,),
        ),
        Stop(
            product,
            """__tile_global__ void product(__half* a, __half* b, float* c, int m, int n, int k) {
                auto i = ct::bid().x, j = ct::bid().y;
                auto total = ct::zeros<ct::tile<float, ct::shape<16, 32>>>();
                for (int step = 0; step < 2; ++step) {
                    auto x = matrix_of<16, 16>(a, m, k).load_masked(i, step);
                    total = ct::mma(x, matrix_of<16, 32>(b, k, n).load_masked(step, j), total);
                }
                matrix_of<16, 32>(c, m, n).store_masked(total, i, j);
            }""",
            (2, 2),
            lambda: (
                _wholes(20, 25, dtype=np.float16),
                _wholes(25, 50, seed=1, dtype=np.float16),
                np.zeros((20, 50), np.float32),
            ),
            lambda a, b: a.astype(np.float32) @ b.astype(np.float32),
            (16, 32, 16, 2),
            (20, 50, 25),
        ),
        Stop(
            grand_total,
            """__tile_global__ void grand_total(int* source, int* out, int n) {
                auto x = vector_of<16>(source, n).load_masked(ct::bid().x);
                ct::atomic_add(out, (int)ct::sum(x, 0_ic), ct::memory_order_relaxed_t{}, ct::thread_scope_device_t{});
            }""",
            (5,),
            lambda: (_wholes(70, dtype=np.int32), np.zeros(1, np.int32)),
            lambda x: x.sum(keepdims=True),
            (16,),
            (70,),
            (
                (
                    "atomic_add of Python checks its index; C++ has no check",
                    {"cmp": 1},
                    {},
                ),
            ),
        ),
        Stop(
            hinted,
            """[[ cutile::hint(900, num_cta_in_cga=2), cutile::hint(1000, num_cta_in_cga=4) ]]
            __tile_global__ void hinted(float* source, float* out) {
                auto i = ct::bid().x;
                ct::tile<float, ct::shape<8>> x;
                [[ cutile::hint(0, latency=6) ]]
                x = vector_of<8>(source, 64).load(i);
                vector_of<8>(out, 64).store(x, i);
            }""",
            (8,),
            lambda: (_wholes(64), np.zeros(64, np.float32)),
            np.copy,
            (8,),
        ),
        Stop(
            table_of_sums,
            """__tile_global__ void table_of_sums(int* out) {
                auto column = ct::iota<ct::tile<int, ct::shape<4, 1>>>();
                matrix_of<4, 8>(out, 4, 8).store(column + 10 * ct::iota<ct::tile<int, ct::shape<1, 8>>>(), 0, 0);
            }""",
            (1,),
            lambda: (np.zeros((4, 8), np.int32),),
            lambda: np.add.outer(np.arange(4), 10 * np.arange(8)),
            differences=(("C++ broadcasts an operand when it comes, Python both when they meet", {}, {}),),
        ),
        Stop(
            row_maxima,
            """__tile_global__ void row_maxima(int* out) {
                auto table = ct::iota<ct::tile<int, ct::shape<4, 4>>>() * 7 % 16;
                matrix_of<4, 1>(out, 4, 1).store(ct::reduce_max(table, 1_ic), 0, 0);
            }""",
            (1,),
            lambda: (np.zeros((4, 1), np.int32),),
            lambda: (np.arange(16) * 7 % 16).reshape(4, 4).max(1, keepdims=True),
        ),
        Stop(
            turned,
            """__tile_global__ void turned(int* out) {
                auto cube = ct::iota<ct::tile<int, ct::shape<2, 2, 4>>>();
                auto view = ct::partition_view{ct::tensor_span{out, ct::extents{2_ic, 4_ic, 2_ic}}, ct::shape<2, 4, 2>{}};
                view.store(ct::permute(cube, ct::dimension_map{1_ic, 2_ic, 0_ic}), 0, 0, 0);
            }""",
            (1,),
            lambda: (np.zeros((2, 4, 2), np.int32),),
            lambda: np.arange(16).reshape(2, 2, 4).transpose(1, 2, 0),
        ),
        Stop(
            signs,
            """__tile_global__ void signs(int* out) {
                auto x = ct::iota<ct::tile<int, ct::shape<8>>>();
                vector_of<8>(out, 8).store(ct::select(x < 3, -x, x), 0);
            }""",
            (1,),
            lambda: (np.zeros(8, np.int32),),
            lambda: np.where(np.arange(8) < 3, -np.arange(8), np.arange(8)),
        ),
    )
}
