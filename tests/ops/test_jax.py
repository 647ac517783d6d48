"""Operators in JAX programs: native handlers, jit, vmap, gradients, donation, and sharding over four host devices."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.operators import add, matmul, norm, scale, scale_in_place, scale_kernel, with_rules

import tilewright as ct

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
jax = pytest.importorskip("jax")
jnp = jax.numpy
P = jax.sharding.PartitionSpec


def normal(*shape: int, seed: int = 0) -> Any:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


@pytest.fixture
def mesh() -> Any:
    if len(jax.devices()) < 4:
        pytest.skip("JAX was imported with fewer than 4 devices before")
    return jax.sharding.Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("d", "t"))


def test_values() -> None:
    x = normal(300)
    np.testing.assert_array_equal(scale(x, factor=3.0), x * 3)
    np.testing.assert_array_equal(scale(x, jnp.float32(3)), x * 3)
    np.testing.assert_array_equal(jax.jit(lambda x: add(scale(x), x) + 1)(x), x * 2 + x + 1)
    a, b = normal(200, 300), normal(300, 170, seed=1)  # enough for several threads
    np.testing.assert_allclose(matmul(a, b), a @ b, rtol=1e-3, atol=1e-3)
    out, inverse = norm(a[:5, :40], b[:40, 0], 1e-5)
    expected = 1 / jnp.sqrt(jnp.square(a[:5, :40]).mean(axis=1) + 1e-5)
    np.testing.assert_allclose(inverse, expected, rtol=1e-5)
    np.testing.assert_allclose(out, a[:5, :40] * expected[:, None] * b[:40, 0], rtol=1e-5)
    assert jax.jit(add)(x[:0], x[:0]).shape == (0,)
    np.testing.assert_array_equal(add(np.ones(300, np.float32), x), x + 1)
    half = jnp.arange(8, dtype=jnp.bfloat16)
    np.testing.assert_array_equal(scale(half).astype(np.float32), np.arange(8) * 2)


def test_gradients_and_batches() -> None:
    a, b = normal(20, 30), normal(30, 17, seed=1)
    found = jax.grad(lambda a, b: (matmul(a, b) ** 2).sum(), argnums=(0, 1))(a, b)
    expected = jax.grad(lambda a, b: ((a @ b) ** 2).sum(), argnums=(0, 1))(a, b)
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-2)
    x, y = normal(3, 5), normal(5, seed=1)
    np.testing.assert_array_equal(jax.vmap(scale)(x), x * 2)
    np.testing.assert_array_equal(jax.vmap(add, in_axes=(0, None))(x, y), x + y)
    np.testing.assert_array_equal(jax.vmap(add, in_axes=(1, None), out_axes=1)(x.T, y), (x + y).T)
    stacked = normal(3, 20, 30)
    both = jnp.stack([b, b * 2, -b])
    np.testing.assert_allclose(jax.vmap(matmul, in_axes=(0, None))(stacked, b), stacked @ b, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(jax.vmap(matmul)(stacked, both), stacked @ both, rtol=1e-3, atol=1e-3)  # one by one
    np.testing.assert_array_equal(jax.vmap(jax.grad(lambda x: scale(x, 3.0).sum()))(x), np.full((3, 5), 3.0))


@pytest.mark.parametrize(
    "derivative",
    [
        lambda f, a, b: jax.jvp(f, (a, b), (b.T, a.T)),
        lambda f, a, b: jax.linearize(f, a, b)[1](b.T, a.T),
        lambda f, a, b: jax.hessian(lambda a, b: (f(a, b) ** 2).sum(), argnums=(0, 1))(a, b),
        lambda f, a, b: jax.jacrev(jax.jacfwd(f))(a, b),
        lambda f, a, b: jax.vmap(jax.grad(lambda a, b: (f(a, b) ** 2).sum()), (0, None))(jnp.stack([a, -a]), b),
        lambda f, a, b: jax.grad(lambda a, b: (jax.vmap(f, (0, None))(a, b) ** 2).sum(), 1)(jnp.stack([a, -a]), b),
        lambda f, a, b: jax.jvp(lambda a: jax.vmap(f, (0, None))(a, b), (jnp.stack([a, a]),), (jnp.stack([a, -a]),)),
    ],
)
def test_forward_mode(derivative: Callable[..., Any]) -> None:
    """Tangents, around and inside of gradients and batches."""
    a, b = normal(3, 5), normal(5, 3, seed=1)
    found, expected = (jax.tree.leaves(derivative(f, a, b)) for f in (matmul, jnp.matmul))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_forward_mode_of_an_operator_with_integers_and_without_a_gradient() -> None:
    @ct.kernel
    def shifted(x: Any, by: Any, out: Any, moved: Any, T: ct.Constant[int]) -> None:
        i = ct.bid(0)
        ct.store(out, (i,), ct.load(x, (i,), (T,)) * 2)
        ct.store(moved, (i,), ct.load(by, (i,), (T,)) + 1)

    shift = ct.op("tests::shift", "n, n -> n, n", kernel=shifted, grid={"n": 8}, constants=(8,), dtypes=("x", "by"))
    shift.jvp(lambda tangent_x, tangent_by: (scale(tangent_x), tangent_by))
    x, by = jnp.arange(3.0), jnp.arange(3)
    (out, moved), (tangent, none) = jax.jvp(lambda x: shift(x, by), (x,), (x + 1,))
    assert (out.tolist(), moved.tolist(), tangent.tolist()) == ([0, 2, 4], [1, 2, 3], [2, 4, 6])
    assert none.dtype == jax.dtypes.float0
    with pytest.raises(NotImplementedError, match="tests::shift has no gradient; declare it with @shift.gradient"):
        jax.grad(lambda x: shift(x, by)[0].sum())(x)


def test_changes_in_place_give_new_arrays() -> None:
    x = normal(300)
    before = np.array(x)
    np.testing.assert_array_equal(scale_in_place(x, 4.0), before * 4)
    np.testing.assert_array_equal(x, before)
    donating = jax.jit(lambda x: scale_in_place(x, 4.0), donate_argnums=0)
    address = x.unsafe_buffer_pointer()
    found = donating(x)
    assert found.unsafe_buffer_pointer() == address and x.is_deleted()
    np.testing.assert_array_equal(found, before * 4)


def test_shard_map(mesh: Any) -> None:
    a, b, x = normal(200, 300), normal(300, 170, seed=1), normal(300)
    specs = {"mesh": mesh, "in_specs": (P("d", None), P(None, "t")), "out_specs": P("d", "t")}
    np.testing.assert_allclose(jax.jit(jax.shard_map(matmul, **specs))(a, b), a @ b, rtol=1e-3, atol=1e-3)
    gradient = jax.shard_map(jax.grad(lambda x: scale(x, 3.0).sum()), mesh=mesh, in_specs=P("d"), out_specs=P("d"))
    np.testing.assert_array_equal(jax.jit(gradient)(x), np.full(300, 3.0))


@pytest.mark.parametrize("inside", [False, True])
def test_gradients_of_what_differs_along_fewer_axes(mesh: Any, inside: bool) -> None:
    """They are summed along the axes of the mesh along which that is the same, as those of JAX's own products are."""
    a, b = normal(40, 30), normal(30, 20, seed=1)
    specs = {"mesh": mesh, "in_specs": (P("d", None), P(None, "t")), "out_specs": P("d", "t")}
    mapped = jax.shard_map(matmul, **specs)
    gradient = jax.grad(lambda a, b: (mapped(a, b) ** 2).sum(), argnums=(0, 1))
    if inside:
        local = jax.grad(lambda a, b: (matmul(a, b) ** 2).sum(), argnums=(0, 1))
        gradient = jax.shard_map(local, **(specs | {"out_specs": (P("d", None), P(None, "t"))}))
        summed = jax.grad(lambda a, b: ((a @ b) ** 2).sum(), argnums=(0, 1))
        expected = jax.shard_map(summed, **(specs | {"out_specs": (P("d", None), P(None, "t"))}))(a, b)
    else:
        expected = jax.grad(lambda a, b: ((a @ b) ** 2).sum(), argnums=(0, 1))(a, b)
    for found, wanted in zip(jax.jit(gradient)(a, b), expected):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("left", "right", "local", "expected"),
    [
        (P("d", None), P(None, "t"), "f32[100,85]", P("d", "t")),  # two dimensions of the result
        (P(None, "t"), P("t", None), "f32[200,170]", P()),  # the summed one: partial sums, which are added
        (P("d", "t"), P("t", None), "f32[100,170]", P("d", None)),
    ],
)
def test_sharding_rule(mesh: Any, left: Any, right: Any, local: str, expected: Any) -> None:
    a, b = normal(200, 300), normal(300, 170, seed=1)
    one = jax.device_put(a, jax.sharding.NamedSharding(mesh, left))
    other = jax.device_put(b, jax.sharding.NamedSharding(mesh, right))
    function = jax.jit(matmul)
    found = function(one, other)
    np.testing.assert_allclose(found, a @ b, rtol=1e-3, atol=1e-3)
    assert found.sharding.is_equivalent_to(jax.sharding.NamedSharding(mesh, expected), 2)
    compiled = function.lower(one, other).compile().as_text()
    (call,) = [line for line in compiled.splitlines() if " custom-call(" in line]
    assert local in call.partition(" custom-call(")[0]
    assert "all-gather" not in compiled
    assert ("all-reduce" in compiled) == ("t" in left)


def test_reverse_mode_needs_no_forward_mode() -> None:
    """Of an operator without a jvp, around and inside of batches, loops and what is computed again."""
    x = jnp.arange(3.0)
    np.testing.assert_array_equal(jax.jit(jax.grad(lambda a: (add(a, a) ** 2).sum()))(x), 8 * x)
    np.testing.assert_array_equal(
        jax.vmap(jax.grad(lambda a: (add(a, x) ** 2).sum()))(jnp.stack([x, -x])), [4 * x, 0 * x]
    )
    twice = jax.grad(lambda a: jax.grad(lambda b: (add(b, b) ** 3).sum())(a).sum())
    np.testing.assert_array_equal(twice(x), 48 * x)
    np.testing.assert_array_equal(jax.grad(jax.checkpoint(lambda a: (add(a, a) ** 2).sum()))(x), 8 * x)
    looped = jax.grad(lambda a: jax.lax.scan(lambda c, _: (add(c, c), None), a, length=3)[0].sum())
    np.testing.assert_array_equal(looped(x), [8, 8, 8])


def test_failed_assertions_are_errors_of_jax() -> None:
    @ct.kernel
    def check(x: Any, out: Any, T: ct.Constant[int]) -> None:
        values = ct.load(x, (ct.bid(0),), (T,))
        ct.assert_(values >= 0, "negative")
        ct.store(out, (ct.bid(0),), values)

    checked = ct.op("tests::checked", "n -> n", kernel=check, grid={"n": 8}, constants=(8,))
    np.testing.assert_array_equal(checked(jnp.arange(3.0)), np.arange(3.0))
    with pytest.raises(
        (ValueError, jax.errors.JaxRuntimeError),
        match=r"tests::checked: an assertion of check\(\) failed: .*test_jax.py:\d+:\d+: negative",
    ):
        checked(-jnp.arange(3.0)).block_until_ready()


def test_launches_in_traced_functions_are_refused() -> None:
    with pytest.raises(TypeError, match=r"'x' of scale_kernel\(\) is a DynamicJaxprTracer, .*; call an operator there"):
        jax.jit(lambda x: ct.launch(None, (1,), scale_kernel, (x, np.zeros(3), 2.0, 256)))(jnp.zeros(3))


def test_undeclared_writes_are_refused() -> None:
    @ct.kernel
    def clear(x: Any, out: Any, T: ct.Constant[int]) -> None:
        ct.store(x, (ct.bid(0),), ct.zeros((T,), x.dtype))
        ct.store(out, (ct.bid(0),), ct.zeros((T,), x.dtype))

    cleared = ct.op("tests::cleared", "n -> n", kernel=clear, grid={"n": 8}, constants=(8,))
    with pytest.raises(ValueError, match=r"tests::cleared: clear\(\) stores to 'x'; declare that with mutates="):
        cleared(jnp.arange(3.0))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: add(jnp.zeros(3), jnp.zeros(4)), ValueError, "tests::add: 'b' has the extent 4 along axis 0 (n), but 'a' has 3"),
        (lambda: add(jnp.zeros(3, jnp.complex64), jnp.zeros(3)), TypeError, "tests::add: 'a' has the dtype complex64"),
        (lambda: add(jnp.zeros(3), 1.0), TypeError, "tests::add: 'b' is of type float; pass an array of JAX"),
        (lambda: add(*[jax.device_put(jnp.zeros(3), d) for d in jax.devices()[:2]]), ValueError, "argument a of tests::add"),
        (lambda: jax.jit(lambda f: scale(jnp.zeros(3), f))(2.0), TypeError, "'factor' is of type DynamicJaxprTracer; it must be"),
        (lambda: jax.grad(lambda x: norm(x, x[0])[0].sum())(jnp.ones((2, 4))), NotImplementedError, "tests::norm has no gradient"),
        (lambda: jax.jvp(add, (jnp.ones(3),) * 2, (jnp.ones(3),) * 2), NotImplementedError, "tests::add has no forward-mode derivative"),
        (lambda: jax.jit(jax.jacfwd(lambda x: add(x, x)))(jnp.ones(3)), NotImplementedError, "tests::add has no forward-mode derivative"),
        (lambda: jax.grad(lambda x: with_rules(lambda grad_out: (grad_out[:2], None))(x, x).sum())(jnp.ones(3)), ValueError, "tests::ruled: the gradient of 'a' is float32[2]; it must be float32[3]"),
        (lambda: jax.jvp(with_rules(None, lambda tangent_a: tangent_a[:2]), (jnp.ones(3),) * 2, (jnp.ones(3),) * 2), ValueError, "tests::ruled: the tangent of 'out' is float32[2]; it must be float32[3]"),
        (lambda: jax.grad(lambda x: scale_in_place(x).sum())(jnp.ones(4)), NotImplementedError, "tests::scale_ changes 'x' in place and has no gradient; declare a"),
    ],
)  # fmt: skip
def test_bad_input(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)
