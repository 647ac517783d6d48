"""Constants, promotion, casts and the rules of operators."""

from __future__ import annotations

import linecache
import math
import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.tile_code import evaluate, gives, refuses

import tilewright as ct
from tilewright.ir.dtypes import ALL_DTYPES, FLOATS, INTEGERS, RESTRICTED_FLOATS

I32 = np.int32
TTE, TVE = ct.TileTypeError, ct.TileValueError
ARITHMETIC = (ct.bool_, *INTEGERS, *FLOATS)


def result_dtype(function: Callable[..., Any], *dtypes: ct.DType) -> ct.DType | None:
    """The dtype of ``function`` of tiles of ``dtypes``; None when it is a type error. Traced only."""
    found: list[Any] = []

    @ct.kernel
    def probe():
        given = tuple(ct.ones((2,), d) for d in ct.static_iter(dtypes))
        dtype = function(*given).dtype
        ct.static_eval(found.append(dtype))

    try:
        with ct.use_backend("reference"):
            ct.launch(None, (1,), probe, ())
    except TTE:
        return None
    return found[0]


# -- 3.1 constants


def test_scalars_are_tiles(backend: str) -> None:
    def facts(n):
        ct.static_assert((5).dtype == ct.int32 and (5).shape == () and (5).ndim == 0)
        ct.static_assert((2.5).dtype == ct.float32 and True.dtype == ct.bool_)
        ct.static_assert(
            (1 << 31).dtype == ct.int64 and (1 << 63).dtype == ct.uint64 and (-(1 << 63)).dtype == ct.int64
        )
        ct.static_assert(n.dtype == ct.int32 and n.shape == ())
        return (5).astype(ct.int8), (2.7).astype(ct.int32), (3).reshape((1,)), (n + 1).item()

    gives(facts, (np.int8(5), I32(2), np.array([3], np.int32), I32(8)), 7)


FOLDS = {
    "-7 // 2": -4,
    "-7 % 3": 2,
    "2**-1": 0.5,
    "7 / 2": 3.5,
    "divmod(-7, 2)[1]": 1,
    "divmod(ct.float16(7.5), 2) == (3, 1.5)": True,
    "True + True": 2,
    "1 << 40": 1 << 40,
    "3 & 5 | 8 ^ 2": 3 & 5 | 8 ^ 2,
    "~5": -6,
    "-(2.5)": -2.5,
    "abs(-3)": 3,
    "5 > 3": True,
    "not 5": False,
    "ct.cdiv(-7, 2)": -3,
    "min(3, 2.5)": 2.5,
    "ct.int32(7) // 2": 3,
    "ct.int32(2) ** -1": 0,
    "ct.int8(127) + ct.int8(1)": -128,
    "ct.uint8(300)": 44,
    "ct.int16(-1) >> 3": -1,
    "ct.float16(2049.0)": 2048.0,
    "ct.float32('-inf') < -1e38": True,
    "ct.int16('12')": 12,
    "ct.float32(0.1) * 1": float(np.float32(0.1)),
    "ct.int32(5) > 3": True,
    "ct.bool_(2)": True,
    "int(2.9)": 2,
    "float(ct.int32(3)) / 2": 1.5,
    "int(ct.float32(3.5))": 3,
    "ct.minimum(3, 4) + ct.add(1, 2)": 6,
    "ct.pow(2, 10)": 1024,
    "ct.negative(3)": -3,
}


@pytest.mark.parametrize("text", FOLDS)
def test_folding(text: str) -> None:
    """Constants fold while the kernel is compiled, by Python's rules; strict ones stay in their dtype."""
    from_python = ct.kernel(_define(f"def fold():\n    ct.static_assert(({text}) == {FOLDS[text]!r}, str({text}))\n"))
    with ct.use_backend("reference"):
        ct.launch(None, (1,), from_python, ())


def _define(text: str) -> Any:
    filename = f"<types {len(linecache.cache)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    names: dict[str, Any] = {"ct": ct, "np": np}
    exec(compile(text, filename, "exec"), names)
    return names["fold"]


STRICTNESS: list[tuple[Callable[..., Any], ct.DType]] = [
    (lambda: ct.int8(3) + 1, ct.int8),
    (lambda: np.int8(3) + 1, ct.int8),
    (lambda: np.float64() + ct.int32(), ct.float64),
    (lambda: ct.int8(3) + 1.5, ct.float32),
    (lambda: ct.float16(3) + 1.5, ct.float16),
    (lambda: ct.float16(3) + 1, ct.float16),
    (lambda: ct.int8(3) + ct.int16(3), ct.int16),
    (lambda: ct.int32(3) / 2, ct.float32),
    (lambda: ct.int64(3) / ct.int64(2), ct.float32),
    (lambda: ct.float64(3) / 2, ct.float64),
    (lambda: -ct.int16(3), ct.int16),
    (lambda: ct.uint8(3) << 1, ct.uint8),
    (lambda: ct.bool_(True) + 1, ct.int32),
    (lambda: 1 + 2.5, ct.float32),
    (lambda: 2**40 + 1, ct.int64),
    (lambda: ct.float64(0.1) + 0.2, ct.float64),
    (lambda: ct.int32(2) ** -1, ct.int32),
    (lambda: NUMPY_HALF + 1, ct.float64),
    (lambda: NUMPY_SCALAR + 1, ct.int16),
    (lambda: ct.int32(2).astype(ct.int8), ct.int8),
]
NUMPY_SCALAR, NUMPY_HALF = np.int16(5), np.float64(0.5)


@pytest.mark.parametrize("i", range(len(STRICTNESS)))
def test_dtypes_of_constants(i: int) -> None:
    function, dtype = STRICTNESS[i]
    assert result_dtype(function) is dtype


def test_numbers_that_do_not_fit() -> None:
    for bad in (
        lambda x: x + 128,
        lambda x: 200 * x,
        lambda x: x < 1000,
        lambda x: ct.maximum(x, -129),
        lambda x: x & 256,
    ):
        refuses(bad, TVE, np.ones(2, np.int8))
    refuses(lambda x: x - (-1) + (-1), TVE, np.ones(2, np.uint8))


# -- 3.2 promotion


def promoted(a: ct.DType, b: ct.DType) -> ct.DType | None:
    """The table of the data model, written as a rule."""
    if a is b:
        return a
    if a in RESTRICTED_FLOATS or b in RESTRICTED_FLOATS:
        return None
    rank = {ct.bool_: 0, **dict.fromkeys(INTEGERS, 1), **dict.fromkeys(FLOATS, 2)}
    if rank[a] != rank[b]:
        return max(a, b, key=lambda d: rank[d])
    if rank[a] == 1 and a.name[0] != b.name[0]:
        return None
    return None if a.bitwidth == b.bitwidth else max(a, b, key=lambda d: d.bitwidth)


@pytest.mark.parametrize("a", ALL_DTYPES, ids=str)
def test_promotion_table(a: ct.DType) -> None:
    """Both orders of operands of all pairs, through ``where``, which keeps every dtype."""
    for b in ALL_DTYPES:
        found = result_dtype(lambda x, y: ct.where(True, x, y), a, b)
        assert found is promoted(a, b), (a, b)
        if a in ARITHMETIC and b in ARITHMETIC and not (a is b is ct.bool_):
            assert result_dtype(operator.add, b, a) is promoted(a, b), (a, b)


LOOSE = [
    (ct.bool_, 1, ct.int32),
    (ct.bool_, 1.5, ct.float32),
    (ct.int8, True, ct.int8),
    (ct.int8, 1, ct.int8),
    (ct.int8, 1.0, ct.float32),
    (ct.uint64, 5, ct.uint64),
    (ct.float16, 2.5, ct.float16),
    (ct.float16, 1 << 20, ct.float16),
    (ct.bfloat16, 2.5, ct.bfloat16),
    (ct.float64, 2.5, ct.float64),
    (ct.int64, 2.5, ct.float32),
    (ct.bool_, 1 << 40, ct.int64),
]


@pytest.mark.parametrize(("dtype", "number", "wanted"), LOOSE, ids=str)
def test_promotion_with_numbers(dtype: ct.DType, number: Any, wanted: ct.DType) -> None:
    assert result_dtype(lambda x: x + number, dtype) is wanted
    assert result_dtype(lambda x: number * x, dtype) is wanted


# -- 3.3 dtypes of other libraries

FOREIGN = [
    (np.int8, ct.int8),
    (np.dtype("float64"), ct.float64),
    (np.bool_, ct.bool_),
    (ml_dtypes.bfloat16, ct.bfloat16),
    (np.dtype(ml_dtypes.float8_e4m3fn), ct.float8_e4m3fn),
    (ml_dtypes.float8_e5m2, ct.float8_e5m2),
    (ml_dtypes.float8_e8m0fnu, ct.float8_e8m0fnu),
]


@pytest.mark.parametrize(("foreign", "ours"), FOREIGN, ids=str)
def test_dtypes_of_numpy_and_ml_dtypes(foreign: Any, ours: ct.DType) -> None:
    assert result_dtype(lambda: ct.zeros((2,), foreign)) is ours
    if ours is not ct.float8_e8m0fnu:
        assert result_dtype(lambda: ct.arange(2, dtype=ct.int32).astype(foreign)) is ours


def test_what_is_no_dtype() -> None:
    for bad in ("float32", float, int, bool, np.complex64, np.dtype("M8[s]"), object, 3, None):
        refuses(lambda bad=bad: ct.zeros((2,), bad), TTE)


@pytest.mark.parametrize("dtype", [d for d in RESTRICTED_FLOATS if not d.is_signed], ids=str)
@pytest.mark.parametrize("number", [1.0, 0.0, math.inf, math.nan])
def test_formats_without_a_sign_have_no_negative_constants(dtype: ct.DType, number: float) -> None:
    assert result_dtype(lambda: ct.full((2,), number, dtype)) is dtype
    negative = math.copysign(number, -1)
    refuses(lambda: ct.full((2,), negative, dtype), TVE, match="no sign")


# -- 3.4, 3.5 arithmetic and comparisons


def test_integer_division_and_remainder(backend: str) -> None:
    x, y = np.array([7, -7, 7, -7], np.int64), np.array([2, 2, -2, -2], np.int64)
    gives(
        lambda x, y: (x // y, x % y, ct.cdiv(x, y), x / y, *divmod(x, y)),
        (x // y, x % y, -(-x // y), (x / y).astype(np.float32), x // y, x % y),
        x,
        y,
    )
    f, g = np.array([7.5, -7.5], np.float32), np.float32(2)
    gives(lambda x: (x // 2.0, x % 2.0), (f // g, f % g), f)


def test_wrapping(backend: str) -> None:
    for dtype in (np.int8, np.uint8, np.int16, np.uint32, np.int64):
        info = np.iinfo(dtype)
        x = np.array([info.max, info.min], dtype)
        with np.errstate(over="ignore"):
            gives(lambda x: (x + 1, x - 1, x * 3, -x), (x + dtype(1), x - dtype(1), x * dtype(3), dtype(0) - x), x)


def test_shifts(backend: str) -> None:
    x, u = np.array([-8, 8], np.int32), np.array([0xF0000000, 8], np.uint32)
    gives(lambda x, u: (x >> 1, u >> 4, x << 2, u << ct.uint32(3)), (x >> 1, u >> 4, x << 2, u << np.uint32(3)), x, u)


def test_powers_keep_the_base(backend: str) -> None:
    h = np.array([1.5, 2], np.float16)
    gives(lambda h: (h**2, h**-1, h ** ct.int64(3)), (h * h, 1 / h, h * h * h), h)
    found = evaluate(lambda h: h**0.5, h, h)
    np.testing.assert_allclose(found, np.sqrt(h), rtol=2e-3)


# -- 3.6 implicit casts


@pytest.mark.parametrize("target", [d for d in ALL_DTYPES if d.storage.itemsize and d is not ct.float4_e2m1fn], ids=str)
def test_implicit_casts_are_promotions(target: ct.DType) -> None:
    """Storing, padding and updating convert exactly what promotes to the array's dtype."""
    if target.name in ("tfloat32", "float8_e5m3fnu"):  # they have no arrays of their own on the host
        return
    out = np.zeros(2, target.storage)
    for source in ALL_DTYPES:
        tile = lambda source=source: ct.ones((2,), source)

        @ct.kernel
        def store(out):
            ct.store(out, 0, tile())  # noqa: B023

        @ct.kernel
        def scatter(out):
            ct.scatter(out, ct.arange(2, dtype=ct.int32), tile())  # noqa: B023

        for kernel in (store, scatter):
            allowed = promoted(source, target) is target
            try:
                with ct.use_backend("reference"):
                    ct.launch(None, (1,), kernel, (out,))
                assert allowed, (source, target)
            except TTE:
                assert not allowed, (source, target)


NUMBERS = [
    (np.int8, 127, None),
    (np.int8, 128, TVE),
    (np.int8, True, None),
    (np.int8, 1.0, TTE),
    (np.uint8, -1, TVE),
    (bool, 1, None),
    (bool, 0, None),
    (bool, 2, TTE),
    (bool, 1.0, TTE),
    (np.float16, 1, None),
    (np.float16, 1e9, None),
    (np.float32, True, None),
    (np.int64, 1 << 63, TVE),
    (np.uint64, 1 << 63, None),
]


@pytest.mark.parametrize(("dtype", "number", "error"), NUMBERS, ids=str)
def test_numbers_cast_implicitly_in_range(dtype: Any, number: Any, error: Any) -> None:
    out = np.zeros(1, dtype)

    @ct.kernel
    def store(out):
        ct.store(out, 0, number)

    if error is not None:
        refuses(lambda out: ct.store(out, 0, number), error, out, load=False)
        return
    with ct.use_backend("reference"), np.errstate(all="ignore"):
        ct.launch(None, (1,), store, (out,))
        assert out[0] == np.array([number]).astype(dtype)[0]


# -- explicit casts and their rounding modes


def test_explicit_casts(backend: str) -> None:
    i = np.array([300, -1, 0, 127], np.int32)
    f = np.array([2.7, -2.7, 0.0, 1e6], np.float32)
    gives(
        lambda i, f: (
            i.astype(ct.uint8),
            i.astype(ct.int64),
            i.astype(ct.bool_),
            f.astype(ct.int32),
            f.astype(ct.bool_),
            (i > 0).astype(ct.float32),
        ),
        (i.astype(np.uint8), i.astype(np.int64), i != 0, f.astype(np.int32), f != 0, (i > 0).astype(np.float32)),
        i,
        f,
    )


def rounds(mode: str, s: ct.DType, d: ct.DType) -> bool:
    """Which float-to-float casts take which mode."""
    narrow = ("float16", "bfloat16", "float8_e5m2", "float8_e4m3fn", "float4_e2m1fn")
    e8 = "float8_e8m0fnu"
    if mode == "RN":
        return d.name != e8
    if mode == "RZ":
        return d.name in ("float64", "float32", "tfloat32", "float16", "bfloat16", e8)
    if mode in ("RM", "RP"):
        if mode == "RP" and d.name == e8:
            return True
        return (
            d.name == "float64" or (d.name == "float32" and s.name != e8) or (d.name == "float16" and s.name in narrow)
        )
    if mode == "RA":
        wide = d.name in ("float32", "tfloat32") and s.name not in ("float64", e8)
        return d.name == "float64" or wide or (d.name == "float16" and s.name in narrow)
    return False


@pytest.mark.parametrize("mode", [m.name for m in ct.RoundingMode])
def test_rounding_modes_of_casts(mode: str) -> None:
    floats = [d for d in (*FLOATS, *RESTRICTED_FLOATS) if d.name != "float8_e5m3fnu"]
    for source in floats:
        for target in floats:
            cast = lambda x, target=target: x.astype(target, rounding_mode=ct.RoundingMode[mode])
            assert (result_dtype(cast, source) is target) == rounds(mode, source, target), (source, target)
    for source, target in ((ct.int32, ct.float32), (ct.float32, ct.int32), (ct.bool_, ct.float16)):
        assert result_dtype(lambda x, target=target: x.astype(target, rounding_mode=mode), source) is None


# -- 3.8 modes of operations

FLOAT_MODES: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("add", "sub", "mul", "sum", "prod", "cumsum", "cumprod"), ("RN RZ RM RP", "")),
    "truediv": ("RN RZ RM RP", "FULL APPROX"),
    "sqrt": ("RN RZ RM RP", "APPROX"),
    "exp": ("", "FULL APPROX"),
    "tanh": ("", "FULL APPROX"),
}


@pytest.mark.parametrize("name", FLOAT_MODES)
def test_rounding_modes_of_operations(name: str) -> None:
    function = getattr(ct, name)
    every, single = (modes.split() for modes in FLOAT_MODES[name])
    for mode in ct.RoundingMode:
        for dtype in (*FLOATS, ct.int32):
            if name in ("add", "sub", "mul", "truediv"):
                apply = lambda x, mode=mode: function(x, x, rounding_mode=mode)
            else:
                apply = lambda x, mode=mode: function(x, rounding_mode=mode)
            allowed = (mode.name in every and dtype in FLOATS) or (mode.name in single and dtype is ct.float32)
            if dtype is ct.int32 and name in ("truediv", "sqrt", "exp", "tanh"):
                allowed = mode.name in (*every, *single)  # integers become float32 first
            assert (result_dtype(apply, dtype) is not None) == allowed, (name, mode, dtype)


FLUSHED = [
    "add",
    "sub",
    "mul",
    "truediv",
    "minimum",
    "maximum",
    "sum",
    "prod",
    "max",
    "min",
    "cumsum",
    "cumprod",
    "sqrt",
    "rsqrt",
    "exp2",
]


@pytest.mark.parametrize("name", FLUSHED)
def test_flush_to_zero_is_for_float32(name: str) -> None:
    function = getattr(ct, name)
    two = name in ("add", "sub", "mul", "truediv", "minimum", "maximum")
    for dtype in FLOATS:
        found = result_dtype(lambda x: function(*((x, x) if two else (x,)), flush_to_zero=True), dtype)
        assert (found is not None) == (dtype is ct.float32), dtype


# -- 3.9 NaN


def test_folding_of_nan() -> None:
    """Constants follow the rule of tiles: a NaN is dropped."""
    nan = float("nan")
    with ct.use_backend("reference"):
        gives(lambda: (ct.maximum(nan, 1.0), ct.minimum(1.0, nan)), (np.float32(1), np.float32(1)))
