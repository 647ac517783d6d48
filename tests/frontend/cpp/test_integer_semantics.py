"""Section 2.2 on integers: each operator and function, wherever it is defined, against the formulas of the reference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from cpp_harness import C_TYPES, PREAMBLE, run

from tilewright.frontend.cpp.module import Module


class Integer:
    """An integer type: ``bits`` of it, signed or not."""

    def __init__(self, dtype: str) -> None:
        self.dtype = np.dtype(dtype)
        self.bits = 1 if dtype == "bool" else self.dtype.itemsize * 8
        self.signed = self.dtype.kind == "i"
        self.least = -(1 << self.bits - 1) if self.signed else 0
        self.greatest = (1 << self.bits - self.signed) - 1

    def wrapped(self, x: int) -> int:
        return (x - self.least) % (1 << self.bits) + self.least

    def value(self, x: int) -> int | None:
        """The result ``x`` of an operation that wraps when unsigned and is undefined when signed."""
        return x if self.least <= x <= self.greatest else None if self.signed else self.wrapped(x)

    def samples(self) -> list[int]:
        near = [self.least, self.least + 1, -7, -2, -1, 0, 1, 2, 3, 5, self.bits - 1, self.bits, self.greatest - 1]
        inside = [x for x in (*near, self.greatest) if self.least <= x <= self.greatest]
        return list(dict.fromkeys(inside))


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def high_bits(t: Integer, a: int, b: int) -> int:
    modulus = 1 << t.bits
    return t.wrapped(a % modulus * (b % modulus) >> t.bits)


# What an operation gives for two elements of a type; None where that is undefined.
Formula = Callable[[Integer, int, int], "int | None"]
NUMBERS: dict[str, Formula] = {
    "a + b": lambda t, a, b: t.value(a + b),
    "ct::add(a, b)": lambda t, a, b: t.value(a + b),
    "a - b": lambda t, a, b: t.value(a - b),
    "a * b": lambda t, a, b: t.value(a * b),
    "-a": lambda t, a, b: t.value(-a),
    "a / b": lambda t, a, b: t.value(quotient(a, b)) if b else None,
    "a % b": lambda t, a, b: a - quotient(a, b) * b if b and t.value(quotient(a, b)) is not None else None,
    "ct::remainder(a, b)": lambda t, a, b: (
        a - quotient(a, b) * b if b and t.value(quotient(a, b)) is not None else None
    ),
    "ct::ceildiv(a, b)": lambda t, a, b: t.value(-(-a // b)) if b else None,
    "ct::floordiv(a, b)": lambda t, a, b: t.value(a // b) if b else None,
    "a & b": lambda t, a, b: a & b,
    "a | b": lambda t, a, b: a | b,
    "a ^ b": lambda t, a, b: a ^ b,
    "ct::max(a, b)": lambda t, a, b: max(a, b),
    "ct::min(a, b)": lambda t, a, b: min(a, b),
    "ct::abs(a)": lambda t, a, b: t.value(abs(a)),
    "ct::mulhi(a, b)": high_bits,
}
NOT_OF_BOOL: dict[str, Formula] = {
    "~a": lambda t, a, b: t.wrapped(~a),
    "a << b": lambda t, a, b: t.wrapped(a << b) if 0 <= b < t.bits else None,
    "a >> b": lambda t, a, b: a >> b if 0 <= b < t.bits else None,
}
PREDICATES: dict[str, Formula] = {
    "a == b": lambda t, a, b: a == b,
    "a != b": lambda t, a, b: a != b,
    "a < b": lambda t, a, b: a < b,
    "a <= b": lambda t, a, b: a <= b,
    "a > b": lambda t, a, b: a > b,
    "a >= b": lambda t, a, b: a >= b,
    "a && b": lambda t, a, b: bool(a and b),
    "a || b": lambda t, a, b: bool(a or b),
    "!a": lambda t, a, b: not a,
}

LENGTH = 32
TYPES = ("bool", "int8", "uint8", "int32", "uint64")


def formulas(dtype: str) -> dict[str, Formula]:
    return {**NUMBERS, **({} if dtype == "bool" else NOT_OF_BOOL), **PREDICATES}


def kernel(dtype: str) -> str:
    """A kernel that evaluates expression j on row j of its operands."""
    c = C_TYPES[dtype]
    rows = "\n".join(
        f"    {{ auto a = ct::load(x + {j * LENGTH} + i), b = ct::load(y + {j * LENGTH} + i); auto r = {expression}; "
        f"static_assert(__is_same(ct::tile_element_t<decltype(r)>, {'bool' if expression in PREDICATES else c})); "
        f"ct::store(out + {j * LENGTH} + i, ct::element_cast<{c}>(r)); }}"
        for j, expression in enumerate(formulas(dtype))
    )
    index = f"auto i = ct::iota<ct::tile<int, ct::shape<{LENGTH}>>>();"
    return f"__tile_global__ void {dtype}_({c} const* x, {c} const* y, {c}* out) {{\n    {index}\n{rows}\n}}"


def test_integers() -> None:
    kernels = Module(PREAMBLE + "\n".join(map(kernel, TYPES))).load(*(f"{dtype}_" for dtype in TYPES))
    for dtype, k in zip(TYPES, kernels):
        t = Integer(dtype)
        table = formulas(dtype)
        pairs = [(a, b) for a in t.samples() for b in t.samples()]
        pairs = pairs[:: len(pairs) // LENGTH + 1]
        pairs += [(t.wrapped(a * 7919), t.wrapped(a * a + 3)) for a in range(LENGTH - len(pairs))]
        # Where one is undefined, another pair stands in.
        used = [[p if f(t, *p) is not None else (1, 1) for p in pairs] for f in table.values()]
        want = np.array([[f(t, *p) for p in row] for f, row in zip(table.values(), used)], t.dtype)
        x, y = (np.array([[p[side] for p in row] for row in used], t.dtype) for side in (0, 1))
        out = np.zeros_like(want)
        run(k, (1,), x, y, out)
        for expression, got, expected in zip(table, out, want):
            np.testing.assert_array_equal(got, expected, err_msg=f"{expression} on {dtype}")
