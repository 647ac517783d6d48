"""One kernel per family of ops without memory effects: elementwise, pointers, shapes, reductions, products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.irbuild import KernelBuilder, run

from tilewright.backends.reference import BACKEND
from tilewright.backends.reference.access import MEMORY
from tilewright.backends.reference.interpreter import BLOCK_VALUES, EVALUATORS, FOLDS, STRUCTURED
from tilewright.ir import dtypes
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType, float32, int32
from tilewright.ir.enums import CmpPredicate, RoundingMode
from tilewright.ir.opdef import OPS
from tilewright.ir.ops import arith, linear, memory, shape
from tilewright.ir.semantics import evaluate
from tilewright.ir.types import PointerType


def compute(kernel: KernelBuilder, result: Value, **inputs: Any) -> np.ndarray:
    """Run a kernel of one block and return the value of ``result``."""
    out_dtype, out_shape = result.tile.element, result.tile.shape
    out = kernel.array("out", out_dtype, len(out_shape))
    kernel.store_tile(out, result, [kernel.constant(0)] * len(out_shape))
    target = np.zeros(out_shape, out_dtype.storage)
    run(BACKEND, kernel.function(), **inputs, out=target)
    return target


def load(kernel: KernelBuilder, name: str, dtype: DType, tile_shape: tuple[int, ...]) -> Value:
    array = kernel.array(name, dtype, len(tile_shape))
    return kernel.load_tile(array, tile_shape, [kernel.constant(0)] * len(tile_shape))


def test_every_op_has_an_evaluator() -> None:
    known = {*EVALUATORS, *MEMORY, *BLOCK_VALUES, *FOLDS, *STRUCTURED}
    assert known == {op for op in OPS.values() if not op.spec.terminator}


def test_elementwise() -> None:
    k = KernelBuilder()
    x, y = load(k, "x", float32, (8,)), load(k, "y", float32, (8,))
    scale = k.fill(k.scalar("scale", float32), (8,))
    product = k.emit(arith.Mul, x, scale, rounding=RoundingMode.RZ)
    larger = k.emit(arith.Cmp, product, y, predicate=CmpPredicate.GT)
    whole = k.emit(arith.Cast, k.emit(arith.Select, larger, product, y), dtype=int32)
    result = k.emit(arith.Shl, whole, k.constant(1, int32, (8,)))
    a, b = np.arange(8, dtype=np.float32), np.full(8, 9.5, np.float32)
    np.testing.assert_array_equal(compute(k, result, x=a, y=b, scale=3.0), np.maximum(a * 3, b).astype(int) * 2)


def test_pointer_ops() -> None:
    k = KernelBuilder()
    x = k.array("x", dtypes.float64, 1)
    far = k.pointers(x, k.iota(4))
    near = k.fill(x.base, (4,))
    distance = k.emit(shape.PtrDiff, far, near, dtype=dtypes.int64)
    address = k.emit(shape.PtrToInt, far, dtype=dtypes.uint64)
    back = k.emit(shape.IntToPtr, address, dtype=PointerType(dtypes.float64))
    same = k.emit(arith.Cmp, back, far, predicate=CmpPredicate.EQ)
    third = k.emit(arith.Cmp, distance, k.constant(2, dtypes.int64, (4,)), predicate=CmpPredicate.EQ)
    chosen = k.emit(arith.Select, third, k.emit(arith.Select, same, back, near), near)
    untyped = k.emit(arith.Bitcast, chosen, dtype=PointerType(None))
    stepped = k.emit(shape.PtrOffset, untyped, k.constant(8, int32, (4,)))
    typed = k.emit(arith.Bitcast, stepped, dtype=PointerType(dtypes.float64))
    result = k.emit(memory.Load, typed, None, None)
    np.testing.assert_array_equal(compute(k, result, x=np.arange(8.0) * 10), [10, 10, 30, 10])


def test_shape_ops() -> None:
    k = KernelBuilder()
    numbers = k.iota(2, 4)
    flipped = k.emit(shape.Permute, numbers, axes=(1, 0))
    joined = k.emit(shape.Cat, flipped, k.emit(shape.Reshape, numbers, shape=(4, 2)), axis=1)
    corner = k.emit(shape.Extract, joined, [k.constant(-1), k.constant(3)], shape=(2, 2))  # wraps to (1, 1)
    result = k.emit(shape.Insert, joined, corner, [k.constant(0), k.constant(0)])
    n = np.arange(8).reshape(2, 4)
    expected = np.concatenate([n.T, n.reshape(4, 2)], axis=1)
    expected[:2, :2] = expected[2:, 2:].copy()
    np.testing.assert_array_equal(compute(k, result), expected)


def test_pack_and_unpack() -> None:
    k = KernelBuilder()
    x = load(k, "x", dtypes.int16, (2, 2))
    packed = k.emit(shape.Pack, k.emit(shape.Permute, x, axes=(1, 0)))
    fours = k.emit(shape.Unpack, packed, dtype=dtypes.float4_e2m1fn)
    again = k.emit(shape.Pack, fours)
    values = np.array([[1, 2], [0x1234, -1]], np.int16)
    expected = np.frombuffer(values.T.tobytes(), np.uint8)
    np.testing.assert_array_equal(compute(k, again, x=values), expected)

    k = KernelBuilder()
    bytes_ = load(k, "x", dtypes.uint8, (2,))
    unpacked = k.emit(shape.Unpack, bytes_, dtype=dtypes.float4_e2m1fn)
    result = k.emit(arith.Cast, unpacked, dtype=float32)
    np.testing.assert_array_equal(compute(k, result, x=np.array([0x21, 0xF7], np.uint8)), [0.5, 1, 6, -6])


def documented_order(x: np.ndarray, partials: int) -> np.ndarray:
    """The sum over axis 0 as the ``reduce`` op says, one element at a time."""
    sums = [x[lane] for lane in range(partials)]
    for i in range(partials, len(x)):
        sums[i % partials] = sums[i % partials] + x[i]
    while len(sums) > 1:
        half = len(sums) // 2
        sums = [sums[i] + sums[i + half] for i in range(half)]
    return sums[0]


@pytest.mark.parametrize(
    ("axis", "commutative", "partials"), [(1, True, 64), (0, True, 4), (0, False, 1), (1, False, 1)]
)
def test_reduce_order(axis: int, commutative: bool, partials: int) -> None:
    k = KernelBuilder()
    x = load(k, "x", float32, (16, 256))
    body = k.combiner([float32], lambda a, b: [k.emit(arith.Add, a, b)])
    result = k.emit(linear.Reduce, [x], axis=axis, identities=(0.0,), commutative=commutative, body=body)
    values = np.random.default_rng(0).standard_normal((16, 256)).astype(np.float32)
    rows = np.moveaxis(values, axis, 0)
    np.testing.assert_array_equal(compute(k, result, x=values), documented_order(rows, partials))


def test_reduce_of_several_tiles_with_captured_values() -> None:
    """argmax with an offset from outside; the combiner yields a value that depends on no element."""
    k = KernelBuilder()
    x = load(k, "x", float32, (4, 8))
    offset = k.scalar("offset", int32)
    places = k.emit(arith.Add, k.fill(offset, (8,)), k.iota(8))
    places = k.emit(shape.Broadcast, k.emit(shape.Reshape, places, shape=(1, 8)), shape=(4, 8))

    def later(a: Value, i: Value, b: Value, j: Value) -> list[Value]:
        keep = k.emit(arith.Cmp, a, b, predicate=CmpPredicate.GE)
        return [k.emit(arith.Select, keep, a, b), k.emit(arith.Select, keep, i, j)]

    body = k.combiner([float32, int32], later)
    op = k.b.emit_op(linear.Reduce, [x, places], axis=1, identities=(-np.inf, 0), commutative=False, body=body)
    values = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    np.testing.assert_array_equal(compute(k, op.results[1], x=values, offset=100), values.argmax(1) + 100)

    k = KernelBuilder()
    x = load(k, "x", int32, (4, 8))
    seven = k.scalar("seven", int32)
    result = k.emit(linear.Reduce, [x], axis=0, identities=(0,), body=k.combiner([int32], lambda a, b: [seven]))
    np.testing.assert_array_equal(compute(k, result, x=np.ones((4, 8), np.int32), seven=7), [7] * 8)


def test_combiner_with_shape_ops() -> None:
    """A combiner that is not elementwise runs once per element."""
    k = KernelBuilder()
    x = load(k, "x", int32, (4, 2))

    def through_a_tile(a: Value, b: Value) -> list[Value]:
        pair = k.emit(shape.Cat, k.emit(shape.Reshape, a, shape=(1,)), k.emit(shape.Reshape, b, shape=(1,)), axis=0)
        last = k.emit(shape.Extract, pair, [k.constant(1)], shape=(1,))
        return [k.emit(arith.Sub, k.emit(shape.Reshape, last, shape=()), a)]

    result = k.emit(linear.Reduce, [x], axis=0, identities=(0,), body=k.combiner([int32], through_a_tile))
    values = np.array([[1, 2], [10, 20], [100, 200], [1000, 2000]], np.int32)
    np.testing.assert_array_equal(compute(k, result, x=values), [1000 - (100 - (10 - 1)), 2000 - (200 - (20 - 2))])


@pytest.mark.parametrize("reverse", [False, True])
def test_scan(reverse: bool) -> None:
    k = KernelBuilder()
    x = load(k, "x", float32, (4, 16))
    body = k.combiner([float32], lambda a, b: [k.emit(arith.Sub, b, a)])
    result = k.emit(linear.Scan, [x], axis=1, identities=(0.0,), reverse=reverse, body=body)
    values = np.random.default_rng(2).standard_normal((4, 16)).astype(np.float32)
    expected = values[:, ::-1].copy() if reverse else values.copy()
    for i in range(1, 16):
        expected[:, i] = expected[:, i] - expected[:, i - 1]
    np.testing.assert_array_equal(compute(k, result, x=values), expected[:, ::-1] if reverse else expected)


@pytest.mark.parametrize("op", [arith.Add, arith.Mul, arith.Max, arith.Xor], ids=lambda op: op.__name__)
@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16, float32, dtypes.int8, dtypes.uint64], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_by_one_op(op: type[Op], dtype: DType, reverse: bool) -> None:
    """NumPy's own scans give what the combiner gives element by element: rounded and wrapped, each in its dtype."""
    if op is arith.Xor and dtype.is_float:
        pytest.skip("floats have no bits")
    k = KernelBuilder()
    x = load(k, "x", dtype, (2, 64))
    body = k.combiner([dtype], lambda a, b: [k.emit(op, a, b)])
    result = k.emit(linear.Scan, [x], axis=1, identities=(0,), reverse=reverse, body=body)
    rng = np.random.default_rng(4)
    values = (rng.standard_normal((2, 64)) * 3 + (0 if dtype.is_signed else 9)).astype(dtype.storage)
    expected = values[:, ::-1].copy() if reverse else values.copy()
    for i in range(1, 64):
        expected[:, i] = evaluate(op.spec.name, dtype, {}, [expected[:, i - 1], expected[:, i]])
    np.testing.assert_array_equal(compute(k, result, x=values), expected[:, ::-1] if reverse else expected)


def test_scan_in_another_rounding_mode() -> None:
    k = KernelBuilder()
    x = load(k, "x", float32, (64,))
    body = k.combiner([float32], lambda a, b: [k.emit(arith.Add, a, b, rounding=RoundingMode.RP)])
    result = k.emit(linear.Scan, [x], axis=0, identities=(0.0,), reverse=False, body=body)
    found = compute(k, result, x=np.full(64, 2**-30, np.float32) + np.eye(1, 64, dtype=np.float32)[0])
    np.testing.assert_array_equal(found, np.float32(1) + np.arange(64, dtype=np.float32) * np.float32(2**-23))


@pytest.mark.parametrize(
    ("dtype", "acc"),
    [
        (dtypes.float16, dtypes.float16),
        (dtypes.bfloat16, float32),
        (dtypes.float64, dtypes.float64),
        (dtypes.float8_e4m3fn, float32),
        (dtypes.int8, int32),
    ],
    ids=str,
)
def test_mma(dtype: DType, acc: DType) -> None:
    k = KernelBuilder()
    x, y = load(k, "x", dtype, (2, 4, 8)), load(k, "y", dtype, (2, 8, 4))
    c = load(k, "c", acc, (2, 4, 4))
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-8, 8, s).astype(dtype.storage) for s in ((2, 4, 8), (2, 8, 4)))
    start = rng.integers(-8, 8, (2, 4, 4)).astype(acc.storage)
    expected = a.astype(float) @ b.astype(float) + start
    np.testing.assert_array_equal(compute(k, k.emit(linear.Mma, x, y, c), x=a, y=b, c=start), expected)


def test_mma_wraps_integers() -> None:
    k = KernelBuilder()
    x, y = load(k, "x", dtypes.uint8, (1, 1)), load(k, "y", dtypes.int8, (1, 1))
    result = k.emit(linear.Mma, x, y, k.constant(-(2**31), int32, (1, 1)))
    one, minus = np.ones((1, 1), np.uint8), -np.ones((1, 1), np.int8)
    assert compute(k, result, x=one, y=minus)[0, 0] == 2**31 - 1


def test_mma_scaled() -> None:
    k = KernelBuilder()
    four, eight = dtypes.float4_e2m1fn, dtypes.float8_e8m0fnu
    x, xs = load(k, "x", four, (2, 32)), load(k, "xs", eight, (2, 2))
    y, ys = load(k, "y", four, (32, 2)), load(k, "ys", eight, (2, 2))
    result = k.emit(linear.MmaScaled, x, xs, y, ys, k.constant(1.0, float32, (2, 2)))
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-3, 4, s).astype(np.float32) for s in ((2, 32), (32, 2)))
    sa, sb = (np.exp2(rng.integers(-4, 5, (2, 2))).astype(np.float32) for _ in range(2))
    expected = (a * sa.repeat(16, 1)) @ (b * sb.repeat(16, 0)) + 1
    given = {"x": a.astype(four.storage), "y": b.astype(four.storage)}
    got = compute(k, result, **given, xs=sa.astype(eight.storage), ys=sb.astype(eight.storage))
    np.testing.assert_array_equal(got, expected)
