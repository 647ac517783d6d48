"""Operations of the language through ``ct.launch``, on every CPU backend, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as ct

RNG = np.random.default_rng(11)
F = RNG.standard_normal((8, 16)).astype(np.float32)
G = RNG.standard_normal((8, 16)).astype(np.float32) + 3
I = RNG.integers(-100, 100, (8, 16)).astype(np.int32)
J = RNG.integers(1, 20, (8, 16)).astype(np.int32)
U = RNG.integers(0, 200, (8, 16)).astype(np.uint8)
B = RNG.integers(0, 2, (8, 16)).astype(bool)


@pytest.fixture(params=["reference", "cpu", "python"], autouse=True)
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    with ct.use_backend(request.param):
        yield request.param


@ct.kernel
def unary(x, out, OP: ct.Constant):
    ct.store(out, (0, 0), OPERATIONS_1[OP](ct.load(x, (0, 0), (8, 16))))


@ct.kernel
def binary(x, y, out, OP: ct.Constant):
    ct.store(out, (0, 0), OPERATIONS_2[OP](ct.load(x, (0, 0), (8, 16)), ct.load(y, (0, 0), (8, 16))))


Case = tuple[Callable[..., Any], np.ndarray, Callable[[np.ndarray], np.ndarray]]
UNARY: tuple[Case, ...] = (
    (lambda x: -x, F, lambda x: -x),
    (lambda x: +x, I, lambda x: x),
    (lambda x: ~x, I, lambda x: ~x),
    (lambda x: abs(x), F, np.abs),
    (lambda x: not x, I, lambda x: x == 0),
    (lambda x: x + 1, I, lambda x: x + 1),
    (lambda x: 2.5 * x, I, lambda x: np.float32(2.5) * x.astype(np.float32)),
    (lambda x: x / 7, I, lambda x: x.astype(np.float32) / np.float32(7)),
    (lambda x: x // 7, I, lambda x: x // 7),
    (lambda x: x % 7, I, lambda x: x % 7),
    (lambda x: x // 0.7, F, lambda x: np.floor(x / np.float32(0.7))),
    (lambda x: x << 3, I, lambda x: x << 3),
    (lambda x: x >> 2, I, lambda x: x >> 2),
    (lambda x: ct.cdiv(x, 7), I, lambda x: -(-x // 7)),
    (lambda x: ct.floor(x), F, np.floor),
    (lambda x: ct.ceil(x), F, np.ceil),
    (lambda x: ct.isnan(x), F, np.isnan),
    (lambda x: ct.where(x > 0, x, 0), F, lambda x: np.where(x > 0, x, np.float32(0))),
    (lambda x: x.astype(ct.float16), F, lambda x: x.astype(np.float16)),
    (lambda x: x.astype(ct.bool_), I, lambda x: x.astype(bool)),
    (lambda x: x.astype(np.int64), I, lambda x: x.astype(np.int64)),
    (lambda x: x.astype(ct.bfloat16), F, lambda x: x.astype(ml_dtypes.bfloat16)),
    (lambda x: ct.bitcast(x, ct.uint32), F, lambda x: x.view(np.uint32)),
    (lambda x: ct.transpose(ct.transpose(x)), F, lambda x: x),
    (lambda x: ct.reshape(x, (16, -1)).reshape((8, 16)), F, lambda x: x),
    (
        lambda x: ct.permute(x.reshape((2, 4, 16)), (1, 0, 2)).reshape((8, 16)),
        F,
        lambda x: x.reshape(2, 4, 16).transpose(1, 0, 2).reshape(8, 16),
    ),
    (
        lambda x: ct.cat((ct.extract(x, (0, 1), (8, 8)), ct.extract(x, (0, 0), (8, 8))), 1),
        F,
        lambda x: np.concatenate([x[:, 8:], x[:, :8]], 1),
    ),
    (
        lambda x: x.insert((1, 0), ct.zeros((4, 8), ct.float32)),
        F,
        lambda x: np.block([[x[:4, :8], x[:4, 8:]], [np.zeros((4, 8), np.float32), x[4:, 8:]]]),
    ),
    (lambda x: ct.sum(x, axis=1, keepdims=True) + x * 0, I, lambda x: x.sum(1, keepdims=True, dtype=np.int32) + 0 * x),
    (lambda x: ct.max(x, 0)[None, :] + x * 0, I, lambda x: x.max(0)[None] + 0 * x),
    (lambda x: ct.min(x) + x * 0, I, lambda x: x.min() + 0 * x),
    (lambda x: ct.prod(x % 3 + 1, axis=(0, 1)) + x * 0, I, lambda x: (x % 3 + 1).prod(dtype=np.int32) + 0 * x),
    (
        lambda x: ct.argmax(x, 1)[:, None] + x.astype(ct.int32) * 0,
        F,
        lambda x: (x.argmax(1)[:, None] + np.zeros(x.shape)).astype(np.int32),
    ),
    (lambda x: ct.argmin(x) + x.astype(ct.int32) * 0, F, lambda x: (x.argmin() + np.zeros(x.shape)).astype(np.int32)),
    (lambda x: ct.cumsum(x, 1), I, lambda x: x.cumsum(1, dtype=np.int32)),
    (lambda x: ct.cumsum(x, 0, reverse=True), I, lambda x: x[::-1].cumsum(0, dtype=np.int32)[::-1]),
    (lambda x: ct.cumprod(x % 3, 1), I, lambda x: (x % 3).cumprod(1, dtype=np.int32)),
    (lambda x: ct.reduce(x, 1, lambda a, b: a * 3 + b, 0)[:, None] + x * 0, J, lambda x: _horner(x)[:, None] + 0 * x),
    (lambda x: ct.scan(x, 1, lambda a, b: ct.maximum(a, b), -1000), I, lambda x: np.maximum.accumulate(x, 1)),
    (
        lambda x: ct.broadcast_to(ct.expand_dims(ct.arange(16, dtype=ct.int32), 0), (8, 16)) + x * 0,
        I,
        lambda x: np.arange(16, dtype=np.int32) + 0 * x,
    ),
    (
        lambda x: ct.arange(16, dtype=ct.float32, start=1, step=0.5) + x * 0,
        I,
        lambda x: np.float32(1) + np.arange(16, dtype=np.float32) / 2 + 0 * x,
    ),
    (lambda x: ct.full((8, 16), 300, ct.int8), F, lambda x: np.full((8, 16), 44, np.int8)),
    (lambda x: ct.unpack_from_bytes(ct.pack_to_bytes(x), ct.uint32).reshape((8, 16)), F, lambda x: x.view(np.uint32)),
    (
        lambda x: (
            ct.astile(((1, 2), (3, 4)), dtype=ct.int32).reshape((4,))[None, :, None] + (x * 0).reshape((8, 4, 4))
        ).reshape((8, 16)),
        I,
        lambda x: np.tile(np.repeat([1, 2, 3, 4], 4), (8, 1)).astype(np.int32),
    ),
    (
        lambda x: ((x @ ct.transpose(x)).astype(ct.int32)[:, :, None] + ct.zeros((8, 8, 2), ct.int32)).reshape((8, 16)),
        J.astype(np.int8),
        lambda x: np.repeat((x.astype(np.int32) @ x.T.astype(np.int32)).astype(np.int8), 2).astype(np.int32),
    ),
)
BINARY: tuple[tuple[Callable[..., Any], np.ndarray, np.ndarray, Callable[..., np.ndarray]], ...] = (
    (lambda x, y: x + y, F, G, np.add),
    (lambda x, y: x - y, F, G, np.subtract),
    (lambda x, y: x * y, F, G, np.multiply),
    (lambda x, y: x / y, F, G, np.divide),
    (lambda x, y: x // y, I, J, np.floor_divide),
    (lambda x, y: x % y, I, J, np.mod),
    (lambda x, y: divmod(x, y)[1], I, J, np.mod),
    (lambda x, y: x % y, F, G, np.mod),
    (lambda x, y: x < y, F, G, np.less),
    (lambda x, y: x == y, I, J, np.equal),
    (lambda x, y: x != y, I, J, np.not_equal),
    (lambda x, y: x & y, I, J, np.bitwise_and),
    (lambda x, y: x ^ y, B, ~B, np.bitwise_xor),
    (lambda x, y: x | y, U, U, np.bitwise_or),
    (lambda x, y: min(x, y), I, J, np.minimum),
    (lambda x, y: ct.maximum(x, y), F, G, np.maximum),
    (lambda x, y: x + y, I, F, lambda x, y: x.astype(np.float32) + y),
    (lambda x, y: ct.where(x, y, -y), B, F, lambda x, y: np.where(x, y, -y)),
    (lambda x, y: ct.add(x, y, rounding_mode=ct.RoundingMode.RN), F, G, np.add),
)
OPERATIONS_1 = tuple(c[0] for c in UNARY)
OPERATIONS_2 = tuple(c[0] for c in BINARY)


def _horner(x: np.ndarray) -> np.ndarray:
    acc = x[:, 0]
    for k in range(1, x.shape[1]):
        acc = (acc * 3 + x[:, k]).astype(np.int32)
    return acc


def _check(out: np.ndarray, expected: np.ndarray) -> None:
    assert out.dtype == expected.dtype
    np.testing.assert_array_equal(out, expected.reshape(out.shape))


@pytest.mark.parametrize("i", range(len(UNARY)))
def test_one_operand(i: int) -> None:
    _, x, expected = UNARY[i]
    with np.errstate(all="ignore"):
        want = np.ascontiguousarray(expected(x)).reshape(8, 16)
    out = np.zeros((8, 16), want.dtype)
    ct.launch(None, (1,), unary, (x, out, i))
    _check(out, want)


@pytest.mark.parametrize("i", range(len(BINARY)))
def test_two_operands(i: int) -> None:
    _, x, y, expected = BINARY[i]
    want = expected(x, y)
    out = np.zeros((8, 16), want.dtype)
    ct.launch(None, (1,), binary, (x, y, out, i))
    _check(out, want)
