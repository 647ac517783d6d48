"""What control flow becomes in Tile IR, and what is refused where paths meet."""

from __future__ import annotations

import ast
import linecache
import textwrap
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.frontend.python.compile import trace
from tilewright.frontend.signature import ArraySpec, ScalarSpec, Signature
from tilewright.ir.core import Function
from tilewright.ir.dtypes import float32, int32
from tilewright.ir.verifier import verify

SERIAL = count()
ODD = (np.zeros(2),)  # NumPy compares it element by element
ARRAY = ArraySpec(float32, (None,), (1,))


@dataclass(frozen=True)
class Pair:
    x: Any
    y: Any

    def __post_init__(self) -> None:
        ct.static_assert(True)  # the host's RuntimeError shows if a join runs this outside the tracer


def traced(source: str, name: str = "k") -> Function:
    """The verified IR of ``def k(a, n)`` in ``source``: an array of float32 and an int32."""
    source = textwrap.dedent(source)
    filename = f"<control flow {next(SERIAL)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    namespace: dict[str, Any] = {"ct": ct, "np": np, "Pair": Pair, "ODD": ODD}
    exec(compile(source, filename, "exec"), namespace)
    function = trace(namespace[name], Signature((ARRAY, ScalarSpec(int32))), {})
    verify(function)
    return function


def refused(source: str, error: type[ct.TileError], line: int, column: int, *words: str) -> None:
    """``source`` raises ``error`` at this place (columns count from 0), with ``words`` in its message."""
    with pytest.raises(error) as caught:
        traced(source)
    assert type(caught.value) is error
    loc = caught.value.loc
    assert loc is not None
    assert (loc.line, loc.column) == (line, column), caught.value
    for word in words:
        assert word in caught.value.message


def ops(function: Function) -> list[str]:
    return [op.name for op in function.walk()]


def test_a_guard_is_a_branch() -> None:
    found = ops(
        traced(
            """
            def k(a, n):
                if ct.bid(0) >= n:
                    return
                for i in range(n):
                    ct.store(a, (i,), 1.0)
            """
        )
    )
    assert found.count("if") == 1 and found.count("for") == 1
    assert "loop" not in found and "break" not in found


def test_the_result_of_returning_branches_is_the_result_of_the_ifs() -> None:
    function = traced(
        """
        def sign(x):
            if x > 0:
                return 1
            elif x == 0:
                return 0
            return -1

        def k(a, n):
            ct.store(a, (0,), sign(n))
        """
    )
    assert "loop" not in ops(function)
    outer = next(op for op in function.body.ops if op.name == "if")
    assert [str(r.type) for r in outer.results] == ["i32"]


def test_a_return_in_a_loop_leaves_both() -> None:
    assert (
        ops(
            traced(
                """
            def find(n):
                for i in range(n):
                    if i * i > n:
                        return i
                return -1

            def k(a, n):
                ct.store(a, (0,), find(n))
            """
            )
        ).count("loop")
        == 2
    )


def test_a_view_that_a_returning_loop_changes() -> None:
    traced(
        """
        def fill(a, n):
            view = a.tiled_view((16,))
            for i in range(n):
                if i == 3:
                    return 1
                if i == 5:
                    break
                view = a.slice(0, i, n).tiled_view((16,))
            view.store((0,), 1.0)
            return 2

        def k(a, n):
            fill(a, n)
        """
    )


def test_constants_inside_carried_tuples_and_dataclasses() -> None:
    for start, step in (("(0, 0.5)", "(s[0] + 1, s[1] * 2.0)"), ("Pair(0, 0.5)", "Pair(s.x + 1, s.y * 2.0)")):
        (loop,) = (
            op
            for op in traced(
                f"""
                def k(a, n):
                    s = {start}
                    for i in range(n):
                        s = {step}
                """
            ).walk()
            if op.name == "for"
        )
        assert [str(r.type) for r in loop.results] == ["i32", "f32"]


def test_a_closure_made_in_a_branch_sees_later_assignments() -> None:
    traced(
        """
        def k(a, n):
            if n > 2:
                x = 1
                def f():
                    return x
                x = 2
                ct.static_assert(f() == 2)
        """
    )


def test_a_closure_of_a_path_is_refused_where_paths_meet() -> None:
    refused(
        """
        def k(a, n):
            if n > 2:
                def f(): return 1
            else:
                def f(): return 2
            ct.store(a, (0,), f())
        """,
        ct.TileTypeError, 7, 22, "'f'", "depends on the path",
    )  # fmt: skip


def test_closures_of_calls_that_have_ended_are_joined() -> None:
    outer = 2

    def adder(step, *, more=0):
        def twice(x):
            return outer * x + more

        def add(x, extra=step + 1):
            return twice(x) + step + extra

        step += 0
        return add, "name"

    @ct.kernel
    def kernel(out, n):
        base = ct.bid(0)

        def from_here(k):
            return lambda x: x + k * base + later

        if base == 0:
            f, text = adder(3)
            g = from_here(10)
        else:
            f, text = adder(n, more=n)
            g = from_here(n)
        later = 100
        ct.static_assert(text == "name")
        ct.store(out, (base, 0), f(1))
        ct.store(out, (base, 1), f(1, extra=0))
        ct.store(out, (base, 2), g(1))

    out = np.zeros((2, 3), np.int32)
    for backend in ("reference", "python"):
        ct.launch(None, (2,), kernel, (out, 7), backend=backend)
        assert out.tolist() == [[9, 5, 101], [24, 16, 108]]


def test_a_number_that_becomes_something_else_in_a_loop() -> None:
    for value in ("(1,)", "None", "lambda: 1", "'text'"):
        refused(
            f"""
            def k(a, n):
                x = 1
                while n > x:
                    x = {value}
            """,
            ct.TileTypeError, 4, 14, "'x'", "before the loop",
        )  # fmt: skip


@pytest.mark.parametrize("power", ["1 << 10**12", "-1 << 10**12", "2 ** 10**9", "3 << 100"])
def test_huge_integers_are_refused_before_they_are_computed(power: str) -> None:
    refused(f"def k(a, n):\n    x = {power}\n", ct.TileValueError, 2, 8, "64 bits")


@pytest.mark.parametrize(
    "call", ["len(a, x=1)", "range(n, step=2)", "min(n, 2, key=3)", "abs(x=1)", "print(n, file=1)"]
)
def test_keywords_that_builtins_do_not_take(call: str) -> None:
    refused(f"def k(a, n):\n    {call}\n", ct.TileTypeError, 2, 4, "keyword arguments")


@pytest.mark.filterwarnings("ignore:'tuple' object is not callable")
def test_callees_that_cannot_be_hashed() -> None:
    refused(
        """
        def h(**options):
            return (options, 1)()

        def k(a, n):
            h(x=n)
        """,
        ct.TileTypeError, 3, 11, "tuple",
    )  # fmt: skip


def test_a_loop_over_a_range_of_the_host() -> None:
    text = str(traced("def k(a, n):\n    for i in ct.static_eval(range(2, 9, 3)):\n        ct.store(a, (i,), 1.0)\n"))
    assert text == str(traced("def k(a, n):\n    for i in range(2, 9, 3):\n        ct.store(a, (i,), 1.0)\n"))


@pytest.mark.parametrize(
    ("line", "error", "column", "words"),
    [
        ("x = {i: 1 for i in range(3)}", ct.TileSyntaxError, 8, "use a tuple, or ct.static_eval"),
        ("x = n + 2j", ct.TileTypeError, 12, "no complex values; keep the parts apart"),
        ("x = b'abc'", ct.TileTypeError, 8, "no bytes values; load them from an array of uint8"),
        ("x = 'abc'[n]", ct.TileTypeError, 8, "the index of a string must be a constant"),
        ("x = 'abc'[3]", ct.TileTypeError, 8, "out of range for a string of 3"),
        ("x = ct.minimum(n, None)", ct.TileTypeError, 8, "minimum() needs tiles or numbers, not None"),
        ("async def f(): pass", ct.TileSyntaxError, 4, "no async functions; write def"),
    ],
)
def test_what_is_not_there_names_what_is(line: str, error: type[ct.TileError], column: int, words: str) -> None:
    refused(f"def k(a, n):\n    {line}\n", error, 2, column, words)


@pytest.mark.skipif(not hasattr(ast, "TryStar"), reason="since Python 3.11")
def test_groups_of_exceptions() -> None:
    source = "def k(a, n):\n    try:\n        pass\n    except* ValueError:\n        pass\n"
    refused(source, ct.TileSyntaxError, 2, 4, "no 'try': nothing can be raised")


def test_yield_in_a_static_iterable() -> None:
    refused("def k(a, n):\n    x = tuple(i for i in ct.static_iter((yield 1)))\n", ct.TileSyntaxError, 2, 41, "'yield'")


@pytest.mark.parametrize(
    ("value", "error"),
    [("2**70", ct.TileValueError), ("np.zeros(3)", ct.TileTypeError)],
)
def test_module_variables_that_tile_code_cannot_hold(value: str, error: type[ct.TileError]) -> None:
    refused(f"G = {value}\ndef k(a, n):\n    x = G\n", error, 3, 8, "'G'")


def test_host_objects_whose_comparison_is_no_bool() -> None:
    refused("def k(a, n):\n    ODD == (1,)\n", ct.TileTypeError, 2, 4, "compared")


@pytest.mark.parametrize("values", ["None if n > 0 else 2", "'a' if n > 0 else 'b'", "1 if n > 0 else 2.5"])
def test_a_variable_without_a_single_type_is_wrong_where_it_is_read(values: str) -> None:
    traced(f"def k(a, n):\n    q = r = {values}\n    ct.store(a, (0,), 1.0)\n")
    refused(f"def k(a, n):\n    q = r = {values}\n    ct.store(a, (0,), r)\n", ct.TileTypeError, 3, 22, "expression")
    refused(f"def k(a, n):\n    ct.store(a, (0,), {values})\n", ct.TileTypeError, 2, 22, "the conditional expression")


def test_axes_of_numbers_and_items_by_a_function() -> None:
    source = "N = 3\ndef k(a, n):\n    ct.store(a, (0,), operator.getitem((1.0, 2), 0) + N[None])\n"
    traced(f"import operator\n{source}")
