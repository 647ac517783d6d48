"""Tiles: attributes, operators, creation, shape, selection, casts."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from support.tile_code import gives, refused, refuses

import tilewright as ct

X = np.arange(32, dtype=np.float32).reshape(4, 8) - 7.5
I = np.arange(32, dtype=np.int32).reshape(4, 8) - 9
J = np.arange(32, dtype=np.int32).reshape(4, 8) % 5 + 1
B = I % 3 == 0
V = np.arange(8, dtype=np.int32)
NUMPY_DTYPE = np.dtype(np.uint16)
BF16 = ml_dtypes.bfloat16
E4M3 = ml_dtypes.float8_e4m3fn
E2M1 = ml_dtypes.float4_e2m1fn


# -- 1.6 tiles


def test_attributes(backend: str) -> None:
    def facts(x):
        ct.static_assert(x.dtype == ct.float32 and x.shape == (4, 8) and x.ndim == 2)
        ct.static_assert(ct.ensure_constant(x.shape[1]) == 8)
        return x.reshape((x.shape[0] * x.shape[1],))

    gives(facts, X.ravel(), X)


def test_methods(backend: str) -> None:
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


def test_operators_direct_and_reflected(backend: str) -> None:
    functions = tuple(BINARY_OPERATORS.values())

    def forms(x, y):
        return tuple(r for f in ct.static_iter(functions) for r in ct.static_iter((f(x, y), f(x, 3), f(3, y))))

    def host(f: Callable[..., Any], x: Any, y: Any) -> np.ndarray:
        if f is operator.truediv:
            x, y = np.float32(x), np.float32(y)
        return f(x, y)

    three = np.int32(3)
    gives(forms, tuple(host(f, *pair) for f in functions for pair in ((I, J), (I, three), (three, J))), I, J)


def test_augmented_assignment_and_unary(backend: str) -> None:
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


def test_new_axes(backend: str) -> None:
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


def test_scalars_are_indices_and_bounds(backend: str) -> None:
    def count(n, a):
        total = ct.int32(0)
        for i in range(n, n + a.shape[0], ct.int32(2)):
            total += i
        return total, ct.load(a, n, 2)

    gives(count, (np.int32(2 + 4 + 6 + 8), V[4:6]), 2, V, load=False)


# -- 1.11 factories


def test_factories(backend: str) -> None:
    def made(n):
        return (
            ct.arange(4, dtype=ct.int32),
            ct.arange(4, dtype=np.float16, start=n, step=n + 1),
            ct.arange(4, dtype=ct.uint8, start=254),
            ct.full((2, 2), n, ct.int64),
            ct.full(4, 300, ct.int8),
            ct.full((), 2.7, ct.int32),
            ct.full((), -300.5, ct.uint8),
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
            np.uint8(-300 % 256),
            np.ones(1, np.float32),
            np.ones(2, bool),
            np.zeros((2, 1), BF16),
            np.ones(2, E4M3),
            np.zeros(2, np.uint16),
        ),
        2,
    )


def test_astile(backend: str) -> None:
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


def test_shapes(backend: str) -> None:
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


def test_positions_known_at_run_time(backend: str) -> None:
    gives(
        lambda v, n: (ct.extract(v, n, 2), ct.insert(v, (n,), ct.arange(2, dtype=ct.int32) + n)),
        (V[4:6], np.array([0, 1, 2, 3, 2, 3, 6, 7], np.int32)),
        V,
        2,
    )


def test_where(backend: str) -> None:
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


def test_bits_and_bytes(backend: str) -> None:
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


def test_bytes_keep_signaling_nans(backend: str) -> None:
    for first, stored, dtype in ((0x7C00, np.float16, ct.float16), (0x7F80, BF16, ct.bfloat16)):
        raw = np.arange(first, first + 128, dtype=np.uint16)
        data = raw.view(np.uint8)
        gives(
            lambda x, y, dtype=dtype: (ct.pack_to_bytes(ct.unpack_from_bytes(x, dtype)), ct.pack_to_bytes(y)),
            (data, data),
            data,
            raw.view(stored),
        )


def test_packed_float4(backend: str) -> None:
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


def test_where_gives_numbers_the_dtype_of_tiles_without_arithmetic(backend: str) -> None:
    x = np.array([-2, -1, 0, 0.5, 1, 2, 3, 4], ml_dtypes.float8_e4m3fn)
    wide = x.astype(np.float32)
    gives(lambda x: ct.where(x.astype(ct.float32) > 0, x, 1.03), np.where(wide > 0, wide, 1).astype(x.dtype), x)
    gives(lambda x: ct.where(x.astype(ct.float32) > 0, 3, x), np.where(wide > 0, 3, wide).astype(x.dtype), x)
