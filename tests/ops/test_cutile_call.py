"""``cuda.tile.jax``: kernels launched in JAX programs."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import tilewright as ct

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
jax = pytest.importorskip("jax")
jnp = jax.numpy

from tilewright.jax import InputOutput, OutputPlaceholder, cutile_call  # noqa: E402 - it imports jax

P = jax.sharding.PartitionSpec
X = np.arange(8, dtype=np.float32)


@ct.kernel
def scale(x, y, c):
    i = ct.bid(0)
    ct.store(y, i, ct.load(x, i, 4) * c)


@ct.kernel
def halve(x):
    i = ct.bid(0)
    ct.store(x, i, ct.load(x, i, 4) / 2)


@ct.kernel
def sum_and_difference(out, pair, less, *, TILE: ct.Constant[int]):
    i = ct.bid(0)
    a, b = ct.load(pair[0], i, TILE), ct.load(pair[1][0], i, TILE)
    ct.store(out, i, a + b * pair[1][1])
    ct.store(less, i, a - b)


def placeholder(x: Any) -> OutputPlaceholder:
    return OutputPlaceholder(x.shape, x.dtype)


@pytest.mark.parametrize("c", [3, 0.5, True, -2])
def test_call(c: Any) -> None:
    x = jnp.asarray(X)
    found = cutile_call((2,), scale, (x, placeholder(x), c))
    np.testing.assert_array_equal(found, X * c)
    traced = jax.jit(lambda x, c: cutile_call((2,), scale, (x, placeholder(x), c)) + 1, static_argnums=1)
    np.testing.assert_array_equal(traced(x, c), X * c + 1)


def test_arrays_that_are_changed() -> None:
    x = jnp.asarray(X)
    found = jax.jit(lambda x: (cutile_call((2,), halve, (InputOutput(x),)), x))(x)
    np.testing.assert_array_equal(found, (X / 2, X))
    np.testing.assert_array_equal(cutile_call((2,), halve, (InputOutput(x),)), X / 2)
    np.testing.assert_array_equal(x, X)


def test_tuples_and_several_results() -> None:
    x = jnp.asarray(X)
    total, less = cutile_call((1,), sum_and_difference, (placeholder(x), (x, (x * 2, 3)), placeholder(x), 8))
    np.testing.assert_array_equal(total, X * 7)
    np.testing.assert_array_equal(less, -X)


def test_on_several_devices() -> None:
    if len(jax.devices()) < 4:
        pytest.skip("JAX was imported with fewer than 4 devices before")
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]), ("d",))
    local = jax.shard_map(
        lambda x: cutile_call((2,), scale, (x, placeholder(x), 5)), mesh=mesh, in_specs=P("d"), out_specs=P("d")
    )
    np.testing.assert_array_equal(jax.jit(local)(jnp.arange(32.0)), np.arange(32) * 5)


def test_refusals() -> None:
    x = jnp.asarray(X)
    with pytest.raises(ValueError, match=r"stores to input 0, of float32 \(8,\); pass it as an InputOutput"):
        cutile_call((2,), scale, (placeholder(x), x, 3))
    with pytest.raises(ValueError, match="pass an OutputPlaceholder or InputOutput"):
        cutile_call((2,), halve, (x,))
    with pytest.raises(TypeError, match=r"the grid is \[2\]; it must be a tuple"):
        cutile_call([2], scale, (x, placeholder(x), 3))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="argument 2 is of type str"):
        cutile_call((2,), scale, (x, placeholder(x), "3"))
    with pytest.raises(TypeError, match="complex64, which kernels do not take"):
        cutile_call((2,), scale, (x.astype(complex), placeholder(x), 3))
