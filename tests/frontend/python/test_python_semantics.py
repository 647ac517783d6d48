"""Functions of integers give the same result as tile code and as ordinary Python."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as ct

LIMIT = 12
INPUTS = ((0, 1), (1, 0), (3, 5), (7, 7), (12, 4), (25, 3))


def branches(a, b):
    if a > b:
        r = a - b
    elif a == b:
        r = 100
    else:
        r = b
    return r


def nested_loops(a, b):
    total = 0
    for i in range(a):
        for j in range(1, b + 1, 2):
            if j == 3:
                continue
            total += i * j
            if total > 50:
                break
    return total


def while_loop(a, b):
    n = 0
    while a > 0 and n < 20:
        a = a - b - 1
        n += 1
        if n == 7:
            break
    return n * 100 + a


def while_true(a, b):
    x = a
    while True:
        x += 3
        if x > 20:
            y = x * 2
            break
        if x % 5 == b % 5:
            y = -x
            break
    return y


def early_returns(a, b):
    if a == 3:
        return 33
    for i in range(b):
        if i == a:
            return i * 10
        for j in range(3):
            if i * j == 4:
                return 444
    if b > 4:
        return b
    return a + b


def return_in_while(a, b):
    while a < 30:
        if a % 7 == 6:
            return a
        a += b + 1
    return -a


def helper_chain(a, b):
    def square(x, *, scale=2):
        return x * x * scale

    add = lambda x, y=1: x + y
    return add(square(a), b) + add(early_returns(a, b)) + square(b, scale=3)


def closure_sees_latest(a, b):
    k = 1
    f = lambda x: x + k
    k = a
    return f(b)


def short_circuit(a, b):
    x = a > 2 and b > 2
    y = a == 0 or b == 0
    z = not (a < b)
    return (1 if x else 0) + (10 if y else 0) + (100 if z else 0)


def chained(a, b):
    return (1 if 0 < a < b <= LIMIT else 0) + (10 if a != b != 3 else 0)


def conditional_expression(a, b):
    return (a if a > b else b) * (2 if LIMIT > 3 else a)


def tuples(a, b):
    pair = (a, b)
    x, (y, z) = pair[1], (pair[0], 5)
    p, q = q, p = x + y, z
    for _ in range(2):
        x, y = y, x + 1
    t = pair + (x, y)
    return t[-1] * 1000 + t[1:3][0] * 100 + p + q + len(t)


def augmented(a, b):
    a += 2
    a *= 3
    a -= b
    a //= 2
    a %= 11
    a <<= 2
    a |= 1
    a ^= b
    a &= 63
    return a


def min_max_abs(a, b):
    return max(a, b) * 10 + min(a, b) + abs(a - b) + divmod(a, 5)[0]


def star_arguments(a, b):
    def collect(*values, **named):
        total = named.get("start", 0)
        for v in ct.static_iter(values):
            total += v
        return total + (7 if "other" in named else 0)

    args = (a, b, 3)
    return collect(*args) + collect(a, start=b) + collect(other=1)


def recursion(a, b):
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    return power(a, 3) + b


def constants_stay_constant(a, b):
    size = 2
    for _ in range(a):
        size = 2
    return ct.sum(ct.full((size * 2,), 1, ct.int32)) + b


def flags(a, b):
    found = False
    where = -1
    for i in range(a):
        if i * i > b and not found:
            found = True
            where = i
    return where if found else -2


def static_loop(a, b):
    total = 0
    for f, k in ct.static_iter(((operator.add, 1), (operator.mul, 2))):
        total += f(a, k)
    return total + sum_of(tuple(x * b for x in ct.static_iter(range(3)) if x != 1))


def sum_of(values):
    total = 0
    for v in ct.static_iter(values):
        total += v
    return total


@dataclasses.dataclass(frozen=True)
class Point:
    x: Any
    y: Any = 2

    @property
    def norm(self):
        return self.x * self.x + self.y * self.y

    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y)

    def scaled(self, k):
        return dataclasses.replace(self, x=self.x * k)

    @staticmethod
    def origin():
        return Point(0, 0)


@dataclasses.dataclass(frozen=True)
class Marked:
    """Methods of all kinds that ``ct.function`` marks."""

    x: Any

    @ct.function(host=True)
    def scaled(self, k=2):
        return self.x * k

    @property
    @ct.function(host=True)
    def next(self):
        return self.x + 1

    @staticmethod
    @ct.function(host=True)
    def halved(x):
        return x // 2

    @classmethod
    @ct.function(host=True)
    def of(cls, x):
        return cls(x)

    @ct.function(host=True)
    def __call__(self, y):
        return self.x - y

    @ct.function(host=True)
    def __add__(self, other):
        return Marked(self.x + other.x)

    @ct.function(host=True)
    def squared(self):
        return self.x * self.x

    @ct.function
    def tripled(self):
        return self.x * 3


def marked_methods(a, b):
    p = Marked(a) + Marked.of(b)
    return p.scaled() + p.scaled(k=3) + p.next + p.halved(b) + p(a) + p.squared()


def dataclass_values(a, b):
    p = Point(a) + Point(b, a)
    if a > b:
        p = p.scaled(3)
    for _ in range(2):
        p = p + Point(1, 1)
    return p.norm + (1 if p == Point(a, b) else 0) + Point.origin().x


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2


class Level(enum.IntEnum):
    LOW = 3
    HIGH = 4


def enums(a, b):
    mode = Mode(2)
    return (a if mode == Mode.SLOW else b) + Mode.FAST.value + Level.HIGH + len(Mode.SLOW.name)


@contextlib.contextmanager
def offset(k):
    shift = k + 1
    yield shift
    shift += 1


def context_manager(a, b):
    with offset(a) as o, offset(b):
        r = o * b
    return r


def logged(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return f(*args, **kwargs) + 1

    return wrapper


@logged
def decorated(a, b):
    return a * b


def static_evaluation(a, b):
    n = ct.static_eval(sum(len(s) for s in ["ab", "cde"]))
    ct.static_assert(n == 5, "five")
    ct.static_assert("ab".upper() == "AB" and "%d" % n == "5" and f"{n}".zfill(2) == "05")  # noqa: UP031
    ct.static_assert(ct.int32.name == "int32" and ct.int32.bitwidth == 32)
    return a * n + b


def is_none(a, b):
    x = None
    y = a if x is None else b
    return y + (1 if y is not None else 0)


def membership(a, b):
    return (1 if a in (1, 3, 7) else 0) + (10 if b not in (0, 5) else 0)


def floor_arithmetic(a, b):
    return (b - 9) // 4 * 100 + (b - 9) % 4 + (a - 20) // -3 + (a - 20) % -3


def shadowed_loop_variable(a, b):
    last = -1
    for i in range(a):
        last = i
    i = b
    return last * 100 + i


def loop_variable_outlives(a, b):
    i = 77
    j = b
    for i in range(a):  # noqa: B007 - read after the loop
        pass
    for j in range(b):
        if j == 2:
            break
    return i * 100 + j


PROGRAMS: tuple[Callable[..., Any], ...] = (
    branches, nested_loops, while_loop, while_true, early_returns, return_in_while, helper_chain, closure_sees_latest,
    short_circuit, chained, conditional_expression, tuples, augmented, min_max_abs, star_arguments, recursion,
    constants_stay_constant, flags, static_loop, dataclass_values, marked_methods, enums, context_manager, decorated,
    static_evaluation, is_none, membership, floor_arithmetic, shadowed_loop_variable,
    loop_variable_outlives,
)  # fmt: skip
ON_HOST = {
    constants_stay_constant: lambda a, b: 4 + b,
    static_evaluation: lambda a, b: a * 5 + b,
    context_manager: lambda a, b: (a + 1) * b,
}


@pytest.fixture(params=["reference", "cpu", "python"], autouse=True)
def backend(request: pytest.FixtureRequest) -> Iterator[None]:
    with ct.use_backend(request.param):
        yield


@ct.kernel
def run(a, b, out, PROGRAM: ct.Constant):
    ct.store(out, (0,), PROGRAMS[PROGRAM](a, b))


@pytest.mark.parametrize("index", range(len(PROGRAMS)), ids=[p.__name__ for p in PROGRAMS])
def test_same_as_python(index: int) -> None:
    program = PROGRAMS[index]
    expected_by = ON_HOST.get(program, program)
    for a, b in INPUTS:
        out = np.zeros(1, np.int32)
        ct.launch(None, (1,), run, (a, b, out, index))
        assert out[0] == expected_by(a, b), (a, b)


# fmt: off
def awkward_layout(
    a,
b,
):
    # comment
  # another one
    text = """
not the end
"""
    return (a +
b + len(text))
# fmt: on


def test_a_marked_method_without_host_code() -> None:
    @ct.kernel
    def kernel(out):
        ct.store(out, (0,), Marked(4).tripled())

    out = np.zeros(1, np.int32)
    ct.launch(None, (1,), kernel, (out,))
    assert out[0] == 12
    with pytest.raises(RuntimeError, match="tripled"):
        Marked(4).tripled()


one_line = lambda a, b: a + b
SEVEN = 7
neighbours = (lambda a, b: min(a, b), lambda a, b: max(a, b), lambda a, b: (lambda c: c + SEVEN)(a), lambda a, b: a + b)


@pytest.mark.parametrize("program", [awkward_layout, one_line, *neighbours])
def test_source_is_found_in_any_layout(program: Callable[..., Any]) -> None:
    @ct.kernel
    def kernel(a, b, out):
        ct.store(out, (0,), program(a, b))

    out = np.zeros(1, np.int32)
    ct.launch(None, (1,), kernel, (3, 4, out))
    assert out[0] == program(3, 4)


@pytest.mark.parametrize("form", ["def program(a, b): return {}", "program = lambda a, b: {}"])
def test_source_is_that_of_a_file_written_again(form: str, tmp_path: Path) -> None:
    """Programs that generate kernels use one file for several, and modules are reloaded."""
    file = tmp_path / "generated.py"
    for body in ("a + b", "(a - b) * 3", "a"):
        file.write_text(form.format(body) + "\n")
        names: dict[str, Any] = {}
        exec(compile(file.read_text(), str(file), "exec"), names)
        test_source_is_found_in_any_layout(names["program"])
