"""Operators whose kernels are Tile C++: the same declaration, for NumPy, PyTorch, JAX and the sanitizer."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import tilewright as ct

SOURCE = """#include "cuda_tile.h"
namespace ct = cuda::tiles;

template <typename T, int N>
__tile_global__ void scaled_sum(T* a, T* b, T* out, T factor, int count) {
    auto i = int(ct::bid().x) * N + ct::iota<ct::tile<int, ct::shape<N>>>();
    auto inside = i < count;
    ct::store_masked(out + i, factor * ct::load_masked(a + i, inside) + ct::load_masked(b + i, inside), inside);
}

template <typename T, int N>
__tile_global__ void negate(T* x, int count) {
    auto i = int(ct::bid().x) * N + ct::iota<ct::tile<int, ct::shape<N>>>();
    auto inside = i < count;
    ct::store_masked(x + i, -ct::load_masked(x + i, inside), inside);
}
"""


@functools.cache
def kernel(name: str, dtype: str) -> Any:
    types = {"float32": "float", "float64": "double"}
    return ct.cpp.compile(SOURCE).kernel(f"{name}<{types[dtype]}, 64>")


def name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


@ct.op("cpp::scaled_sum", "n, n -> n", sharded="n")
def scaled_sum(stream: Any, a: Any, b: Any, out: Any, factor: float = 2.0) -> None:
    n = a.shape[0]
    ct.launch(stream, (ct.cdiv(n, 64),), kernel("scaled_sum", name_of(a.dtype)), (a, b, out, factor, n))


@scaled_sum.gradient
def scaled_sum_gradient(grad_out: Any, factor: float) -> Any:
    return scaled_sum(grad_out, grad_out * 0, factor), grad_out


@ct.op("cpp::negate_", "n ->", mutates="x", sharded="n")
def negate(stream: Any, x: Any) -> None:
    ct.launch(stream, (ct.cdiv(x.shape[0], 64),), kernel("negate", name_of(x.dtype)), (x, x.shape[0]))


def test_arrays_of_numpy_under_the_sanitizer() -> None:
    for dtype in (np.float32, np.float64):
        a, b = np.random.default_rng(0).standard_normal((2, 200)).astype(dtype)
        expected = dtype(3) * a + b
        np.testing.assert_allclose(scaled_sum(a, b, 3.0), expected, rtol=1e-5)
        with ct.sanitize() as report:
            np.testing.assert_allclose(scaled_sum(a, b, 3.0), expected, rtol=1e-5)
            negate(a)
        assert report.clean, report.render()


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    a, b = (torch.randn(200, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(lambda a, b: scaled_sum(a, b, 3.0), (a, b))
    torch.library.opcheck(scaled_sum.torch_op, (a.detach(), b.detach()))
    torch.library.opcheck(negate.torch_op, (a.detach().clone(),))

    def program(a: Any, b: Any) -> Any:
        x = scaled_sum(a.sin(), b)
        negate(x)
        return x + 1

    compiled = torch.compile(program, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for n in (5, 300):
            x, y = torch.randn(n), torch.randn(n)
            torch.testing.assert_close(compiled(x, y), 1 - (2 * x.sin() + y))
    torch.testing.assert_close(torch.vmap(scaled_sum)(a.view(4, 50), b.view(4, 50)), (2 * a + b).view(4, 50))


def test_arrays_of_jax() -> None:
    jax = pytest.importorskip("jax")
    a, b = (jax.numpy.asarray(np.random.default_rng(i).standard_normal(200, dtype=np.float32)) for i in range(2))
    np.testing.assert_allclose(jax.jit(lambda a, b: scaled_sum(a, b, 3.0) + 1)(a, b), 3 * a + b + 1, rtol=1e-5)
    np.testing.assert_allclose(jax.jit(negate)(a), -a)
    np.testing.assert_allclose(jax.grad(lambda a: scaled_sum(a, b, 3.0).sum())(a), np.full(200, 3.0))
    np.testing.assert_allclose(
        jax.vmap(scaled_sum)(a.reshape(4, 50), b.reshape(4, 50)), (2 * a + b).reshape(4, 50), rtol=1e-5
    )
