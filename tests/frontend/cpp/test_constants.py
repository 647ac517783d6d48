"""Constant wrappers, literals, permutations and ranges, against the same written in Python (sections 2.13 and 2.14)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from itertools import permutations, product

from cpp_harness import PREAMBLE

from tilewright.frontend.cpp.module import Module

VALUES = {  # C++ spelling -> value and type
    "0": (0, "int"),
    "-3": (-3, "int"),
    "7": (7, "int"),
    "5u": (5, "unsigned"),
    "true": (1, "bool"),
    "short(9)": (9, "short"),
    "'a'": (97, "char"),
    "-2l": (-2, "long"),
    "6ul": (6, "unsigned long"),
    "3ll": (3, "long long"),
}
RANK = {"int": 0, "unsigned": 1, "long": 2, "unsigned long": 4, "long long": 3}
BITS = {"int": 32, "unsigned": 32, "long": 64, "long long": 64, "unsigned long": 64, "unsigned long long": 64}


def quotient(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def remainder(x: int, y: int) -> int:
    return x - y * quotient(x, y)


BINARY: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": quotient,
    "%": remainder,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
}
UNARY: dict[str, Callable[[int], int]] = {"+": operator.pos, "-": operator.neg, "~": operator.invert}
ENUMERATIONS = {  # name -> enumerators in order of their values, and how the alias of one is called
    "rounding_mode": (
        "round_ties_to_even round_toward_zero round_toward_negative round_toward_positive round_approximate round_full",
        "{}_t",
    ),
    "subnormals_rounding_mode": ("preserve_subnormals round_subnormals_to_zero", "{}_t"),
    "nan_propagation_mode": ("suppress_nan propagate_nan", "{}_t"),
    "view_padding": ("zero negative_zero positive_inf negative_inf nan", "view_padding_{}_t"),
    "memory_order": ("relaxed acquire release acq_rel", "memory_order_{}_t"),
    "thread_scope": ("system device block", "thread_scope_{}_t"),
}


def common(t: str, u: str) -> str:
    """The type of the usual arithmetic conversions of C++."""
    if {t, u} == {"unsigned long", "long long"}:
        return "unsigned long long"
    return max(promoted(t), promoted(u), key=lambda name: RANK[name])


def promoted(type: str) -> str:
    return type if type in RANK else "int"


def wrapped(value: int, type: str) -> int:
    value %= 2 ** BITS[type]
    return value if "unsigned" in type or value < 2 ** (BITS[type] - 1) else value - 2 ** BITS[type]


def literal(value: int, type: str) -> str:
    return f"({type}){value % 2 ** BITS[type]}ul"


def integral_constants() -> Iterator[str]:
    same = "__is_same(decltype({}), ct::integral_constant<{}>)"
    for text, (x, t) in VALUES.items():
        c = f"ct::integral_constant<{text}>"
        yield f"__is_same({c}::value_type, {t}) && __is_same({c}::type, {c}) && {c}::value == {text}"
        yield f"{c}{{}}() == {text} && __is_same(decltype({c}{{}}()), {t}) && noexcept({c}{{}}())"
        yield f"__is_convertible({c}, {t}) && ({t})({c}{{}}) == {text} && __is_empty({c})"
        for op, unary in UNARY.items():
            p = promoted(t)
            yield same.format(f"{op}{c}{{}}", literal(wrapped(unary(x), p), p))
        for other, (y, u) in VALUES.items():
            d = f"ct::integral_constant<{other}>"
            for op, binary in BINARY.items():
                shift = op in ("<<", ">>")
                r = promoted(t) if shift else common(t, u)
                a, b = (wrapped(x, r), y) if shift else (wrapped(x, r), wrapped(y, r))
                if (b == 0 and op in "/%") or (shift and not 0 <= b < BITS[r]):
                    continue
                yield same.format(f"{c}{{}} {op} {d}{{}}", literal(wrapped(binary(a, b), r), r))
    for text, type in [("0", "int"), ("2147483647", "int"), ("2147483648", "long"), ("9223372036854775807", "long")]:
        yield f"__is_same(decltype({text}_ic), ct::integral_constant<{text}>)"
        yield f"__is_same(decltype({text}_ic)::value_type, {type}) && noexcept({text}_ic)"
    yield "__is_same(decltype(1'234'567_ic), ct::integral_constant<1234567>)"


def enumerations() -> Iterator[str]:
    for name, (enumerators, alias) in ENUMERATIONS.items():
        count = len(enumerators.split())
        yield f"!valid_{name}<-1> && !valid_{name}<{count}> && !__is_convertible(ct::{name}, int)"
        for number, enumerator in enumerate(enumerators.split()):
            value, c = f"ct::{name}::{enumerator}", f"ct::{alias.format(enumerator)}"
            yield f"int({value}) == {number} && valid_{name}<{number}>"
            yield f"__is_same({c}, ct::{name}_constant<{value}>) && __is_same({c}::type, {c}) && __is_empty({c})"
            yield f"__is_same({c}::value_type, ct::{name}) && __is_same(decltype({c}::value), ct::{name} const)"
            yield f"{c}::value == {value} && {c}{{}}() == {value} && ct::{name}({c}{{}}) == {value}"
            yield f"__is_convertible({c}, ct::{name}) && noexcept({c}{{}}()) && noexcept(ct::{name}({c}{{}}))"
        if name != "memory_order":
            first = f"ct::{name}::{enumerators.split()[0]}"
            yield f"ct::default_{name}() == {first} && __is_same(ct::default_{name}_t, ct::{name}_constant<{first}>)"
    yield "__is_same(ct::nan_propagation_constant<ct::nan_propagation_mode::propagate_nan>, ct::propagate_nan_t)"
    for kind, orders in [("read", "relaxed acquire"), ("write", "relaxed release")]:
        for order in ENUMERATIONS["memory_order"][0].split():
            yield f"ct::{kind}_memory_order<ct::memory_order::{order}> == {str(order in orders.split()).lower()}"


def dimension_maps() -> Iterator[str]:
    for n in range(5):
        for axes in permutations(range(n)):
            m = f"ct::dimension_map<{', '.join(map(str, axes))}>"
            yield f"{m}::rank() == {n}" + "".join(f" && {m}::mapping({i}) == {axis}" for i, axis in enumerate(axes))
            if n:
                constants = ", ".join(f"{axis}_ic" for axis in axes)
                yield f"__is_same(decltype(ct::dimension_map{{{constants}}}), {m})"
    for axes in product(range(4), repeat=3):
        is_permutation = sorted(axes) == [0, 1, 2]
        yield f"maps<{', '.join(map(str, axes))}> == {str(is_permutation).lower()}"
    yield "__is_empty(ct::dimension_map<1, 0>) && !__is_convertible(int, ct::dimension_map<0>)"
    yield "noexcept(ct::dimension_map<0>()) && noexcept(ct::dimension_map<0>::mapping(0))"


def ranges() -> Iterator[str]:
    for lower, upper, step in product([-7, 0, 3], [-2, 3, 12], [1, 2, 5]):
        numbers = range(lower, upper, step)
        for type in ("int", "signed char", "long"):
            r = f"ct::irange<{type}>({lower}, {upper}, {step})"
            yield f"{r}.size() == {len(numbers)} && {r}.empty() == {str(not numbers).lower()}"
            yield f"{r}.lower_bound() == {lower} && {r}.upper_bound() == {upper} && {r}.step() == {step}"
        yield f"digest(ct::irange({lower}, {upper}, {step})) == {sum((i + 1) * n for i, n in enumerate(numbers))}"
    for type in ("int", "unsigned char", "long long"):
        r, i = f"ct::irange<{type}>", f"ct::irange_iterator<{type}>"
        yield f"__is_same({r}::iterator, {i}) && __is_same({r}::const_iterator, {i}) && __is_same({i}::value_type, {type})"
        yield f"__is_same({i}::difference_type, int64_t) && __is_same(decltype({r}(0, 1).size()), int64_t)"
        yield f"__is_same(decltype(*{r}(0, 1).begin()), {type}) && {r}(0, 9).step() == 1"
        yield f"{r}(0, 9).begin() == {i}(0, 1) && {r}(0, 9).begin() != {i}(1, 1) && {i}(9, 1) == {r}(0, 9).end()"
        yield f"*++{r}(0, 9, 4).begin() == 4 && *{r}(0, 9, 4).begin()++ == 0 && {i}(8, 4) != {r}(0, 9, 4).end()"
    yield "ct::irange<unsigned long>(0, ~0ul, 3).size() == 6148914691236517205"
    yield "ct::irange<long>(-9223372036854775807 - 1, 0, 2).size() == 1l << 62"
    yield "__is_same(decltype(ct::irange((short)1, 'a')), ct::irange<short>)"
    yield "__is_same(decltype(ct::irange(1, (short)2, 3l)), ct::irange<long>)"


DECLARATIONS = """
template <size_t... N> concept maps = requires { typename ct::dimension_map<N...>; };
template <typename R> constexpr long digest(R range) {
    long sum = 0, i = 0;
    for (auto value : range) sum += ++i * value;
    return sum;
}
"""


def test_constants_hold_at_compile_time() -> None:
    validity = [
        f"template <int N> concept valid_{name} = requires {{ typename ct::{name}_constant<ct::{name}(N)>; }};"
        for name in ENUMERATIONS
    ]
    conditions = [*integral_constants(), *enumerations(), *dimension_maps(), *ranges()]
    lines = [f"static_assert({condition});" for condition in conditions]
    text = "\n".join([PREAMBLE, DECLARATIONS, *validity, *lines, "__tile_global__ void k() {}"])
    assert Module(text).kernel("k").parameters == ()
    assert len(conditions) > 1000
