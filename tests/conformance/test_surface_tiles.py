"""Tiles: attributes, operators, creation, shape, elementwise operations, reductions, matrices (fact sheet 1.6, 1.11-1.15)."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.tile_code import evaluate, gives, refuses

import tilewright as ct

X = np.arange(32, dtype=np.float32).reshape(4, 8) - 7.5
I = np.arange(32, dtype=np.int32).reshape(4, 8) - 9
J = np.arange(32, dtype=np.int32).reshape(4, 8) % 5 + 1
B = I % 3 == 0
V = np.arange(8, dtype=np.int32)
TTE, TVE = ct.TileTypeError, ct.TileValueError
NUMPY_DTYPE = np.dtype(np.uint16)
BF16, E4M3, E5M2, E8M0, E2M1 = (
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e8m0fnu,
    ml_dtypes.float4_e2m1fn,
)


def refused(*cases: Callable[..., Any], error: type[ct.TileError] = TTE) -> Any:
    return pytest.mark.parametrize(("error", "bad"), [(error, c) for c in cases], ids=range(len(cases)))


# -- 1.6 tiles


def test_attributes(engine: str) -> None:
    def facts(x):
        ct.static_assert(x.dtype == ct.float32 and x.shape == (4, 8) and x.ndim == 2)
        ct.static_assert(ct.ensure_constant(x.shape[1]) == 8)
        return x.reshape((x.shape[0] * x.shape[1],))

    gives(facts, X.ravel(), X)


def test_methods(engine: str) -> None:
    def methods(x):
        return (
            x.extract((1, 2), (2, 2)),
            x.extract(index=(1, 0), shape=(1, 8)).reshape((8,)),
            x.insert((0, 1), ct.zeros((2, 4), ct.float32)),
            x.permute((1, 0)),
            x.permute(axes=(-1, 0)),
            x.transpose(),
            x.transpose(0, -1),
            x.reshape((2, 2, 8)).transpose(axis0=0, axis1=2),
            x.astype(ct.int32),
            x.astype(dtype=np.float16, rounding_mode=ct.RoundingMode.RZ),
            x.extract((0, 0), (1, 1)).item(),
            ct.extract(x, (1, 0), shape=()),
        )

    inserted = X.copy()
    inserted[:2, 4:] = 0
    gives(
        methods,
        (
            X[2:4, 4:6],
            X[1],
            inserted,
            X.T,
            X.T,
            X.T,
            X.T,
            X.reshape(2, 2, 8).transpose(2, 1, 0),
            X.astype(np.int32),
            X.astype(np.float16),
            X[0, 0],
            X[1, 0],
        ),
        X,
    )


BINARY_OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<<": operator.lshift,
    ">>": operator.rshift,
}


def test_operators_direct_and_reflected(engine: str) -> None:
    functions = tuple(BINARY_OPERATORS.values())

    def forms(x, y):
        return tuple(r for f in ct.static_iter(functions) for r in ct.static_iter((f(x, y), f(x, 3), f(3, y))))

    def host(f: Callable[..., Any], x: Any, y: Any) -> np.ndarray:
        if f is operator.truediv:
            x, y = np.float32(x), np.float32(y)
        return f(x, y)

    three = np.int32(3)
    gives(forms, tuple(host(f, *pair) for f in functions for pair in ((I, J), (I, three), (three, J))), I, J)


def test_augmented_assignment_and_unary(engine: str) -> None:
    def augmented(x, y):
        x += y
        x -= 1
        x *= 2
        x //= 3
        x %= 17
        x <<= 2
        x >>= 1
        x |= 1
        x &= 0xFF
        x ^= y
        return x

    def host(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return ((((((((x + y) - 1) * 2 // 3) % 17) << 2) >> 1) | 1) & 0xFF) ^ y

    gives(augmented, host(I, J), I, J)
    gives(lambda x: (-x, +x, ~x, not x, abs(x)), (-I, I, ~I, I == 0, abs(I)), I)
    gives(lambda x: (-x, +x, ~x, not x, abs(x)), (-B.astype(np.int32), B.astype(np.int32), ~B, ~B, B), B)
    gives(lambda x, y: (min(x, y), max(x, 0), *divmod(x, y)), (np.minimum(I, J), np.maximum(I, 0), I // J, I % J), I, J)

    def power(x):
        x **= 2
        x /= 2
        return x

    gives(power, X**2 / np.float32(2), X)

    def product(x):
        x @= ct.transpose(x)
        return x

    gives(product, X @ X.T, X)


def test_new_axes(engine: str) -> None:
    gives(
        lambda v, x: (v[:, None], v[None], v[None, :], v[np.newaxis, :, None], x[..., None], x[:, None, ...], x[:, :]),
        (V[:, None], V[None], V[None], V[None, :, None], X[..., None], X[:, None], X),
        V,
        X,
    )


@refused(
    lambda x: x[0],
    lambda x: x[0, 0],
    lambda x: x[0:2],
    lambda x: x[:],
    lambda x: x[...],
    lambda x: x[None, None, :, :, :],
    lambda x: x[..., ...],
    lambda x: x["a"],
    lambda x: x[ct.bid(0)],
    lambda x: x.T,
    lambda x: x.size,
    lambda x: x.sum(),
    lambda x: x.dtype.name,
    lambda x: x.dtype.bitwidth,
    lambda x: ct.float32.name,
    lambda x: len(x),
    lambda x: tuple(x),
    lambda x: min(x),
    lambda x: min(x, x, x),
    lambda x: max(x, key=x),
    lambda x: x.item(),
    lambda x: x and x,
    lambda x: 1 if x else 2,
    lambda x: x + "a",
    lambda x: x + None,
    lambda x: x + (1, 2),
    lambda x: x < None,
    lambda x: x(1),
)
def test_what_tiles_do_not_have(error: type[ct.TileError], bad: Callable[..., Any]) -> None:
    refuses(bad, error, X)


def test_scalars_are_indices_and_bounds(engine: str) -> None:
    def count(n, a):
        total = ct.int32(0)
        for i in range(n, n + a.shape[0], ct.int32(2)):
            total += i
        return total, ct.load(a, n, 2)

    gives(count, (np.int32(2 + 4 + 6 + 8), V[4:6]), 2, V, load=False)


# -- 1.11 factories


def test_factories(engine: str) -> None:
    def made(n):
        return (
            ct.arange(4, dtype=ct.int32),
            ct.arange(4, dtype=np.float16, start=n, step=n + 1),
            ct.arange(4, dtype=ct.uint8, start=254),
            ct.full((2, 2), n, ct.int64),
            ct.full(4, 300, ct.int8),
            ct.full((), 2.7, ct.int32),
            ct.full(shape=(1,), fill_value=True, dtype=ct.float32),
            ct.ones(2, ct.bool_),
            ct.zeros((2, 1), dtype=ct.bfloat16),
            ct.ones((2,), ct.float8_e4m3fn),
            ct.zeros((2,), NUMPY_DTYPE),
        )

    gives(
        made,
        (
            np.arange(4, dtype=np.int32),
            np.array([2, 5, 8, 11], np.float16),
            np.array([254, 255, 0, 1], np.uint8),
            np.full((2, 2), 2, np.int64),
            np.full(4, 44, np.int8),
            np.int32(2),
            np.ones(1, np.float32),
            np.ones(2, bool),
            np.zeros((2, 1), BF16),
            np.ones(2, E4M3),
            np.zeros(2, np.uint16),
        ),
        2,
    )


def test_astile(engine: str) -> None:
    def made(n):
        return (
            ct.astile(5, dtype=ct.int16),
            ct.astile(n, dtype=ct.float32),
            ct.astile((1, n, 3, n * 2), dtype=ct.int32),
            ct.astile(((1.5, 2), (n, True)), dtype=ct.float16),
            ct.astile((((n,),),), dtype=ct.uint8),
        )

    want = (np.int16(5), np.float32(7), np.array([1, 7, 3, 14], np.int32), np.array([[1.5, 2], [7, 1]], np.float16))
    gives(made, (*want, np.array([[[7]]], np.uint8)), 7)


@refused(
    lambda n: ct.arange(3, dtype=ct.int32),
    lambda n: ct.arange(n, dtype=ct.int32),
    lambda n: ct.arange(4),
    lambda n: ct.arange(4, ct.int32),
    lambda n: ct.arange(size=4, dtype=ct.int32),
    lambda n: ct.arange(4, dtype="int32"),
    lambda n: ct.arange(4, dtype=int),
    lambda n: ct.arange(4, dtype=ct.int32, start=ct.zeros((4,), ct.int32)),
    lambda n: ct.full((4,), ct.zeros((4,), ct.int32), ct.int32),
    lambda n: ct.full((n,), 0, ct.int32),
    lambda n: ct.full((4, 3), 0, ct.int32),
    lambda n: ct.full((4.0,), 0, ct.int32),
    lambda n: ct.full((True,), 0, ct.int32),
    lambda n: ct.zeros((0,), ct.int32),
    lambda n: ct.zeros((4,)),
    lambda n: ct.zeros((1 << 13, 1 << 13), ct.int32),
    lambda n: ct.ones("4", ct.int32),
    lambda n: ct.astile((1, 2, 3), dtype=ct.int32),
    lambda n: ct.astile(((1, 2), (3,)), dtype=ct.int32),
    lambda n: ct.astile(((1, 2), 3), dtype=ct.int32),
    lambda n: ct.astile((), dtype=ct.int32),
    lambda n: ct.astile(("a", "b"), dtype=ct.int32),
    lambda n: ct.astile((1, 2)),
)
def test_mistakes_with_factories(error: type[ct.TileError], bad: Callable[..., Any]) -> None:
    refuses(bad, error, 4)


# -- 1.12 shape, selection, casts


def test_shapes(engine: str) -> None:
    gives(
        lambda x, v: (
            ct.reshape(x, (8, 4)),
            ct.reshape(x, shape=(2, -1, 2)),
            ct.reshape(v, (-1,)),
            ct.broadcast_to(v, (4, 8)),
            ct.broadcast_to(3, (2,)),
            ct.expand_dims(v, 0),
            ct.expand_dims(v, axis=-1),
            ct.permute(x[None], (2, 0, 1)),
            ct.transpose(x),
            ct.transpose(x[None], 0, 2),
            ct.cat((x,), 0),
            ct.cat((x, x * 2), axis=-1),
            ct.cat((v[:, None], v[:, None]), 1),
            ct.extract(x, (3, 1), (1, 4)),
            ct.extract(v, 1, 4),
            ct.extract(v, (0,), shape=(8,)),
            ct.insert(v, 7, 99),
            ct.insert(v, (1,), ct.zeros((4,), ct.int32)),
        ),
        (
            X.reshape(8, 4),
            X.reshape(2, 8, 2),
            V,
            np.broadcast_to(V, (4, 8)),
            np.array([3, 3], np.int32),
            V[None],
            V[:, None],
            X[None].transpose(2, 0, 1),
            X.T,
            X[None].transpose(2, 1, 0),
            X,
            np.concatenate([X, X * 2], 1),
            np.stack([V, V], 1),
            X[3:, 4:],
            V[4:],
            V,
            np.array([*V[:7], 99], np.int32),
            np.array([*V[:4], 0, 0, 0, 0], np.int32),
        ),
        X,
        V,
    )


def test_positions_known_at_run_time(engine: str) -> None:
    gives(
        lambda v, n: (ct.extract(v, n, 2), ct.insert(v, (n,), ct.arange(2, dtype=ct.int32) + n)),
        (V[4:6], np.array([0, 1, 2, 3, 2, 3, 6, 7], np.int32)),
        V,
        2,
    )


def test_where(engine: str) -> None:
    gives(
        lambda x, b, i: (
            ct.where(b, x, 0),
            ct.where(i, 1, 2),
            ct.where(x, i, x),
            ct.where(ct.extract(b, (0, 0), (1, 8)), 1.5, i),
            ct.where(True, i, 0),
            ct.where(b, i.astype(ct.int8), i.astype(ct.int16)),
        ),
        (
            np.where(B, X, np.float32(0)),
            np.where(I != 0, np.int32(1), np.int32(2)),
            np.where(X != 0, I.astype(np.float32), X),
            np.where(B[:1], np.float32(1.5), I.astype(np.float32)),
            I,
            I.astype(np.int16),
        ),
        X,
        B,
        I,
    )


def test_bits_and_bytes(engine: str) -> None:
    f16 = X.astype(np.float16)
    gives(
        lambda x, h: (
            ct.bitcast(x, ct.int32),
            ct.bitcast(x, dtype=ct.uint32),
            ct.bitcast(h, ct.bfloat16).astype(ct.float32),
            ct.bitcast(ct.full((2,), 1.0, ct.float8_e5m2), ct.uint8),
            ct.bitcast(x, ct.tfloat32).astype(ct.float32),
            ct.pack_to_bytes(h),
            ct.pack_to_bytes(3),
            ct.unpack_from_bytes(ct.pack_to_bytes(x), ct.float32),
            ct.unpack_from_bytes(ct.pack_to_bytes(h), dtype=ct.int32),
            ct.unpack_from_bytes(ct.pack_to_bytes(h), ct.int64),
        ),
        (
            X.view(np.int32),
            X.view(np.uint32),
            f16.view(BF16).astype(np.float32),
            np.full(2, 0x3C, np.uint8),
            X,
            f16.ravel().view(np.uint8),
            np.array([3, 0, 0, 0], np.uint8),
            X.ravel(),
            f16.ravel().view(np.int32),
            f16.ravel().view(np.int64),
        ),
        X,
        f16,
    )


def test_packed_float4(engine: str) -> None:
    """Two float4 elements share a byte, the first in its low half."""
    values = np.array([0.5, -1, 6, 0, -6, 1.5, 3, -0.5], np.float32)

    def round_trip(x):
        small = x.astype(ct.float4_e2m1fn)
        packed = ct.pack_to_bytes(small)
        return packed, ct.unpack_from_bytes(packed, ct.float4_e2m1fn).astype(ct.float32), small.astype(ct.float32)

    codes = values.astype(E2M1).view(np.uint8)
    gives(round_trip, (codes[::2] | codes[1::2] << 4, values, values), values)


@refused(
    lambda x, v: ct.reshape(x, 32),
    lambda x, v: ct.reshape(x, (-1, -1)),
    lambda x, v: ct.reshape(x, (4, 4)),
    lambda x, v: ct.reshape(x, (v, 8)),
    lambda x, v: ct.broadcast_to(v, 8),
    lambda x, v: ct.broadcast_to(x, (8,)),
    lambda x, v: ct.broadcast_to(x, (8, 8)),
    lambda x, v: ct.expand_dims(x, 3),
    lambda x, v: ct.expand_dims(x, (0, 1)),
    lambda x, v: ct.permute(x, (0, 0)),
    lambda x, v: ct.permute(x, (0,)),
    lambda x, v: ct.permute(x, 0, 1),
    lambda x, v: ct.transpose(v),
    lambda x, v: ct.transpose(x[None]),
    lambda x, v: ct.transpose(x, 0),
    lambda x, v: ct.transpose(x, 0, 2),
    lambda x, v: ct.cat((x, x, x), 0),
    lambda x, v: ct.cat((), 0),
    lambda x, v: ct.cat(x, 0),
    lambda x, v: ct.cat((x, v), 0),
    lambda x, v: ct.cat((x, x.astype(ct.int32)), 0),
    lambda x, v: ct.cat((x, ct.extract(x, (0, 0), (2, 8))), 0),
    lambda x, v: ct.cat((x, x), 2),
    lambda x, v: ct.extract(x, (4, 0), (1, 8)),
    lambda x, v: ct.extract(x, (-1, 0), (1, 8)),
    lambda x, v: ct.extract(x, 0, (1, 8)),
    lambda x, v: ct.extract(x, (0, 0), (8, 8)),
    lambda x, v: ct.insert(v, 0, 1.0),
    lambda x, v: ct.insert(x, (0, 0), 1),
    lambda x, v: ct.insert(x.astype(ct.float16), (0, 0), 1.0),
    lambda x, v: ct.insert(x, (0, 0), v),
    lambda x, v: ct.where(x, x, v.astype(ct.uint8)) + "",
    lambda x, v: ct.where(v > 0, v, v.astype(ct.uint32)),
    lambda x, v: ct.where(x, v),
    lambda x, v: ct.bitcast(x, ct.int16),
    lambda x, v: ct.bitcast(v > 0, ct.int8),
    lambda x, v: ct.bitcast(v.astype(ct.int8), ct.bool_),
    lambda x, v: ct.pack_to_bytes(x > 0),
    lambda x, v: ct.unpack_from_bytes(x, ct.int32),
    lambda x, v: ct.unpack_from_bytes(ct.pack_to_bytes(x).reshape((2, 64)), ct.int32),
    lambda x, v: ct.unpack_from_bytes(ct.zeros((2,), ct.uint8), ct.int32),
    lambda x, v: ct.unpack_from_bytes(ct.pack_to_bytes(x), ct.bool_),
    lambda x, v: ct.astype(x, dtype=ct.int32),
    lambda x, v: x.astype("int32"),
    lambda x, v: x.astype(int),
    lambda x, v: x.astype(ct.int32, rounding_mode=ct.RoundingMode.RZ),
    lambda x, v: v.astype(ct.float32, rounding_mode=ct.RoundingMode.RN),
    lambda x, v: x.astype(ct.float8_e8m0fnu),
    lambda x, v: x.astype(ct.float16, rounding_mode=ct.RoundingMode.RM),
    lambda x, v: x.astype(ct.float16, rounding_mode="nearest_even"),
)
def test_mistakes_with_shapes_and_casts(error: type[ct.TileError], bad: Callable[..., Any]) -> None:
    refuses(bad, error, X, V)


# -- 1.13 elementwise


def test_every_spelling_of_arithmetic(engine: str) -> None:
    """The functions are the operators."""
    gives(
        lambda x, y, b: (
            ct.add(x, y),
            ct.sub(x, 2),
            ct.mul(3, y),
            ct.floordiv(x, y),
            ct.mod(x, y),
            ct.cdiv(x, y),
            *ct.divmod(x, y),
            ct.truediv(x, y),
            ct.minimum(x, y),
            ct.maximum(x, 0),
            ct.negative(x),
            ct.abs(x),
            ct.negative(b),
            ct.bitwise_and(x, y),
            ct.bitwise_or(x, 5),
            ct.bitwise_xor(b, True),
            ct.bitwise_not(x),
            ct.bitwise_lshift(x, y),
            ct.bitwise_rshift(x, 1),
            ct.greater(x, y),
            ct.greater_equal(x, 0),
            ct.less(0, x),
            ct.less_equal(x, y),
            ct.equal(x, y),
            ct.not_equal(b, False),
        ),
        (
            I + J,
            I - 2,
            3 * J,
            I // J,
            I % J,
            -(-I // J),
            I // J,
            I % J,
            I.astype(np.float32) / J.astype(np.float32),
            np.minimum(I, J),
            np.maximum(I, 0),
            -I,
            abs(I),
            -B.astype(np.int32),
            I & J,
            I | 5,
            ~B,
            ~I,
            I << J,
            I >> 1,
            I > J,
            I >= 0,
            I > 0,
            I <= J,
            I == J,
            B,
        ),
        I,
        J,
        B,
    )


MATH = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh")


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float32, np.float64, np.int8, bool])
def test_math_keeps_floats_and_makes_float32_of_integers(engine: str, dtype: Any) -> None:
    x = np.array([1, 2, 3, 4]).astype(dtype)
    kept = np.dtype(dtype) if np.dtype(dtype).kind not in "bi" else np.dtype(np.float32)
    functions = tuple(getattr(ct, name) for name in MATH)
    all_of_them = lambda x: tuple(f(x) for f in ct.static_iter(functions))
    found = evaluate(all_of_them, (np.zeros(4, kept),) * len(MATH), x)
    bits = {"float16": 10, "bfloat16": 7, "float32": 21, "float64": 48}[kept.name]
    wide = x.astype(np.float64)
    for name, have in zip(MATH, found):
        want = getattr(np, name)(wide) if name != "rsqrt" else 1 / np.sqrt(wide)
        np.testing.assert_allclose(have.astype(np.float64), want, rtol=2.0**-bits, err_msg=name)


def test_math_of_two_and_the_rest(engine: str) -> None:
    x = np.array([1.5, -2.5, 0.0, np.nan], np.float32)
    gives(
        lambda x: (ct.floor(x), ct.ceil(x), ct.isnan(x), ct.abs(x)), (np.floor(x), np.ceil(x), np.isnan(x), abs(x)), x
    )
    found = evaluate(lambda x: (ct.atan2(x, 2.0), ct.pow(abs(x), 2.5), x**2, x ** ct.int8(3)), (x,) * 4, x)
    for have, want in zip(found, (np.arctan2(x, 2), abs(x) ** 2.5, x**2, x**3)):
        np.testing.assert_allclose(have, want, rtol=1e-6)
    h = np.array([2, 3], np.float16)
    gives(lambda h: (h**2, h ** ct.full((2,), 3, ct.int32)), (h**2, h**3), h)


def test_modes(engine: str) -> None:
    third = np.array([1.0, -1.0], np.float32)

    def divided(x):
        return (
            ct.truediv(x, 3, rounding_mode=ct.RoundingMode.RN),
            ct.truediv(x, 3, rounding_mode=ct.RoundingMode.RZ),
            ct.truediv(x, 3, rounding_mode="RM"),
            ct.truediv(x, 3, rounding_mode="RP"),
        )

    low, high = np.float32(1 / 3) - np.float32(2**-25), np.float32(1 / 3)
    near = third * np.float32(1 / 3)
    gives(divided, (near, third * low, np.array([low, -high], np.float32), np.array([high, -low], np.float32)), third)
    tiny = np.array([1e-40, -1e-40], np.float32)
    zero = np.array([0.0, -0.0], np.float32)
    gives(lambda x: ct.add(x, 0.0, flush_to_zero=True) * 1, np.array([0, 0], np.float32) + 0, tiny)
    gives(lambda x: (ct.mul(x, 1.0, flush_to_zero=True), ct.mul(x, 1.0)), (zero, tiny), tiny)
    for name in ("exp", "tanh"):
        for mode in ("FULL", "APPROX"):
            function = getattr(ct, name)
            found = evaluate(lambda x, function=function, mode=mode: function(x, rounding_mode=mode), third, third)
            np.testing.assert_allclose(found, getattr(np, name)(third), rtol=1e-5)
    for mode in ("FULL", "APPROX"):
        found = evaluate(lambda x, mode=mode: ct.truediv(x, 3.0, rounding_mode=mode), third, third)
        np.testing.assert_allclose(found, third / 3, rtol=1e-6)
    found = evaluate(lambda x: ct.sqrt(abs(x) + 1, rounding_mode=ct.RoundingMode.APPROX), third, third)
    np.testing.assert_allclose(found, np.sqrt(2), rtol=1e-6)


def test_nan_rules(engine: str) -> None:
    x, y = np.array([np.nan, 1, np.nan, -0.0], np.float32), np.array([2, np.nan, np.nan, 0.0], np.float32)
    nan = np.nan
    gives(
        lambda x, y: (
            ct.maximum(x, y),
            ct.minimum(x, y),
            ct.maximum(x, y, propagate_nan=True),
            max(x, y),
            x == x,
            x != x,
            x < y,
        ),
        (
            np.array([2, 1, nan, 0], np.float32),
            np.array([2, 1, nan, -0.0], np.float32),
            np.array([nan, nan, nan, 0], np.float32),
            np.array([2, 1, nan, 0], np.float32),
            np.array([False, True, False, True]),
            np.array([True, False, True, False]),
            np.array([False, False, False, False]),
        ),
        x,
        y,
    )


@refused(
    lambda x, i, b: ct.add(b, b),
    lambda x, i, b: b + b,
    lambda x, i, b: b * True,
    lambda x, i, b: ct.add(x, "1"),
    lambda x, i, b: ct.add(x, None),
    lambda x, i, b: ct.add(x, (1, 2)),
    lambda x, i, b: ct.add(x),
    lambda x, i, b: ct.add(x=x, y=x),
    lambda x, i, b: ct.add(i, i, rounding_mode=ct.RoundingMode.RN),
    lambda x, i, b: ct.add(x, x, rounding_mode=ct.RoundingMode.FULL),
    lambda x, i, b: ct.add(x, x, rounding_mode=ct.RoundingMode.RA),
    lambda x, i, b: ct.add(x, x, rounding_mode=ct.RoundingMode.RZI),
    lambda x, i, b: ct.add(x, x, rounding_mode="nearest_even"),
    lambda x, i, b: ct.add(x, x, rounding_mode=0),
    lambda x, i, b: ct.add(x, x, flush_to_zero=1),
    lambda x, i, b: ct.add(x.astype(ct.float16), 1, flush_to_zero=True),
    lambda x, i, b: ct.add(i, 1, flush_to_zero=True),
    lambda x, i, b: ct.truediv(x.astype(ct.float64), 1, rounding_mode="APPROX"),
    lambda x, i, b: ct.sqrt(x, rounding_mode="FULL"),
    lambda x, i, b: ct.sqrt(x.astype(ct.float16), rounding_mode="APPROX"),
    lambda x, i, b: ct.exp(x, rounding_mode="RN"),
    lambda x, i, b: ct.exp(x.astype(ct.float16), rounding_mode="APPROX"),
    lambda x, i, b: ct.exp(x, flush_to_zero=True),
    lambda x, i, b: ct.exp2(x.astype(ct.float64), flush_to_zero=True),
    lambda x, i, b: ct.log(x, x),
    lambda x, i, b: ct.floor(i),
    lambda x, i, b: ct.ceil(b),
    lambda x, i, b: ct.isnan(i),
    lambda x, i, b: divmod(x, x),
    lambda x, i, b: ct.cdiv(x, x),
    lambda x, i, b: i**i,
    lambda x, i, b: ct.atan2(i, i),
    lambda x, i, b: x & x,
    lambda x, i, b: i & 1.0,
    lambda x, i, b: i & ct.int64(1),
    lambda x, i, b: i & b,
    lambda x, i, b: ~x,
    lambda x, i, b: x << 1,
    lambda x, i, b: i << 1.0,
    lambda x, i, b: b << 1,
    lambda x, i, b: i << ct.uint32(1),
    lambda x, i, b: i + ct.uint32(1),
    lambda x, i, b: x.astype(ct.float16) + x.astype(ct.bfloat16),
    lambda x, i, b: x.astype(ct.tfloat32) + 1,
    lambda x, i, b: x.astype(ct.float8_e4m3fn) * x,
    lambda x, i, b: -x.astype(ct.float8_e5m2),
    lambda x, i, b: ct.maximum(x.astype(ct.float8_e5m2), 0),
    lambda x, i, b: x + ct.zeros((3 + 1, 4), ct.float32),
    lambda x, i, b: ct.minimum(i, i, flush_to_zero=True),
)
def test_mistakes_with_arithmetic(error: type[ct.TileError], bad: Callable[..., Any]) -> None:
    refuses(bad, error, X, I, B)


# -- 1.14 reductions and scans


def test_reductions(engine: str) -> None:
    cube = (np.arange(2 * 4 * 8) % 7).astype(np.int16).reshape(2, 4, 8)
    gives(
        lambda c: (
            ct.sum(c),
            ct.sum(c, 1),
            ct.sum(c, axis=(0, -1)),
            ct.sum(c, axis=-1, keepdims=True),
            ct.sum(c, keepdims=True),
            ct.prod(c, axis=0),
            ct.max(c, (0, 1, 2)),
            ct.min(c, 2),
            ct.argmax(c, 2),
            ct.argmin(c),
            ct.argmax(c, axis=0, keepdims=True),
        ),
        (
            cube.sum(dtype=np.int16),
            cube.sum(1, dtype=np.int16),
            cube.sum((0, 2), dtype=np.int16),
            cube.sum(2, keepdims=True, dtype=np.int16),
            cube.sum(keepdims=True, dtype=np.int16),
            cube.prod(0, dtype=np.int16),
            cube.max(),
            cube.min(2),
            cube.argmax(2).astype(np.int32),
            np.int32(cube.argmin()),
            cube.argmax(0)[None].astype(np.int32),
        ),
        cube,
    )
    gives(
        lambda b: (ct.sum(b), ct.max(b, 0), ct.cumsum(b, 1)),
        (np.int32(B.sum()), B.max(0).astype(np.int32), B.cumsum(1, dtype=np.int32)),
        B,
    )
    wrapped = np.full(4, 100, np.int8)
    gives(lambda x: (ct.sum(x), ct.cumsum(x)), (wrapped.sum(dtype=np.int8), wrapped.cumsum(dtype=np.int8)), wrapped)


def test_nan_in_reductions(engine: str) -> None:
    x = np.array([1, np.nan, 5, np.nan], np.float32)
    gives(
        lambda x: (
            ct.max(x),
            ct.min(x, propagate_nan=True),
            ct.argmax(x),
            ct.argmin(x),
            ct.argmax(x, propagate_nan=True),
            ct.max(x, flush_to_zero=True),
        ),
        (np.float32(5), np.float32(np.nan), np.int32(2), np.int32(0), np.int32(1), np.float32(5)),
        x,
    )


def test_scans(engine: str) -> None:
    gives(
        lambda i: (
            ct.cumsum(i),
            ct.cumsum(i, 1),
            ct.cumsum(i, axis=-1, reverse=True),
            ct.cumprod(i % 3, 1),
            ct.scan(i, 1, max, -100),
            ct.scan(i, 0, lambda a, b: a + b, 0, reverse=True),
        ),
        (
            I.cumsum(0, dtype=np.int32),
            I.cumsum(1, dtype=np.int32),
            I[:, ::-1].cumsum(1, dtype=np.int32)[:, ::-1],
            (I % 3).cumprod(1, dtype=np.int32),
            np.maximum.accumulate(I, 1),
            I[::-1].cumsum(0, dtype=np.int32)[::-1],
        ),
        I,
    )


def add(a: Any, b: Any) -> Any:
    return a + b


def test_functions_of_reductions(engine: str) -> None:
    """Lambdas, closures, operators, tile operations and helper functions; captured tiles."""

    def reductions(i, x):
        k = ct.int32(3)

        def with_capture(a, b):
            return ct.maximum(a, b) + k * 0

        return (
            ct.reduce(i, 1, operator.add, 0),
            ct.reduce(i, axis=0, func=ct.minimum, identity=1000),
            ct.reduce(i, 1, add, identity=0, keepdims=True),
            ct.reduce(i, -1, with_capture, -1000),
            ct.reduce(i > 0, 1, lambda a, b: a | b, False),
            ct.reduce(x, 0, lambda a, b: a if a is None else a * b, 1.0),
            ct.reduce(i, 1, max, -1000),
        )

    gives(
        reductions,
        (
            I.sum(1, dtype=np.int32),
            I.min(0),
            I.sum(1, keepdims=True, dtype=np.int32),
            I.max(1),
            (I > 0).any(1),
            X.prod(0),
            I.max(1),
        ),
        I,
        X,
    )


def test_reductions_of_several_tiles(engine: str) -> None:
    def best(x, i):
        def larger(v, k, w, j):
            first = (v > w) | ((v == w) & (k < j))
            return ct.where(first, v, w), ct.where(first, k, j)

        return ct.reduce((x, i), 1, larger, (-math.inf, 1000))

    gives(best, (X.max(1), np.arange(7, 8, dtype=np.int32).repeat(4)), X, np.broadcast_to(V, (4, 8)).copy())

    def both(x, i):
        return ct.scan(
            (x, ct.extract(i, (0, 0), (1, 8))), 1, lambda a, k, b, j: (a + b, max(k, j)), (0.0, -1000), reverse=False
        )

    row = np.broadcast_to(np.maximum.accumulate(I[:1], 1), (4, 8))
    gives(both, (X.cumsum(1), row), X, I)


def test_custom_reductions_of_restricted_floats(engine: str) -> None:
    x = np.array([1, 4, 2, 3], E4M3)
    larger = lambda a, b: ct.where(a.astype(ct.float32) > b.astype(ct.float32), a, b)
    gives(lambda x: ct.reduce(x, 0, larger, 0.0), np.array(4, E4M3), x)


@refused(
    lambda x, i: ct.sum(x, 2),
    lambda x, i: ct.sum(x, (0, 0)),
    lambda x, i: ct.sum(x, (0, -2)),
    lambda x, i: ct.sum(x, 0.0),
    lambda x, i: ct.sum(x, ct.bid(0)),
    lambda x, i: ct.sum(x, 0, True),
    lambda x, i: ct.sum(x, keepdims=1),
    lambda x, i: ct.sum(i, rounding_mode="RN"),
    lambda x, i: ct.sum(x, rounding_mode="FULL"),
    lambda x, i: ct.sum(x, propagate_nan=True),
    lambda x, i: ct.max(x, rounding_mode="RN"),
    lambda x, i: ct.max(i, flush_to_zero=True),
    lambda x, i: ct.sum(x.astype(ct.float8_e5m2)),
    lambda x, i: ct.max(x.astype(ct.tfloat32)),
    lambda x, i: ct.argmax(x.astype(ct.float8_e4m3fn)),
    lambda x, i: ct.argmax(x, (0, 1)),
    lambda x, i: ct.argmax(x, 2),
    lambda x, i: ct.cumsum(x, None),
    lambda x, i: ct.cumsum(x, (0, 1)),
    lambda x, i: ct.cumsum(x, 0, True),
    lambda x, i: ct.cumsum(x, keepdims=True),
    lambda x, i: ct.reduce(x, None, add, 0.0),
    lambda x, i: ct.reduce(x, (0, 1), add, 0.0),
    lambda x, i: ct.reduce(x, 0, add),
    lambda x, i: ct.reduce(x, 0, 3, 0.0),
    lambda x, i: ct.reduce(x, 0, lambda a: a, 0.0),
    lambda x, i: ct.reduce(x, 0, add, ct.bid(0)),
    lambda x, i: ct.reduce(i, 0, lambda a, b: (a + b) * 0.5, 0),
    lambda x, i: ct.reduce((x, i), 0, lambda a, b, c, d: a + c, (0.0, 0)),
    lambda x, i: ct.reduce((x, i), 0, lambda a, b, c, d: (a + c, b), 0.0),
    lambda x, i: ct.reduce(x, 0, lambda a, b: i, 0.0),
)
def test_mistakes_with_reductions(error: type[ct.TileError], bad: Callable[..., Any]) -> None:
    refuses(bad, error, X, I)


def test_what_the_function_of_a_reduction_cannot_do() -> None:
    def branch(x, a):
        return ct.reduce(x, 0, lambda p, q: p if p > q else q, 0.0)

    def loop(x, a):
        def add_in_loop(p, q):
            for _ in range(ct.bid(0)):
                p = p + q
            return p

        return ct.reduce(x, 0, add_in_loop, 0.0)

    def memory(x, a):
        return ct.reduce(x, 0, lambda p, q: p + ct.gather(a, (0, 0)), 0.0)

    def nested(x, a):
        return ct.reduce(x, 0, lambda p, q: ct.sum(ct.full((2,), p, ct.float32)) + q, 0.0)

    for bad in (branch, loop, memory, nested):
        refuses(lambda a, bad=bad: bad(ct.load(a, (0, 0), (4, 8)), a), ct.TileSyntaxError, X, load=False)


# -- 1.15 matrices

MMA = [
    (np.float16, np.float16, np.float16),
    (np.float16, np.float16, np.float32),
    (BF16, BF16, np.float32),
    (np.float32, np.float32, np.float32),
    (np.float64, np.float64, np.float64),
    (E4M3, E4M3, np.float16),
    (E4M3, E4M3, np.float32),
    (E5M2, E5M2, np.float16),
    (E5M2, E5M2, np.float32),
    (np.int8, np.int8, np.int32),
    (np.uint8, np.uint8, np.int32),
    (np.int8, np.uint8, np.int32),
    (np.uint8, np.int8, np.int32),
]


@pytest.mark.parametrize(("left", "right", "result"), MMA)
def test_mma(engine: str, left: Any, right: Any, result: Any) -> None:
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, 4, (4, 8)), rng.integers(0, 4, (8, 2))
    acc = rng.integers(0, 4, (4, 2))
    gives(ct.mma, (x @ y + acc).astype(result), x.astype(left), y.astype(right), acc.astype(result))


def test_mma_forms(engine: str) -> None:
    rng = np.random.default_rng(6)
    x, y = rng.integers(0, 4, (2, 1, 4, 8)).astype(np.float32), rng.integers(0, 4, (4, 8, 2)).astype(np.float32)
    acc = np.ones((2, 4, 4, 2), np.float32)
    gives(lambda x, y, a: ct.mma(x, y, acc=a), x @ y + acc, x, y, acc)
    small = x.astype(E4M3)
    gives(lambda x, y, a: ct.mma(x, y, a, use_fast_acc=True), x @ y + acc, small, y.astype(E4M3), acc)
    tf32 = lambda x, y, a: ct.mma(x.astype(ct.tfloat32), y.astype(ct.tfloat32), a)
    gives(tf32, x @ y + acc, x, y, acc)


def test_matmul(engine: str) -> None:
    rng = np.random.default_rng(7)
    x, y, v = (rng.integers(0, 4, s).astype(np.float32) for s in ((4, 8), (8, 2), (8,)))
    gives(
        lambda x, y, v: (x @ y, ct.matmul(x, y), x @ v, v @ y, v @ v, x @ y.astype(ct.float16), x[None] @ y),
        (x @ y, x @ y, x @ v, v @ y, v @ v, x @ y, (x @ y)[None]),
        x,
        y,
        v,
    )
    i = rng.integers(-9, 9, (4, 4)).astype(np.int8)
    gives(
        lambda i: (i @ i, i.astype(ct.float16) @ i.astype(ct.float16)),
        (i @ i, (i.astype(np.float16) @ i.astype(np.float16))),
        i,
    )


SCALED = [(E4M3, E8M0, 32), (E5M2, E8M0, 32), (E2M1, E8M0, 16), (E2M1, E8M0, 32), (E2M1, E4M3, 16)]


@pytest.mark.parametrize(("dtype", "scale", "block"), SCALED)
def test_mma_scaled(engine: str, dtype: Any, scale: Any, block: int) -> None:
    rng = np.random.default_rng(8)
    k = 64
    x, y = (rng.choice([-2, -1, -0.5, 0, 0.5, 1, 3], s).astype(dtype) for s in ((2, 4, k), (1, k, 8)))
    xs, ys = (np.exp2(rng.integers(-2, 3, s)).astype(scale) for s in ((2, 4, k // block), (1, k // block, 8)))
    acc = rng.integers(0, 4, (2, 4, 8)).astype(np.float32)
    f = np.float32
    left = x.astype(f) * xs.astype(f).repeat(block, 2)
    right = y.astype(f) * ys.astype(f).repeat(block, 1)
    gives(lambda x, xs, y, ys, acc: ct.mma_scaled(x, xs, y, ys, acc=acc), left @ right + acc, x, xs, y, ys, acc)


def test_mma_scaled_with_e5m3_scales(engine: str) -> None:
    """The scale 2**k of float8_e5m3fnu has the bits (k + 15) << 3."""
    rng = np.random.default_rng(9)
    for block in (16, 32):
        x, y = (rng.choice([-1, 0, 0.5, 2], s).astype(E2M1) for s in ((4, 64), (64, 8)))
        xk, yk = rng.integers(-2, 3, (4, 64 // block)), rng.integers(-2, 3, (64 // block, 8))

        def product(x, xs, y, ys, acc):
            scales = ct.bitcast(xs, ct.float8_e5m3fnu), ct.bitcast(ys, ct.float8_e5m3fnu)
            return ct.mma_scaled(x, scales[0], y, scales[1], acc)

        left = x.astype(np.float32) * np.exp2(xk).astype(np.float32).repeat(block, 1)
        right = y.astype(np.float32) * np.exp2(yk).astype(np.float32).repeat(block, 0)
        bits = [((k + 15) << 3).astype(np.uint8) for k in (xk, yk)]
        gives(product, left @ right, x, bits[0], y, bits[1], np.zeros((4, 8), np.float32))


@refused(
    lambda x, i: ct.mma(x, x, x),
    lambda x, i: ct.mma(x, ct.transpose(x), ct.zeros((4, 4), ct.float16)),
    lambda x, i: ct.mma(x, ct.transpose(x), ct.zeros((1, 4), ct.float32)),
    lambda x, i: ct.mma(x, ct.transpose(x)),
    lambda x, i: ct.mma(x, ct.transpose(x), 0.0),
    lambda x, i: ct.mma(x, ct.transpose(x), ct.zeros((4, 4), ct.float32), True),
    lambda x, i: ct.mma(x, ct.transpose(x), ct.zeros((4, 4), ct.float32), use_fast_acc=True),
    lambda x, i: ct.mma(i, ct.transpose(i), ct.zeros((4, 4), ct.int32)),
    lambda x, i: ct.mma(x.astype(ct.float16), ct.transpose(x.astype(ct.bfloat16)), ct.zeros((4, 4), ct.float32)),
    lambda x, i: ct.mma(x.reshape((32,)), x.reshape((32,)), ct.zeros((1,), ct.float32)),
    lambda x, i: x @ x,
    lambda x, i: x @ 2,
    lambda x, i: ct.matmul(ct.float32(1), ct.float32(2)),
    lambda x, i: (x > 0) @ ct.transpose(x > 0),
    lambda x, i: i @ ct.transpose(i),
    lambda x, i: ct.mma_scaled(x, x, ct.transpose(x), x, ct.zeros((4, 4), ct.float32)),
)
def test_mistakes_with_matrices(error: type[ct.TileError], bad: Callable[..., Any]) -> None:
    refuses(bad, error, X, I)


def test_mma_scaled_block_sizes_are_checked() -> None:
    def product(X, S, B, ACC=ct.float32):
        x, y = ct.zeros((4, 64), X), ct.zeros((64, 4), X)
        xs, ys = ct.ones((4, 64 // B), S), ct.ones((64 // B, 4), S)
        return ct.mma_scaled(x, xs, y, ys, ct.zeros((4, 4), ACC))

    fp8, fp4, e8, e4, e5 = ct.float8_e4m3fn, ct.float4_e2m1fn, ct.float8_e8m0fnu, ct.float8_e4m3fn, ct.float8_e5m3fnu
    for arguments in ((fp8, e8, 16), (fp8, e8, 64), (fp8, e4, 32), (fp4, e4, 32), (fp4, e8, 8), (fp4, e5, 64)):
        refuses(lambda arguments=arguments: product(*arguments), TTE)
    refuses(lambda: product(fp8, e8, 32, ct.float16), TTE)
