"""An operation on constants that have a dtype gives what it gives on loaded tiles of one element, wherever it is used."""

from __future__ import annotations

import itertools
import linecache
import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as ct
from tests.support.tile_code import gives

INTEGERS = tuple(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64))
FLOATS = ("float16", "bfloat16", "float32", "float64")
ALL = ("bool_", *INTEGERS, *FLOATS)

ARITHMETIC = ("+", "-", "*", "//", "%", "/")
COMPARISONS = ("<", "<=", "==", "!=")
BITWISE = ("&", "|", "^")
CALLS = ("ct.minimum({}, {})", "ct.maximum({}, {}, propagate_nan=True)", "min({}, {})", "ct.where({}, {}, {})")
UNARY = ("-{}", "abs({})", "~{}", "+{}", "not {}", "ct.bitwise_not({})", "ct.floor({})", "ct.isnan({})")
TRUTH = ("~bool({})", "~(not {})", "~({} and True)", "~({} or False)", "~(True and {})", "~({0} == {0})")

# What becomes of a value; each gives a number.
USES = (
    "1 if r else 2",
    "ct.where(r, 1, 2)",
    "2 if not r else 1",
    "1 if r and r else 2",
    "1 if (r or False) else 2",
    "taken(r)",
    "repeated(r)",
)
HELPERS = """
def taken(r):
    if r:
        return 1
    return 2


def repeated(r):
    n = 0
    while r:
        n = n + 1
        if n > 2:
            break
    return n
"""


def storage(dtype: str) -> Any:
    return np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype.rstrip("_"))


def values(dtype: str) -> list[Any]:
    if dtype == "bool_":
        return [True, False]
    if dtype in FLOATS:
        return [0.0, -0.0, 0.1, -2.5, 7.0, float("inf"), float("nan")]
    info = np.iinfo(dtype)
    return [0, 1, 3, info.max, info.min, -2 if info.min else 6]


def spelled(value: Any) -> str:
    return repr(value) if isinstance(value, (bool, int)) or np.isfinite(value) else f"'{value}'"


def compare(expressions: list[str], dtypes: list[str], rows: list[tuple[Any, ...]]) -> None:
    """``expressions`` of a, b, c, of the dtypes, with the values of each of ``rows``: as constants and as loaded tiles."""
    arrays = [np.array([row[i] for row in rows], dtype=object).astype(storage(d)) for i, d in enumerate(dtypes)]
    lines = [f"    {name}{i} = ct.load({name}, ({i},), ())" for name, _ in zip("abc", dtypes) for i in range(len(rows))]
    places, stored = 0, []
    for number, (form, (i, row)) in enumerate(itertools.product(expressions, enumerate(rows))):
        constants = [f"ct.{d}({spelled(v)})" for d, v in zip(dtypes, row)]
        loaded = [f"{name}{i}" for name, _ in zip("abc", dtypes)]
        # Two uses of each value: within five rows an expression has them all. They are small numbers: one store has both.
        first, second = (USES[(number + k) % len(USES)] for k in (0, 3))
        uses = "ct.astype(r, ct.float64)", f"10 * ({first}) + ({second})"
        for target, operands in (("x", constants), ("y", loaded)):
            lines.append(f"    r = {form.format(*operands)}")
            lines += [f"    ct.store({target}, ({places + k},), {use})" for k, use in enumerate(uses)]
        stored += [(form, row, use) for use in uses]
        places += len(uses)
    parameters = ", ".join(["abc"[i] for i in range(len(dtypes))])
    source = f"{HELPERS}\n\ndef kernel({parameters}, x, y):\n" + "\n".join(lines) + "\n"
    filename = f"<constants {len(linecache.cache)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    namespace: dict[str, Any] = {"ct": ct}
    exec(compile(source, filename, "exec"), namespace)
    x, y = np.zeros(places), np.zeros(places)
    ct.launch(None, (1,), ct.kernel(namespace["kernel"]), (*arrays, x, y), backend="reference")
    wrong = np.flatnonzero(~((x == y) & (np.signbit(x) == np.signbit(y)) | (np.isnan(x) & np.isnan(y))))
    if wrong.size:
        form, row, use = stored[wrong[0]]
        raise AssertionError(f"{form} of {dtypes} {row}, {use}: {x[wrong[0]]} of constants, {y[wrong[0]]} of tiles")


def sampled(pairs: list[tuple[Any, ...]], seed: str, count: int = 5) -> list[tuple[Any, ...]]:
    return random.Random(seed).sample(pairs, min(count, len(pairs)))


@pytest.mark.parametrize("dtype", ALL)
def test_two_operands(dtype: str) -> None:
    pairs = list(itertools.product(values(dtype), repeat=2))
    forms = [f"({{}} {op} {{}})" for op in COMPARISONS]
    if dtype != "bool_":
        forms += [f"({{}} {op} {{}})" for op in ARITHMETIC if op not in ("//", "%", "/") or dtype in FLOATS]
        forms += list(CALLS[:3])
    if dtype not in FLOATS:
        forms += [f"({{}} {op} {{}})" for op in BITWISE]
    compare(forms, [dtype, dtype], sampled(pairs, dtype))
    if dtype in INTEGERS:
        small = [(a, b) for a, b in pairs if b in (1, 3, 6)]
        forms = ["({} // {})", "({} % {})", "ct.cdiv({}, {})", "({} << {})", "({} >> {})", "({} / {})"]
        compare(forms, [dtype, dtype], sampled(small, dtype))


@pytest.mark.parametrize("dtype", ALL)
def test_one_operand(dtype: str) -> None:
    rows = [(v,) for v in values(dtype)]
    left_out = ("~", "bitwise_not") if dtype in FLOATS else ("floor", "isnan")
    compare([form for form in UNARY if not any(part in form for part in left_out)], [dtype], rows)
    compare(list(TRUTH), [dtype], rows[:3])


@pytest.mark.parametrize("dtype", ALL)
def test_conversions(dtype: str) -> None:
    forms = itertools.cycle(["ct.astype({{}}, ct.{})", "{{}}.astype(ct.{})", "ct.{}({{}})"])
    made = {target: next(forms).format(target) for target in ALL}
    compare(list(made.values()), [dtype], [(v,) for v in (*values(dtype), *([-0.1, 3e4] if dtype in FLOATS else []))])


@pytest.mark.parametrize(
    "pair", [("int8", "int64"), ("bool_", "int16"), ("int32", "float16"), ("float16", "float64")], ids=str
)
def test_operands_of_two_dtypes(pair: tuple[str, str]) -> None:
    rows = sampled([(a, b) for a in values(pair[0]) for b in values(pair[1])], str(pair), 6)
    compare(["({} + {})", "({} < {})", "({} * {})", "ct.maximum({}, {})"], list(pair), rows)
    compare(["({0} + {1} - 1)", "(2 * {0} == {1})", "(True if {0} else {1} > 0)"], list(pair), rows)


@pytest.mark.parametrize("dtype", ALL)
def test_a_choice(dtype: str) -> None:
    rows = sampled(list(itertools.product(values(dtype), repeat=3)), dtype, 6)
    compare(["ct.where({}, {}, {})", "({1} if {0} else {2})"], [dtype] * 3, rows)


def test_numbers_are_those_of_python() -> None:
    @ct.kernel
    def kernel(out: Any) -> None:
        ct.store(out, (0,), 1 if ~True else 2)  # -2
        ct.store(out, (1,), -7 // 2)
        ct.store(out, (2,), 1 if 0.1 else 2)

    out = np.zeros(3, np.int32)
    ct.launch(None, (1,), kernel, (out,), backend="reference")
    assert out.tolist() == [1, -4, 1]


def test_an_integer_constant_divided_by_zero_is_an_error() -> None:
    @ct.kernel
    def kernel(out: Any) -> None:
        ct.store(out, (0,), ct.int32(3) % ct.int32(0))

    with pytest.raises(ct.TileValueError, match="divided by the constant 0"):
        ct.launch(None, (1,), kernel, (np.zeros(1, np.int32),))


def test_a_constant_keeps_its_dtype_and_wraps() -> None:
    def decided() -> Any:
        strict = ct.bool_(0.5)
        chosen = ct.int8(3) if strict and ct.float16(0.25).astype(ct.bool_) else ct.int8(4)
        ct.static_assert(ct.ensure_constant(~strict) == False)  # noqa: E712 - a value of tile code
        return ct.int8(100) + chosen * 10, ct.int32(3) ** 41, ct.int32(-3) ** -1, ct.int32(1e10)

    gives(decided, (np.int8(-126), np.int32(3**41 % 2**32), np.int32(0), np.int32(10**10 % 2**32)))


def test_paths_that_agree_on_a_constant_keep_it() -> None:
    def joined(x: Any) -> Any:
        if x > 0:
            n = ct.int32(4)
        else:
            n = ct.int32(4)
        return ct.full(n, n, ct.int32)

    gives(joined, np.full(4, 4, np.int32), 1)


def test_constants_beside_integers_that_do_not_hold_them_divide_as_floats() -> None:
    pixels = np.array([0, 51, 128, 255], np.uint8)
    divided = (pixels / np.float32(256), np.float32(-300) / pixels[1:].astype(np.float32)[[0, 0]])
    gives(lambda x, y: (x / 256, -300 / y), divided, pixels, pixels[[1, 1]])


def test_formats_without_arithmetic_are_compared_with_constants() -> None:
    weights = np.array([-2, 0, 0.5, 300], ml_dtypes.float8_e4m3fn)
    wide = weights.astype(np.float32)
    gives(lambda w: (w > 0, w == 0.5, w >= 300), (wide > 0, wide == 0.5, wide >= 288), weights)  # 300 rounds to 288

    def summed(w: Any) -> Any:
        return w + (-1)

    with pytest.raises(ct.TileTypeError, match="float8_e4m3fn has no arithmetic"):
        gives(summed, wide, weights)
