"""Operators in JAX programs on GPUs: XLA's stream, command buffers, gradients, donation, and shards on several devices."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from support.operators import add, matmul, scale, scale_in_place

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
jax = pytest.importorskip("jax", reason="JAX is not installed")
try:
    DEVICES = jax.devices("gpu")
except RuntimeError:
    pytest.skip("JAX finds no GPU", allow_module_level=True)
jnp = jax.numpy
P = jax.sharding.PartitionSpec


def normal(*shape: int, seed: int = 0) -> Any:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


def test_values_in_one_program() -> None:
    """Kernels wait for what XLA has queued before them, and XLA for the kernels."""
    x = normal(1 << 20)

    @jax.jit
    def program(x: Any) -> Any:
        for _ in range(20):
            x = add(scale(jnp.sin(x), 3.0), x) / 2
        return x

    def expected(x: Any) -> Any:
        for _ in range(20):
            x = (jnp.sin(x) * 3 + x) / 2
        return x

    for _ in range(10):  # from the second time on, in a command buffer where XLA makes one
        np.testing.assert_allclose(program(x), expected(x), rtol=1e-4, atol=1e-4)


def test_products_gradients_and_batches() -> None:
    a, b = normal(200, 300), normal(300, 170, seed=1)
    exact = np.asarray(a, np.float64) @ np.asarray(b, np.float64)
    np.testing.assert_allclose(matmul(a, b), exact, rtol=1e-2, atol=1e-1)
    found = jax.grad(lambda x: (scale(x, 3.0) ** 2).sum())(a[0])
    np.testing.assert_allclose(found, 18 * a[0], rtol=1e-5)
    np.testing.assert_array_equal(jax.vmap(scale)(a), a * 2)


def test_donated_arrays() -> None:
    x = normal(300)
    before, address = np.array(x), x.unsafe_buffer_pointer()
    found = jax.jit(lambda x: scale_in_place(x, 4.0), donate_argnums=0)(x)
    assert found.unsafe_buffer_pointer() == address
    np.testing.assert_array_equal(found, before * 4)


@pytest.mark.skipif(len(DEVICES) < 2, reason="needs two GPUs")
def test_two_devices() -> None:
    there = jax.device_put(normal(300), DEVICES[1])
    found = scale(there, 3.0)
    assert found.devices() == {DEVICES[1]}
    np.testing.assert_array_equal(found, there * 3)
    mesh = jax.sharding.Mesh(np.array(DEVICES[:2]), ("d",))
    a, b = normal(200, 300), normal(300, 170, seed=1)
    exact = np.asarray(a, np.float64) @ np.asarray(b, np.float64)
    mapped = jax.shard_map(matmul, mesh=mesh, in_specs=(P("d", None), P()), out_specs=P("d", None))
    np.testing.assert_allclose(jax.jit(mapped)(a, b), exact, rtol=1e-2, atol=1e-1)
    split = [jax.device_put(x, jax.sharding.NamedSharding(mesh, spec)) for x, spec in ((a, P(None, "d")), (b, P("d")))]
    np.testing.assert_allclose(jax.jit(matmul)(*split), exact, rtol=1e-2, atol=1e-1)  # partial sums, added
