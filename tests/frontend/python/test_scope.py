"""Names mean in tile code what they mean in Python: comprehensions, closures, locals, and what ``with`` takes."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import math
from typing import Annotated, Any

import numpy as np
import pytest

import tilewright as ct
from tests.support.tile_code import refuses, traced
from tilewright.ir.errors import UnsupportedCallError

# Expressions of tile code that are Python as well; ``x`` is 5 and ``n`` is 3 outside of them.
EXPRESSIONS = (
    "tuple(f() for f in ct.static_iter(tuple(lambda: x for x in ct.static_iter(range(3)))))",
    "tuple(f() for f in ct.static_iter(tuple(lambda: y for y in ct.static_iter(range(3)))))",
    "tuple(f() for f in ct.static_iter(tuple(lambda x=x: x for x in ct.static_iter(range(3)))))",
    "tuple((lambda: x + i)() for i in ct.static_iter(range(n)))",
    "tuple(n for n in ct.static_iter(range(n)))",
    "tuple(n * 10 + m for m in ct.static_iter(range(n)) for n in ct.static_iter(range(m)))",
    "tuple(x for i in ct.static_iter(range(n)) if i != 1) + (x,)",
    "tuple(tuple(x + n for n in ct.static_iter(range(x))) for x in ct.static_iter(range(n)))",
    "(lambda t: t + (x, n))(tuple(x for x in ct.static_iter(range(n))))",
)
UNBOUND = (
    "tuple(n for m in ct.static_iter(range(2)) for n in ct.static_iter(range(n)))",
    "tuple(m for m in ct.static_iter(range(2)) if x for x in ct.static_iter(range(2)))",
)


def flat(value: Any) -> tuple[int, ...]:
    return tuple(i for item in value for i in flat(item)) if isinstance(value, tuple) else (int(value),)


@pytest.mark.parametrize("index", range(len(EXPRESSIONS)))
def test_comprehensions_have_variables_of_their_own(index: int) -> None:
    text = EXPRESSIONS[index]
    expected = eval(text, {"ct": ct, "x": 5, "n": 3})
    found: list[Any] = []
    body = traced(f"x = 5\nn = 3\nvalue = {text}\nct.static_eval(found.append(value))", {"ct": ct, "found": found}, "")
    ct.launch(None, (1,), ct.kernel(body), (), backend="reference")
    assert flat(found[-1]) == flat(expected)


@pytest.mark.parametrize("index", range(len(UNBOUND)))
def test_a_variable_of_a_comprehension_hides_the_one_outside(index: int) -> None:
    with pytest.raises(UnboundLocalError):
        exec(f"def f():\n    x = n = 3\n    return {UNBOUND[index]}\nf()", {"ct": ct})
    refuses(
        traced(f"x = 3\nn = 3\n{UNBOUND[index]}", {"ct": ct}, ""), ct.TileSyntaxError, match="before it is assigned"
    )


@contextlib.contextmanager
def raised(n):
    yield n + 1


@contextlib.contextmanager
def without(n):
    return n


@contextlib.contextmanager
def doubled(n):
    yield n
    yield n


@contextlib.contextmanager
def perhaps(n):
    if n:
        yield n


@contextlib.contextmanager
def never(n):
    return
    yield n


@contextlib.contextmanager
def broken(n):
    while True:
        break
        yield n


@contextlib.contextmanager
def unreachable(n):
    if False:
        yield 8
    sent = yield n
    ct.static_assert(sent is None)
    for _ in range(2):
        continue
        yield 10
    while True:
        if ct.bid(0) == 0:
            break
            yield 11
        break
        yield 12
    return
    yield 9


def test_a_context_manager_is_a_value() -> None:
    found: list[Any] = []

    @ct.kernel
    def kernel():
        manager = raised(3)
        with manager as m, raised(n=m) as k:
            ct.static_eval(found.append((m, k)))

    ct.launch(None, (1,), kernel, (), backend="reference")
    assert found[-1] == (4, 5)


def test_yields_that_no_run_reaches_do_not_count() -> None:
    body = traced("with unreachable(4) as n:\n    ct.static_assert(n == 4)", {"ct": ct, "unreachable": unreachable}, "")
    ct.launch(None, (1,), ct.kernel(body), (), backend="reference")


def test_a_context_manager_is_entered_once() -> None:
    body = traced("m = raised(3)\nwith m:\n    pass\nwith m:\n    pass", {"raised": raised}, "")
    refuses(body, ct.TileTypeError, match="a second time")


NOT_ONE_YIELD = {
    "without": "has no yield",
    "never": "no yield",
    "broken": "reaches no yield",
    "doubled": "two yields",
    "perhaps": "is in a branch",
}


@pytest.mark.parametrize(("name", "why"), NOT_ONE_YIELD.items())
def test_a_context_manager_has_one_yield(name: str, why: str) -> None:
    body = traced(f"with {name}(1):\n    pass", {name: globals()[name]}, "")
    refuses(body, ct.TileTypeError, match=why)


class Mode(enum.Enum):
    FAST = 1


@dataclasses.dataclass(frozen=True)
class Formatted:
    a: int

    def __format__(self, spec: str) -> str:
        return f"{self.a:{spec}}!" if spec else "plain"


TEXTS = {
    "str(Mode.FAST)": "Mode.FAST",
    "repr(Mode.FAST)": "<Mode.FAST: 1>",
    "str((Mode.FAST, 1))": "(<Mode.FAST: 1>, 1)",
    "str(Formatted(3))": "Formatted(a=3)",
    "f'{Formatted(3)} {Formatted(3)!s} {Formatted(3):04d}'": "plain Formatted(a=3) 0003!",
}


@pytest.mark.parametrize("text", TEXTS)
def test_texts_are_those_of_python(text: str) -> None:
    names = {"ct": ct, "Mode": Mode, "Formatted": Formatted}
    assert eval(text, names) == TEXTS[text]
    body = traced(f"ct.static_assert({text} == {TEXTS[text]!r}, {text})", names, "")
    ct.launch(None, (1,), ct.kernel(body), (), backend="reference")


@pytest.mark.parametrize("name", ["sqrt", "exp", "floor", "isnan", "log2"])
def test_functions_of_math_take_constants(name: str) -> None:
    expected = getattr(math, name)(2.5)
    body = traced(f"ct.static_assert(math.{name}(2.5) == {expected!r})", {"ct": ct, "math": math}, "")
    ct.launch(None, (1,), ct.kernel(body), (), backend="reference")
    refuses(traced(f"math.{name}(ct.bid(0))", {"ct": ct, "math": math}, ""), UnsupportedCallError)


def test_static_strides_are_constants_for_host_code() -> None:
    @ct.kernel
    def kernel(a: Annotated[Any, ct.ArrayAnnotation(static_stride_dims=(0,))]):
        ct.static_assert(ct.static_eval(a.strides[0]) == 6)

    ct.launch(None, (1,), kernel, (np.zeros((4, 6), np.float32),), backend="reference")


def test_dtypes_have_names() -> None:
    assert [d.__name__ for d in (ct.float32, ct.bool_, ct.int8)] == ["float32", "bool_", "int8"]


@pytest.mark.parametrize(
    ("error", "text", "why"),
    [
        (ct.TileTypeError, "ct.ones((2,), ct.int32) in (1, 2)", "'in' compares scalars"),
        (ct.TileTypeError, "2 in (ct.ones((2,), ct.int32), 2)", "'in' compares scalars"),
        (ct.TileSyntaxError, "x = y\ny = 1", "'y' is read before it is assigned"),
        (ct.TileStaticAssertionError, "ct.static_assert(False, '')", r"Static assertion failed\n"),
        (
            ct.TileStaticAssertionError,
            "i = ct.bid(0)\nct.static_assert(1 > 2, f'{5 or 0} {i}')",
            r"Static assertion failed: 5 <tile\[int32, \(\)\]>\n",
        ),
        (ct.TileStaticEvalError, "f = lambda: 1\nct.static_eval(f())", "is defined in tile code"),
        (ct.TileStaticEvalError, "i = ct.bid(0)\nct.static_eval((1, 2)[i])", "known at run time only"),
        (ct.TileTypeError, "ct.cat((1, 2, 3), 0)", "not a tuple of 3"),
    ],
)
def test_refused(error: type[ct.TileError], text: str, why: str) -> None:
    refuses(traced(text, {"ct": ct}, ""), error, match=why)
