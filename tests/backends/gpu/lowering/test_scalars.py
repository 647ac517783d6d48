"""Every elementwise op in every dtype and mode as PTX, in an interpreter of PTX, against the reference's semantics."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from support import values
from support.accuracy import BOUNDS, FUNCTIONS, exact_values, largest_error
from support.accuracy import samples as function_samples
from support.ptx.elements import apply, ptx_of
from support.values import all_values, integers

from tilewright.backends.gpu.lowering.scalars import PREPARED, RULES
from tilewright.ir import dtypes
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Op
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import CmpPredicate, RoundingMode
from tilewright.ir.location import Loc
from tilewright.ir.opdef import OPS, IRError
from tilewright.ir.ops import arith, floats
from tilewright.ir.semantics import evaluate
from tilewright.ir.types import TileType

RN, RZ, RM, RP = RoundingMode.RN, RoundingMode.RZ, RoundingMode.RM, RoundingMode.RP
FULL, APPROX = RoundingMode.FULL, RoundingMode.APPROX
SIZE = 1200
STEP = 8  # of the samples of functions
ROUNDED = (arith.Add, arith.Sub, arith.Mul, arith.Div, arith.Sqrt, arith.Fma)
FUNCTION_OPS = {
    cls.spec.name: cls
    for cls in (floats.Exp, floats.Exp2, floats.Log, floats.Log2, floats.Sin, floats.Cos, floats.Tan, floats.Sinh,
                floats.Cosh, floats.Tanh, floats.Rsqrt, floats.Pow, floats.Atan2)
}  # fmt: skip
NUMBERS = (dtypes.bool_, *dtypes.INTEGERS, *dtypes.FLOATS)


def samples(dtype: DType, count: int) -> list[np.ndarray[Any, Any]]:
    """``count`` arrays: random values, and pairs of special ones."""
    if dtype.is_bool:
        return [np.random.default_rng(i).random(64) < 0.5 for i in range(count)]
    make = values.floats if dtype.is_floating else integers
    found = [make(dtype, SIZE, seed) for seed in range(count)]
    if dtype.is_integer and count > 1:
        special = np.array([dtype.min, dtype.max, 0, 1, 2, dtype.bitwidth, dtype.max - 1], dtype.storage)
        extra = np.concatenate([special, np.array([-1], dtype.storage)]) if dtype.is_signed else special
        grids = np.meshgrid(*[extra] * count)
        found = [np.concatenate([x, g.ravel()]) for x, g in zip(found, grids)]
    return found


def assert_same(got: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], dtype: DType, operands: Any) -> None:
    """Bit for bit, but NaN is NaN."""
    unsigned = f"u{dtype.bytes}"
    same = np.ascontiguousarray(got).view(unsigned) == np.ascontiguousarray(wanted).view(unsigned)
    if dtype.is_floating and dtype.short != "f8e5m3fnu":
        with np.errstate(all="ignore"):
            same |= np.isnan(got.astype(np.float64)) & np.isnan(wanted.astype(np.float64))
    if not same.all():
        i = int(np.flatnonzero(~same)[0])
        raise AssertionError(
            f"{(~same).sum()} of {same.size} differ: {[x[i] for x in operands]} give {got[i]}, not {wanted[i]}"
        )


def check(cls: type[Op], types: tuple[DType, ...], *, operands: Any = None, **attributes: Any) -> None:
    if operands is None:
        operands = samples(types[-1], len(types))
        if types[0] is not types[-1]:
            operands[0] = np.random.default_rng(9).random(operands[1].size) < 0.5
    got = apply(cls, *operands, dtypes=types, **attributes)
    result = attributes["dtype"] if cls in (arith.Cast, arith.Bitcast) else types[-1]
    result = dtypes.bool_ if cls in (arith.Cmp, floats.IsNan, floats.IsInf) else result
    wanted = evaluate(cls.spec.name, types[-1], attributes, operands)
    if result is dtypes.float4_e2m1fn and types[0].is_floating:  # a zero, whose sign is not that of the NaN on GPUs
        with np.errstate(all="ignore"):
            nan = np.isnan(operands[0].astype(np.float64))
        assert (np.abs(got[nan].astype(np.float64)) == 0).all()
        got, wanted, operands = got[~nan], wanted[~nan], [x[~nan] for x in operands]
    assert_same(got, wanted, result, operands)


def legal(classes: Iterable[type[Op]], types: Iterable[DType], **attributes: Any) -> list[Any]:
    """The pairs of ``classes`` and ``types`` that Tile IR has."""
    found = []
    for cls, dtype in itertools.product(classes, types):
        block = Block((TileType(dtype),) * len(cls.spec.operands))
        try:
            Builder(block, Loc("legal.py", 1)).emit_op(cls, *block.args, **attributes)
        except IRError:
            continue
        found.append(pytest.param(cls, dtype, id=f"{cls.spec.name}-{dtype}"))
    return found


PLAIN = (arith.Add, arith.Sub, arith.Mul, arith.Max, arith.Min, arith.And, arith.Or, arith.Xor, arith.Shl, arith.Shr,
         arith.MulHi, arith.Neg, arith.Abs, arith.Not, floats.Floor, floats.Ceil, floats.IsNan, floats.IsInf)  # fmt: skip


def test_every_elementwise_op_has_a_rule() -> None:
    assert {cls for cls in OPS.values() if cls.spec.elementwise} == {*RULES, *PREPARED}
    assert not RULES.keys() & PREPARED.keys()


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
@pytest.mark.parametrize("cls", ROUNDED, ids=lambda c: c.spec.name)
def test_rounding(cls: type[Op], dtype: DType) -> None:
    count = len(cls.spec.operands)
    for mode in (RN, RZ, RM, RP):
        check(cls, (dtype,) * count, rounding=mode)
    if dtype is dtypes.float32:
        for mode in (RN, RZ, RM, RP):
            check(cls, (dtype,) * count, rounding=mode, flush_to_zero=True)


@pytest.mark.parametrize(("cls", "dtype"), legal(PLAIN, NUMBERS))
def test_plain(cls: type[Op], dtype: DType) -> None:
    check(cls, (dtype,) * len(cls.spec.operands))


@pytest.mark.parametrize("mode", (RZ, RM, RP), ids=lambda m: m.name)
@pytest.mark.parametrize(
    ("cls", "dtype"),
    [*legal([arith.Div], (dtypes.bool_, *dtypes.INTEGERS), rounding=RZ), *legal([arith.Rem], NUMBERS)],
)
def test_division(cls: type[Op], mode: RoundingMode, dtype: DType) -> None:
    check(cls, (dtype, dtype), rounding=mode)


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
@pytest.mark.parametrize("cls", (arith.Max, arith.Min), ids=lambda c: c.spec.name)
def test_extrema(cls: type[Op], dtype: DType) -> None:
    for nan in (False, True):
        check(cls, (dtype, dtype), propagate_nan=nan)
        if dtype is dtypes.float32:
            check(cls, (dtype, dtype), propagate_nan=nan, flush_to_zero=True)


@pytest.mark.parametrize("dtype", dtypes.ALL_DTYPES, ids=str)
def test_comparison_and_selection(dtype: DType) -> None:
    for predicate in CmpPredicate:
        check(arith.Cmp, (dtype, dtype), predicate=predicate)
    check(arith.Select, (dtypes.bool_, dtype, dtype))


@pytest.mark.parametrize("source", [d for d in dtypes.ALL_DTYPES if d.short != "f8e5m3fnu"], ids=str)
def test_conversions(source: DType) -> None:
    operands = [all_values(source) if source.bitwidth <= 16 else samples(source, 1)[0]]
    for target in dtypes.ALL_DTYPES:
        if target.short == "f8e5m3fnu":
            continue
        check(arith.Cast, (source,), operands=operands, dtype=target)
        if source.is_floating and target.is_floating and target.bitwidth < source.bitwidth:
            for mode in (RZ, RP) if target.short == "f8e8m0fnu" else (RZ, RM, RP):
                check(arith.Cast, (source,), operands=operands, dtype=target, rounding=mode)


@pytest.mark.parametrize("source", [d for d in dtypes.ALL_DTYPES if not d.is_bool], ids=str)
def test_bitcasts(source: DType) -> None:
    operands = [all_values(source) if source.bitwidth <= 16 else samples(source, 1)[0]]
    for target in dtypes.ALL_DTYPES:
        if (
            target.bitwidth == source.bitwidth
            and not target.is_bool
            and not (source.is_integer and target.is_restricted)
        ):
            check(arith.Bitcast, (source,), operands=operands, dtype=target)


def _op_of(name: str) -> tuple[type[Op], dict[str, Any]]:
    base, _, mode = name.partition(", ")
    attributes: dict[str, Any] = {"flushed": {"flush_to_zero": True}, "APPROX": {"rounding": APPROX}, "FULL": {"rounding": FULL}}.get(mode, {})  # fmt: skip
    return {"truediv": arith.Div, "sqrt": arith.Sqrt, **FUNCTION_OPS}[base], attributes


@pytest.mark.parametrize(
    ("name", "dtype"), [(n, d) for n, f in FUNCTIONS.items() for d in f.dtypes() if d.bitwidth >= 32]
)
def test_accuracy(name: str, dtype: DType) -> None:
    function = FUNCTIONS[name]
    operands = tuple(x[::STEP] for x in function_samples(name, dtype))
    cls, attributes = _op_of(name)
    got = apply(cls, *operands, dtypes=(dtype,) * len(operands), **attributes)
    largest, where = largest_error(got, *exact_values(name, dtype, STEP), dtype, operands, function.flushed)
    bound = BOUNDS["gpu"][name][dtype.short]
    assert largest <= bound, f"{largest:.3f} ulp at {where}, more than {bound}"


@pytest.mark.parametrize("dtype", (dtypes.float16, dtypes.bfloat16), ids=str)
@pytest.mark.parametrize("name", [n for n in FUNCTION_OPS if n not in ("pow", "atan2")])
def test_sixteen_bits(name: str, dtype: DType) -> None:
    """The float32 result, rounded."""
    x = all_values(dtype)[::STEP]
    wide = apply(FUNCTION_OPS[name], x.astype(np.float32), dtypes=(dtypes.float32,))
    with np.errstate(all="ignore"):
        assert_same(apply(FUNCTION_OPS[name], x, dtypes=(dtype,)), wide.astype(dtype.storage), dtype, [x])


def test_nothing_is_contracted() -> None:
    """Products and sums say that they round, or ptxas would make one operation of both."""
    assert "mul.rn.f32" in ptx_of(arith.Mul, dtypes.float32, dtypes.float32)
    assert "add.rn.f64" in ptx_of(arith.Add, dtypes.float64, dtypes.float64)
    assert "div.full.f32" in ptx_of(arith.Div, dtypes.float32, dtypes.float32, rounding=FULL)
