"""Printing, assertions, compile-time evaluation and dependent launches."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.tile_code import gives, refuses

import tilewright as ct
from tilewright.language.static import static_def

V = np.arange(4, dtype=np.int32)
I32 = np.int32
TTE, TSE, TSEE = ct.TileTypeError, ct.TileSyntaxError, ct.TileStaticEvalError


def printed(function: Callable[..., Any], capfd: pytest.CaptureFixture[str], *args: Any) -> str:
    """What a kernel with ``function(*args)`` prints."""

    @ct.kernel
    def kernel(args):
        function(*args)

    capfd.readouterr()
    ct.launch(None, (1,), kernel, (args,))
    return capfd.readouterr().out


# -- 1.16 print, printf, assert_


@dataclasses.dataclass(frozen=True)
class Pair:
    a: Any
    b: Any = "text"


@dataclasses.dataclass(frozen=True)
class Shown:
    a: Any

    def __str__(self):
        return f"[{self.a}]"


@dataclasses.dataclass(frozen=True)
class Partly:
    a: Any
    hidden: Any = dataclasses.field(default=2, repr=False)

    def __repr__(self):
        return f"<{self.a}>"


@dataclasses.dataclass(frozen=True, repr=False)
class Plain:
    a: Any


@dataclasses.dataclass(frozen=True)
class Formatted:
    a: Any

    def __format__(self, spec: str) -> str:
        return "formatted"


PRINTS: list[tuple[Callable[..., Any], str]] = [
    (lambda n, x: print("plain", 1, 2.5, True, None), "plain 1 2.5 True None\n"),
    (lambda n, x: ct.print(n, n + 1, sep=", ", end="!\n"), "7, 8!\n"),
    (lambda n, x: print(), "\n"),
    (lambda n, x: print(f"n={n} and {n:5d}|{n:<5}|{n:+d}|{n:x}|{3}"), "n=7 and     7|7    |+7|7|3\n"),
    (lambda n, x: print(f"{x:.2f} {x:8.3e}"), "1.50 1.500e+00\n"),
    (lambda n, x: print(ct.arange(4, dtype=ct.int32)), "[0, 1, 2, 3]\n"),
    (lambda n, x: print(ct.arange(4, dtype=ct.int32).reshape((2, 2)) > 1), "[[0, 0], [1, 1]]\n"),
    (lambda n, x: print(ct.full((2,), 0.5, ct.float32), n > 3), "[0.500000, 0.500000] 1\n"),
    (lambda n, x: print(f"{Formatted(n)}", f"{Formatted(n)}."), "formatted formatted.\n"),
    (lambda n, x: print((n, 2, ("a", n))), "(7, 2, ('a', 7))\n"),
    (lambda n, x: print(Pair(n), Shown(n)), "Pair(a=7, b='text') [7]\n"),
    (lambda n, x: print((Shown(n), Partly(n)), Partly(n), Plain(n)), "(Shown(a=7), <7>) <7> <Plain object>\n"),
    (lambda n, x: print((f"n={n}", f"it's {n}", f'"it\'s" {n}')), """('n=7', "it's 7", '"it\\'s" 7')\n"""),
    (lambda n, x: print(str(n) + "-" + ", ".join(("a", "b"))), "7-a, b\n"),
    (lambda n, x: print(ct.uint8(200), ct.int8(-3) + n.astype(ct.int8), ct.float64(2)), "200 4 2.0\n"),
    (lambda n, x: ct.printf("%d %5.1f %x %u|%%\n", n, x, n, ct.full((), 3, ct.uint32)), "7   1.5 7 3|%\n"),
    (lambda n, x: ct.printf("no newline"), "no newline"),
    (lambda n, x: ct.printf("%i %o %E %g %a\n", n, n, x, x, x), "7 7 1.500000E+00 1.5 0x1.8p+0\n"),
]


@pytest.mark.parametrize("i", range(len(PRINTS)))
def test_printing(backend: str, capfd: pytest.CaptureFixture[str], i: int) -> None:
    function, expected = PRINTS[i]
    assert printed(function, capfd, 7, 1.5) == expected


@pytest.mark.parametrize(
    ("error", "bad"),
    [
        (TTE, lambda n: ct.printf("%d")),
        (TTE, lambda n: ct.printf("%d", n, n)),
        (TTE, lambda n: ct.printf("%f", n)),
        (TTE, lambda n: ct.printf("%d", 1.5)),
        (TTE, lambda n: ct.printf("%s", n)),
        (TTE, lambda n: ct.printf(n)),
        (TTE, lambda n: print(n, sep=n)),
        (TTE, lambda n: print(n, file=None)),
        (TSE, lambda n: print(f"{n!r}")),
        (TTE, lambda n: ct.assert_(n)),
        (TTE, lambda n: ct.assert_(n > 0, n)),
        (TTE, lambda n: ct.assert_()),
    ],
    ids=range(12),
)
def test_mistakes_with_printing(error: type[ct.TileError], bad: Callable[..., Any]) -> None:
    refuses(bad, error, 1)


def test_assertions(backend: str) -> None:
    @ct.kernel
    def check(x, LIMIT: ct.Constant[int]):
        ct.assert_(ct.load(x, 0, 4) < LIMIT, "too large")
        ct.assert_(True)

    @ct.kernel
    def keyword(x):
        ct.assert_(ct.load(x, 0, 4) < 100, message="fine")

    ct.launch(None, (1,), check, (V, 10))
    ct.launch(None, (1,), keyword, (V,))
    with pytest.raises(Exception, match="too large"):
        ct.launch(None, (1,), check, (V, 2))


# -- 1.17 compile time

HOST = {"scale": 3, "items": [1, 2, 3]}


def test_static_eval(backend: str) -> None:
    gives(
        lambda n, x: (
            n + ct.static_eval(HOST["scale"] ** 2),
            x + ct.static_eval(max(HOST["items"]) if x.ndim == 1 else 0),
            ct.static_eval(x * 2 + n),
            ct.static_eval((x, n)[0].dtype == ct.int32 and isinstance(HOST, dict)) + n,
            ct.static_eval([i * 1 for i in range(x.shape[0])][-1]) + n,
            ct.static_eval(min(x, x + 1) - ct.cdiv(7, 2) + max(3, 4) + ct.maximum(x, 2)),
            ct.static_eval(math.floor(3.7)) + n,
            ct.static_eval(ct.cdiv(x + 1, 2)),
            ct.static_eval(np.int64(5)) + n,
        ),
        (
            I32(14),
            V + 3,
            V * 2 + 5,
            I32(6),
            I32(8),
            V - 4 + 4 + np.maximum(V, 2),
            I32(8),
            -(-(V + 1) // 2),
            np.int64(10),
        ),
        5,
        V,
    )


def test_static_eval_returns_any_host_value(backend: str) -> None:
    def use(n):
        table = ct.static_eval(tuple(i * i for i in range(4)))
        function = ct.static_eval(lambda a: a + 1)
        dtype = ct.static_eval(np.dtype("int32"))
        return n + table[3] + function(1) + ct.zeros((), dtype)

    gives(use, I32(1 + 9 + 2), 1)


@dataclasses.dataclass(frozen=True)
class Digits:
    high: int
    low: int

    @static_def
    def __call__(self, *more: int) -> int:
        digits = [self.high, self.low, *more]  # what tile code lacks
        return int("".join(map(str, digits)))


@dataclasses.dataclass(frozen=True)
class Multiples:
    twice: int
    thrice: int

    @static_def
    def __init__(self, n: int) -> None:
        object.__setattr__(self, "twice", n * 2)
        object.__setattr__(self, "thrice", n * 3)


@static_def
def lengths(*tiles: Any, **named: Any) -> Any:
    return sum([t.shape[0] for t in (*tiles, *named.values())]), tiles[0]


def test_marked_functions_are_evaluated_as_by_static_eval(backend: str) -> None:
    def use(x):
        multiples = Multiples(5)
        length, same = lengths(x, other=x)
        return same + (Digits(3, 4)(5) + multiples.twice + multiples.thrice + length)

    gives(use, V + I32(345 + 25 + 8), V)
    error = refuses(lambda x: Digits(1, 2)(x), ct.StaticException, V)
    assert "ValueError" in error.message
    refuses(lambda x: lengths(1), ct.StaticException, V)


def test_static_eval_gives_methods_and_texts(backend: str) -> None:
    texts = []

    def use(a, x):
        window = ct.static_eval(a.slice)
        method = x.reshape
        ct.static_eval(texts.extend([repr(a), repr(x)]))
        return ct.static_eval(method)((2, 2)) + ct.sum(ct.load(window(0, 1, 3), 0, 2))

    @ct.kernel
    def probe(a, out):
        ct.store(out, (0, 0), use(a, ct.load(a, 0, 4)))

    out = np.zeros((2, 2), np.int32)
    ct.launch(None, (1,), probe, (np.arange(4, dtype=np.int32), out))
    assert out.tolist() == [[3, 4], [5, 6]]
    assert texts == ["<array[int32, (?,)]>", "<tile[int32, (4,)]>"]


def test_static_assert_takes_what_only_hosts_have(backend: str) -> None:
    allowed = [ct.float32, ct.int32]

    def checked(x, **options):
        ct.static_assert(options == {"rank": 1, "dtype": x.dtype} and options["rank"] == x.ndim)
        ct.static_assert(x.dtype in allowed and x.dtype in [ct.int32], f"one of {allowed}")
        ct.static_assert(all(n > 0 for n in x.shape) and isinstance(x.shape, tuple))
        return x

    gives(lambda x: checked(x, rank=1, dtype=ct.int32), V, V)
    refuses(lambda x: ct.static_assert(x.dtype in [ct.float16], f"not {[x.dtype]}"), ct.TileStaticAssertionError, V)
    refuses(lambda x: ct.static_assert([1][0]), TTE, V)


def factorial(n):
    product = 1
    for i in range(1, n + 1):
        product *= i
    return product


def test_static_assert_runs_functions_that_name_no_tile_code(backend: str) -> None:
    def checked(x):
        ct.static_assert(factorial(x.ndim + 2) == 6 and factorial(x.shape[0]) == 24)
        return x

    gives(checked, V, V)
    error = refuses(
        lambda x: ct.static_assert(factorial(x.ndim) > 1, f"not {factorial(3)}"), ct.TileStaticAssertionError, V
    )
    assert error.message == "Static assertion failed: not 6"


def test_the_message_of_a_static_assertion_shows_values_as_static_eval_does() -> None:
    error = refuses(lambda x: ct.static_assert(False, x), ct.TileStaticAssertionError, V)
    assert (
        error.message == refuses(lambda x: ct.static_assert(False, f"{[x][0]}"), ct.TileStaticAssertionError, V).message
    )


def test_static_exception_needs_an_exception() -> None:
    def thrower(x):
        raise ct.static_exception(x)

    refuses(lambda n: thrower(3), TSEE, 1, match="needs an exception")


def test_static_eval_failures() -> None:
    error = refuses(lambda n: ct.static_eval(1 / 0), ct.StaticException, 1)
    assert "ZeroDivisionError" in error.message
    refuses(lambda n: ct.static_eval(m := n), TSE, 1)  # noqa: F841
    refuses(lambda n, x: ct.static_eval(ct.sum(x)), TSEE, 1, V)
    refuses(lambda n, x: ct.static_eval(ct.load(x, 0, 4)), TSEE, 1, V, load=False)
    refuses(lambda n: ct.static_eval(1 if n else 2), TSEE, 1)
    refuses(lambda n: ct.static_eval(), TSE, 1)
    refuses(lambda n: ct.static_eval([1]) + n, TTE, 1)

    def through_a_variable(n):
        f = ct.static_eval
        return f(n)

    refuses(through_a_variable, TSE, 1)


def test_static_assert(backend: str) -> None:
    def passes(x):
        ct.static_assert(x.ndim == 1)
        ct.static_assert(x.shape[0] % 4 == 0, "not evaluated: " + str(1 // 1))
        ct.static_assert(True, None)
        return x

    gives(passes, V, V)
    error = refuses(lambda x: ct.static_assert(x.ndim == 2, f"rank {x.ndim}"), ct.TileStaticAssertionError, V)
    assert "rank 1" in error.message
    refuses(lambda x: ct.static_assert(False), ct.TileStaticAssertionError, V)
    refuses(lambda x: ct.static_assert(1), TTE, V)
    refuses(lambda x: ct.static_assert("x"), TTE, V)
    refuses(lambda x: ct.static_assert(ct.bid(0) == 0), TTE, V)
    refuses(lambda x: ct.static_assert(condition=True), TSE, V)
    refuses(lambda x: ct.static_assert(1 // 0 == 0), ct.StaticException, V, match="by zero")
    refuses(lambda x: ct.static_assert(False, 1 // 0), ct.StaticException, V, match="by zero")


def test_the_message_of_a_static_assertion_is_lazy(backend: str) -> None:
    def lazy(x):
        ct.static_assert(True, nowhere)  # noqa: F821
        return x

    gives(lazy, V, V)


def test_static_iter(backend: str) -> None:
    def unrolled(x):
        total = x * 0
        for i, (a, b) in ct.static_iter(enumerate(((1, 2), (3, 4)))):
            total += i * 100 + a * b
        for name in ct.static_iter(["a", "bc"]):
            total += len(name)
        for k in ct.static_iter(range(2)):
            for j in ct.static_iter(range(k + 1)):
                total += j * 10
        for dtype in ct.static_iter((ct.int32, ct.int32)):
            total += ct.ones((4,), dtype)
        return total

    gives(unrolled, V * 0 + 2 + 112 + 3 + 10 + 2, V)


def test_static_iter_limits() -> None:
    def too_many(n):
        for _ in ct.static_iter(range(1001)):
            pass

    def with_break(n):
        for _ in ct.static_iter(range(3)):
            break

    def with_continue(n):
        for _ in ct.static_iter(range(3)):
            continue

    def with_return(n):
        for _ in ct.static_iter(range(3)):
            return n

    def elsewhere(n):
        items = ct.static_iter((1, 2))
        return items

    def not_iterable(n):
        for _ in ct.static_iter(3):
            pass

    def failing(n):
        for _ in ct.static_iter(1 // k for k in (1, 0)):
            pass

    refuses(failing, ct.StaticException, 1)
    refuses(too_many, TSEE, 1)
    for bad in (with_break, with_continue, with_return, elsewhere):
        refuses(bad, TSE, 1)
    refuses(not_iterable, TTE, 1)


def test_a_loop_inside_an_unrolled_one_may_be_left(backend: str) -> None:
    def inner(n):
        total = 0
        for k in ct.static_iter((10, 20)):
            for i in range(n):
                if i == 2:
                    break
                total += k
        return total

    gives(inner, I32(60), 5)


def test_static_exception() -> None:
    def raises(n):
        if n.ndim == 0:
            raise ct.static_exception(ValueError("no scalars"))

    def reached(n):
        if n > 100:
            raise ct.static_exception(KeyError("k"))

    def pruned(n):
        if n.ndim == 3:
            raise ct.static_exception(ValueError("never"))
        return n

    assert "no scalars" in refuses(raises, ct.StaticException, 1).message
    refuses(reached, ct.StaticException, 1)
    refuses(lambda n: ct.static_exception(ValueError("x")), TSE, 1)
    with ct.use_backend("reference"):
        gives(pruned, I32(3), 3)


def test_ensure_constant(backend: str) -> None:
    gives(
        lambda n: ct.zeros((ct.ensure_constant(4),), ct.int32) + ct.ensure_constant(ct.int32(2)),
        np.full(4, 2, np.int32),
        1,
    )
    gives(lambda n: n + len(ct.ensure_constant((1, 2, 3))), I32(4), 1)
    refuses(lambda n: ct.ensure_constant(n), ct.TileStaticAssertionError, 1)
    refuses(lambda n: ct.ensure_constant((1, n)), ct.TileStaticAssertionError, 1)
    refuses(lambda n: ct.ensure_constant(n * 0), ct.TileStaticAssertionError, 1)


def test_aliases_of_the_module_and_of_global_names(backend: str) -> None:
    gives(lambda n: alias.static_eval(3) + n + global_alias(2), I32(6), 1)


alias = ct
global_alias = ct.static_eval


# -- 1.18 programmatic dependent launch


def test_dependent_launches_do_nothing_on_a_cpu(backend: str) -> None:
    @ct.kernel
    def kernel(x):
        ct.grid_dependency_control_wait()
        ct.store(x, 0, ct.load(x, 0, 4) + 1)
        ct.grid_dependency_control_launch_dependents()

    x = V.copy()
    ct.launch(None, (1,), kernel, (x,), programmatic_dependent_launch=True)
    ct.launch(0, (1,), kernel, (x,), programmatic_dependent_launch=False)
    np.testing.assert_array_equal(x, V + 2)
