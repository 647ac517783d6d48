"""Folds, scans, products and random programs whose results do not depend on the order in which elements are combined:
there the GPU backend gives the reference's bits."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from backends.cpu.comparison import compare_on
from backends.cpu.programs import ProgramMaker
from support.gpu import BACKEND, GPU
from support.irbuild import KernelBuilder

from tilewright.ir.core import Value
from tilewright.ir.dtypes import (
    DType,
    bfloat16,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
)
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.ops.arith import Add, Cast, Cmp, Max, Min, Mul, Select
from tilewright.ir.ops.linear import Mma, Reduce, Scan

SHAPES = [(64,), (4, 1024), (1024, 4), (8, 2), (4, 64, 2), (1, 8), (16, 1), (2, 2, 2, 2), (2048,)]
DTYPES = [float32, float16, bfloat16, float64, int32, int64, int8, uint8]


@pytest.mark.skipif(GPU.name == "tileir", reason="they index outside of tiles and arrays, which is undefined there")
@pytest.mark.parametrize("seed", range(120))
def test_generated_programs(seed: int) -> None:
    function, arrays = ProgramMaker(seed, any_order=True).make(14)
    compare_on(BACKEND, function, (1,), 0, **arrays)


def whole_numbers(dtype: DType, shape: tuple[int, ...], most: int = 4) -> np.ndarray[Any, Any]:
    """Sums of them are exact."""
    low = 0 if dtype.short == "u8" else -most
    return np.random.default_rng(len(shape)).integers(low, most, shape, endpoint=True).astype(dtype.storage)


def zeros(k: KernelBuilder, rank: int) -> list[Value]:
    return [k.constant(0)] * rank


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.short)
def test_folds_and_scans(shape: tuple[int, ...], dtype: DType) -> None:
    """Along every axis, from both ends, with functions that Triton knows and one, of pairs, that it does not."""
    k, rank = KernelBuilder(), len(shape)
    x = k.load_tile(k.array("x", dtype, rank), shape, zeros(k, rank))
    arrays: dict[str, Any] = {"x": whole_numbers(dtype, shape, 1 if dtype.bitwidth < 32 else 4)}

    def keep(name: str, found: Value) -> None:
        k.store_tile(k.array(name, found.tile.element, found.tile.rank), found, zeros(k, found.tile.rank))
        arrays[name] = np.zeros(found.tile.shape, found.tile.element.storage)

    def largest(a: Value, i: Value, b: Value, j: Value) -> list[Value]:
        """The first of the largest."""
        more, same = (k.emit(Cmp, b, a, predicate=p) for p in (CmpPredicate.GT, CmpPredicate.EQ))
        first = k.emit(Select, same, k.emit(Min, i, j), k.emit(Select, more, j, i))
        return [k.emit(Max, a, b), first]

    for axis in range(rank):
        for commutative in (True, False):
            for op in (Add, Max, Min):
                body = k.combiner([dtype], lambda a, b, op=op: [k.emit(op, a, b)])
                keep(
                    f"{op.__name__}{axis}{commutative}",
                    k.emit(Reduce, [x], axis=axis, identities=(0,), commutative=commutative, body=body),
                )
            body = k.combiner([dtype, int32], largest)
            pair = k.b.emit_op(
                Reduce, [x, k.iota(*shape)], axis=axis, identities=(0, 0), commutative=commutative, body=body
            )
            keep(f"index{axis}{commutative}", pair.results[1])
            body = k.combiner([dtype], lambda a, b: [k.emit(Add, a, b)])
            keep(
                f"scan{axis}{commutative}",
                k.emit(Scan, [x], axis=axis, identities=(0,), reverse=commutative, body=body),
            )
    compare_on(BACKEND, k.function(), **arrays)


@pytest.mark.parametrize("reverse", [False, True])
def test_scans_of_functions(reverse: bool) -> None:
    """Composed in order: they do not commute."""
    k = KernelBuilder()
    a, b = (k.load_tile(k.array(name, int32, 2), (16, 128), zeros(k, 2)) for name in "ab")

    def composed(a: Value, b: Value, c: Value, d: Value) -> list[Value]:
        return [k.emit(Mul, a, c), k.emit(Add, k.emit(Mul, b, c), d)]

    numbers = np.random.default_rng(0).integers(-(1 << 31), 1 << 31, (2, 16, 128)).astype(np.int32)
    arrays = dict(zip("ab", numbers))
    for axis in (0, 1):
        body = k.combiner([int32, int32], composed)
        op = k.b.emit_op(Scan, [a, b], axis=axis, identities=(1, 0), reverse=reverse, body=body)
        for i, found in enumerate(op.results):
            k.store_tile(k.array(f"s{axis}{i}", int32, 2), found, zeros(k, 2))
            arrays[f"s{axis}{i}"] = np.zeros((16, 128), np.int32)
    compare_on(BACKEND, k.function(), **arrays)


PRODUCTS = [
    (float16, float32), (float16, float16), (bfloat16, float32), (float32, float32), (float64, float64),
    (float8_e4m3fn, float32), (float8_e5m2, float32), (int8, int32), (uint8, int32),
]  # fmt: skip


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize(("dtype", "out"), PRODUCTS, ids=str)
def test_products(dtype: DType, out: DType, batch: tuple[int, ...]) -> None:
    """Of whole numbers, with accumulators, for sizes that tensor cores have and sizes that they do not."""
    for m, n, depth in ((16, 16, 16), (64, 64, 32), (128, 64, 64), (1, 8, 32), (2, 4, 1), (64, 16, 128), (8, 128, 16)):
        k = KernelBuilder()
        rank = len(batch) + 2
        shapes = {"x": (*batch, m, depth), "y": (*batch, depth, n), "acc": (*batch, m, n)}
        dtypes = {"x": dtype, "y": dtype, "acc": out}
        tiles = [
            k.load_tile(k.array(name, dtypes[name], rank), shape, zeros(k, rank)) for name, shape in shapes.items()
        ]
        k.store_tile(k.array("found", out, rank), k.emit(Mma, *tiles), zeros(k, rank))
        arrays = {name: whole_numbers(dtypes[name], shape, 2) for name, shape in shapes.items()}
        compare_on(BACKEND, k.function(), **arrays, found=np.zeros(shapes["acc"], out.storage))


@pytest.mark.parametrize("depth", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("source", [int8, float16, float8_e4m3fn, float32], ids=str)
def test_short_products_of_converted_operands(source: DType, depth: int) -> None:
    for dtype, (m, n) in itertools.product((float16, bfloat16, float32, float64), ((4, 4), (16, 16), (64, 32))):
        if source is float32 and dtype is not float64:
            continue
        k = KernelBuilder()
        shapes = {"x": (m, depth), "y": (depth, n)}
        tiles = [k.load_tile(k.array(name, source, 2), shape, zeros(k, 2)) for name, shape in shapes.items()]
        x, y = (k.emit(Cast, t, dtype=dtype) if dtype is not source else t for t in tiles)
        out = float64 if dtype is float64 else float32
        acc = k.constant(1, out, (m, n))
        k.store_tile(k.array("found", out, 2), k.emit(Mma, x, y, acc), zeros(k, 2))
        arrays = {name: whole_numbers(source, shape, 3) for name, shape in shapes.items()}
        compare_on(BACKEND, k.function(), **arrays, found=np.zeros((m, n), out.storage))
