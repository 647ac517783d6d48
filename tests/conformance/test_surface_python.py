"""The Python of tile code: statements, expressions, functions, tuples, and what is refused."""

# ruff: noqa: B007, C409, F841, F842, PIE790, RUF059, SIM223
# The programs under test look as people write them.
from __future__ import annotations

import builtins
import contextlib
import functools
import math
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.tile_code import gives, refuses, traced

import tilewright as ct
from tilewright.ir.errors import UnsupportedCallError

TSE, TTE, TVE, UCE = ct.TileSyntaxError, ct.TileTypeError, ct.TileValueError, UnsupportedCallError
I32 = np.int32
V = np.arange(8, dtype=np.int32)
PAIR = (1, 2)


def scalar(function: Callable[..., Any], expected: int, *args: Any) -> None:
    """``function(*args)`` is the int32 scalar ``expected``."""
    gives(function, I32(expected), *args)


# -- statements


def test_assignments(backend: str) -> None:
    def assign(n):
        a = b = n + 1
        (c, (d, e)), [f, g] = (1, (2, 3)), (4, 5)
        h: int = 6
        i: ct.Tile
        h += a
        ...
        "a string"
        return a * b + c + d * 10 + e * 100 + f * 1000 + g * 10000 + h * 100000

    scalar(assign, 9 + 1 + 20 + 300 + 4000 + 50000 + 900000, 2)


def test_loops(backend: str) -> None:
    def loops(n):
        total = 0
        for i in range(n):
            if i == 2:
                continue
            for j in range(i, n, 3):
                if j > 5:
                    break
                total += i * j
        while total % 7 != 0 and total < 100:
            total += 1
        for k in range(ct.int64(2)):
            ct.static_assert(k.dtype == ct.int64)
        return total

    def host(n: int) -> int:
        total = 0
        for i in range(n):
            if i == 2:
                continue
            for j in range(i, n, 3):
                if j > 5:
                    break
                total += i * j
        while total % 7 != 0 and total < 100:
            total += 1
        return total

    for n in (0, 1, 7):
        scalar(loops, host(n), n)


def test_returns_anywhere(backend: str) -> None:
    def find(n):
        for i in range(10):
            if i * i > n:
                return i
        if n > 1000:
            return -1
        return -2

    scalar(find, 4, 10)
    scalar(find, -1, 1001)
    scalar(find, -2, 100)

    @ct.kernel
    def kernel(out):
        for i in range(8):
            if i == 3:
                return
            ct.store(out, i, i)

    out = np.full(8, 9, np.int32)
    ct.launch(None, (1,), kernel, (out,))
    np.testing.assert_array_equal(out, [0, 1, 2, 9, 9, 9, 9, 9])


def test_nested_functions(backend: str) -> None:
    def nested(n):
        """With a docstring."""

        def power(x, k=2, *, plus=0):
            if k == 0:
                return 1 + plus
            return x * power(x, k - 1) + plus

        return power(n) + power(n, 3, plus=1)

    scalar(nested, 9 + 28, 3)


# -- expressions


def test_expressions(backend: str) -> None:
    def some(n):
        pair = (n, *(1, 2), 3)
        either = n > 5 or n == 2
        return (
            pair[0] + len(pair) * 10 + pair[-1] * 100,
            0 < n <= 3 < 4,
            n > 1 and n < 3,
            either,
            not either,
            n if n > 1 else -n,
            n is not None,
            n in (1, 2),
            (lambda x, y=3: x * y)(n),
            pair[1:3][1],
            sum_of(*pair, scale=2),
            sum_of(a=1, b=2, c=3, d=n),
        )

    flags = map(np.bool_, (True, True, True, False))
    gives(some, (I32(342), *flags, I32(2), np.True_, np.True_, I32(6), I32(2), I32(16), I32(8)), 2)


def sum_of(a: Any, b: Any, c: Any, d: Any, *, scale: Any = 1) -> Any:
    return (a + b + c + d) * scale


def test_short_circuit_skips_what_would_not_compile(backend: str) -> None:
    def skip(n):
        return (False and nowhere(n)) or True  # noqa: F821

    gives(skip, np.True_, 1)


def test_constant_conditions_prune(backend: str) -> None:
    def prune(x):
        if x.ndim == 2:
            return ct.sum(x, axis=1)
        else:
            return x.reshape((7,))

    gives(prune, np.array([1, 5], np.int32), V[:4].reshape(2, 2))


def test_comprehensions(backend: str) -> None:
    gives(
        lambda n: (
            ct.astile(tuple(n * i for i in ct.static_iter(range(4))), dtype=ct.int32),
            ct.astile(tuple(i for i in ct.static_iter((5, 6, 7, 8)) if i % 2), dtype=ct.int32),
            len(tuple((i, j) for i in ct.static_iter(range(3)) for j in ct.static_iter(range(i)))),
        ),
        (np.arange(4, dtype=np.int32) * 3, np.array([5, 7], np.int32), I32(3)),
        3,
    )


# -- builtins


def test_builtins(backend: str) -> None:
    class Point(tuple):
        pass

    gives(
        lambda n: (
            abs(n),
            len((1, 2)),
            min(n, 0),
            max(n, 0),
            divmod(n, 4)[1],
            bool(n),
            int(3.7),
            ct.float32(float(2)),
            len(tuple((1, 2)) + ()),
            (1, 2, 3)[slice(1, None)][0],
            n.ndim + getattr(n, "missing", 5),
            len(str(12) + "ab"),
            len(",".join(("a", "b"))),
            operator.add(n, 1) + operator.mul(2, 3),
            operator.neg(n),
            1 if "a" < "b" and "a" + "b" == "ab" else 0,
            len(repr("x")),
        ),
        (
            I32(3),
            I32(2),
            I32(-3),
            I32(0),
            I32(1),
            np.True_,
            I32(3),
            np.float32(2),
            I32(2),
            I32(2),
            I32(5),
            I32(4),
            I32(3),
            I32(4),
            I32(3),
            I32(1),
            I32(3),
        ),
        -3,
    )


UNCALLABLE = [
    "sum",
    "all",
    "any",
    "sorted",
    "zip",
    "enumerate",
    "map",
    "isinstance",
    "type",
    "hasattr",
    "round",
    "pow",
    "dict",
    "list",
    "set",
    "iter",
    "id",
    "chr",
]


@pytest.mark.parametrize("name", UNCALLABLE)
def test_builtins_that_tile_code_does_not_have(name: str) -> None:
    function = getattr(builtins, name)
    refuses(lambda n: function(n), UCE, 1)


def test_all_of_them_work_in_static_eval(backend: str) -> None:
    values = (3, 1, 2)

    def evaluated(n):
        a = ct.static_eval(sum(values) + len([x for x in values if x > 1]))
        b = ct.static_eval(sorted(values)[0] + math.factorial(4))
        c = ct.static_eval(isinstance(values, tuple) and hasattr(n, "dtype") and n.ndim == 0)
        d = ct.static_eval({"k": 7}["k"] if c else 0)
        return n + a + b + d

    scalar(evaluated, 1 + 8 + 25 + 7, 1)


# -- functions


def variadic(first: Any, /, *rest: Any, key: Any = 10, **others: Any) -> Any:
    total = first + key
    for item in ct.static_iter(rest):
        total += item
    if "extra" in others:
        total += others["extra"] * 1000
    return total + others.get("absent", 0) + len(others) * 100


def through_closures(**options: Any) -> Any:
    def inner():
        return options["a"] * 10 + options.get("b", 1) + (1 if "c" in options else 0)

    return inner() + ct.static_eval(TABLE["x"])


TABLE = {"x": 1000}


def test_keywords_through_closures(backend: str) -> None:
    gives(lambda n: through_closures(a=n, c=0), I32(1000 + 32), 3)


def test_arguments(backend: str) -> None:
    def calls(n):
        options = dictionary(key=n, extra=2)
        return variadic(n), variadic(n, 1, 2, key=0), variadic(*(n, 4), **options), variadic(n, extra=n, other=0)

    gives(calls, (I32(13), I32(6), I32(3 + 4 + 3 + 2000 + 100), I32(13 + 3000 + 200)), 3)


def dictionary(**items: Any) -> Any:
    return items


def doubled(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs) * 2

    return wrapper


@doubled
def decorated(x: Any, *, plus: Any = 1) -> Any:
    return x + plus


def counted(step: int) -> Callable[..., Any]:
    offset = step * 100

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(x: Any) -> Any:
            return function(x) + offset

        return wrapper

    return decorate


@counted(2)
def decorated_with_arguments(x: Any) -> Any:
    return x + 1


@ct.function
def marked(x: Any) -> Any:
    return x * 3


@ct.function(host=True)
def everywhere(x: Any) -> Any:
    return x * 5


@ct.function(tile=False, host=True)
def host_only(x: Any) -> Any:
    return x


def test_decorated_functions(backend: str) -> None:
    gives(
        lambda n: (decorated(n), decorated(n, plus=5), decorated_with_arguments(n), marked(n), everywhere(n)),
        (I32(8), I32(16), I32(204), I32(9), I32(15)),
        3,
    )
    assert everywhere(2) == 10 and host_only(1) == 1
    with pytest.raises(RuntimeError):
        marked(1)
    refuses(lambda n: host_only(n), UCE, 1)


def even(n: int) -> Any:
    return 0 if n == 0 else odd(n - 1)


def odd(n: int) -> Any:
    return 1 if n == 0 else even(n - 1)


def forever(n: Any) -> Any:
    return forever(n + 1)


def test_recursion(backend: str) -> None:
    scalar(lambda n: n + even(60) + odd(301) * 0, 1 + 0, 1)
    error = refuses(lambda n: forever(n), ct.TileRecursionError, 1)
    assert "1000" in error.message


def test_closures(backend: str) -> None:
    def latest(n):
        k = 1
        f = lambda: k * n
        k = 5
        first = f()
        k = 7
        return first + f() * 100

    scalar(latest, 10 + 1400, 2)

    def frozen(n):
        def make(k):
            def inner(x):
                return x + k

            return inner

        plus = make(n)
        k = 1000
        return plus(1) + k

    scalar(frozen, 1003, 2)


FACTOR = 3


def test_globals_are_frozen_when_compiled(backend: str) -> None:
    global FACTOR
    FACTOR = 3

    @ct.kernel
    def kernel(out):
        ct.store(out, 0, FACTOR)

    out = np.zeros(1, np.int32)
    ct.launch(None, (1,), kernel, (out,))
    FACTOR = 4
    ct.launch(None, (1,), kernel, (out,))
    assert out[0] == 3


# -- tuples


def test_tuples(backend: str) -> None:
    def tuples(n):
        t = (n, 2, (3, "x")) + (5,)
        same = (n, 2) == (3, 2)
        other = (n, 2) != (3, 2)
        return t[0] + t[2][0] + len(t[1:]) + t[ct.int32(3)], same, other, (1, 2) == (1, 2, 3)

    gives(lambda n: tuples(n)[:3], (I32(14), np.True_, np.False_), 3)


@pytest.mark.parametrize(
    ("error", "bad"),
    [
        (TTE, lambda n: (1, 2)[n]),
        (TTE, lambda n: PAIR[0.5]),
        (TTE, lambda n: (1, 2)[2]),
        (TTE, lambda n: (1, 2) + 3),
        (TTE, lambda n: (1, n) < (2, 3)),
        (TTE, lambda n: (1, 2)[n:]),
        (TTE, lambda n: (1, 2)[::0]),
        (TTE, lambda n: (1, 2).count(1)),
    ],
    ids=range(8),
)
def test_mistakes_with_tuples(error: type[ct.TileError], bad: Callable[..., Any]) -> None:
    refuses(bad, error, 1)


def test_unpacking_the_wrong_count() -> None:
    def three(n):
        a, b, c = (n, n)

    refuses(three, TVE, 1)

    def tile(x):
        a, b = x

    refuses(tile, TTE, V[:2])


# -- refused syntax

REFUSED: dict[str, type[ct.TileError]] = {
    "assert n": TSE,
    "try:\n    pass\nfinally:\n    pass": TSE,
    "class A: pass": TSE,
    "import math": TSE,
    "from math import pi": TSE,
    "global G\nG = 1": TSE,
    "def f():\n    nonlocal n\n    n = 2\nf()": TSE,
    "del n": TSE,
    "match n:\n    case _:\n        pass": TSE,
    "(m := 1)": TSE,
    "for i in range(3):\n    pass\nelse:\n    pass": TSE,
    "while n > 3:\n    pass\nelse:\n    pass": TSE,
    "raise ct.static_exception(ValueError('x')) from None": TSE,
    "raise ValueError('x')": TSE,
    "raise": TSE,
    "a, *b = (1, 2, 3)": TSE,
    "n.x = 1": TSE,
    "[1, 2]": TSE,
    "{1, 2}": TSE,
    "{'a': 1}": TSE,
    "[i for i in (1, 2)]": TSE,
    "{i for i in (1, 2)}": TSE,
    "{i: i for i in (1, 2)}": TSE,
    "(i for i in (1, 2))": TSE,
    "tuple(i for i in (1, 2))": TSE,
    "yield n": TSE,
    "undefined_name": TSE,
    "@contextlib.contextmanager\ndef f():\n    pass": TSE,
    "n is 1": TTE,
    "f'{n!r}'": TSE,
    "for i in (1, 2):\n    pass": TTE,
    "for i in n:\n    pass": TTE,
    "for i, j in range(3):\n    pass": TSE,
    "for i in range(3.0):\n    pass": TTE,
    "for i in range(0, 3, 0):\n    pass": TTE,
    "for i in range(3, 0, -1):\n    pass": TTE,
    "for i in range(ct.uint32(3)):\n    pass": TTE,
    "x = b'bytes'": TTE,
    "x = 1j": TTE,
    "n + A_LIST": TTE,
    "A_DICT['a']": TTE,
    "n + A_DICT.get('a')": TTE,
    "variadic(n, **A_DICT)": TTE,
    "A_COMPLEX": TTE,
    "A_BYTES": TTE,
    "PARTIAL(n)": TTE,
    "np.sqrt(n)": TTE,
    "A_KERNEL(n)": TTE,
    "3(n)": TTE,
    "'a'(n)": TTE,
    "None + 1": TTE,
    "'a' + 1": TTE,
    "return 3": TTE,
    "if n > 3:\n    x = 1\nn + x": TTE,
    "for i in range(n):\n    pass\nn + i": TTE,
    "if n > 3:\n    x = 1\nelse:\n    x = 1.5\nn + x": TTE,
    "x = 1\nfor i in range(n):\n    x = x + 0.5": TTE,
    "def f():\n    if n > 3:\n        return 1\n    return 1.5\nf()": TTE,
    "def f():\n    if n > 3:\n        return 1\nf() + 1": TTE,
    "math.sqrt(n)": UCE,
    "math.floor(n)": UCE,
    "open('x')": UCE,
    "object()": UCE,
    "1 // 0": TVE,
    "1 % 0": TVE,
    "1.0 / 0": TVE,
    "1 << 64": TVE,
    "2 ** 64": TVE,
    "x = 18446744073709551616": TVE,
    "x = -9223372036854775809": TVE,
    "(-8.0) ** 0.5": TVE,
    "1 << -1": TVE,
    "1.5 << 2": TTE,
    "~1.5": TTE,
    "ct.uint8(1) + 256": TVE,
    "int(n)": TTE,
    "float(n)": TTE,
    "int('x')": TVE,
    "len(n)": TTE,
    "min(1, 2, 3)": TTE,
    "min((1, 2))": TTE,
}


NAMES: dict[str, Any] = {
    "ct": ct,
    "np": np,
    "math": math,
    "contextlib": contextlib,
    "variadic": variadic,
    "A_LIST": [1],
    "A_DICT": {"a": 1},
    "A_COMPLEX": 1j,
    "A_BYTES": b"x",
    "PARTIAL": functools.partial(min, 1),
    "A_KERNEL": ct.kernel(sum_of),
}


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("body", REFUSED)
def test_refused(body: str) -> None:
    kernel = ct.kernel(traced(body, NAMES))
    with pytest.raises(ct.TileError) as caught, ct.use_backend("reference"):
        ct.launch(None, (1,), kernel, (5,))
    assert type(caught.value) is REFUSED[body], caught.value
    assert caught.value.loc is not None and caught.value.loc.file.startswith("<tile code"), caught.value


@pytest.mark.parametrize("signature", ["*args", "**kwargs", "n, *args"])
def test_variadic_kernels_are_refused(signature: str) -> None:
    kernel = ct.kernel(traced("pass", NAMES, signature))
    with pytest.raises(ct.TileSyntaxError), ct.use_backend("reference"):
        ct.launch(None, (1,), kernel, (5,))


def test_async_functions_are_refused() -> None:
    async def kernel(n):
        pass

    with pytest.raises((ct.TileSyntaxError, TypeError)):
        ct.launch(None, (1,), ct.kernel(kernel), (5,))


# -- control flow types


def test_values_merge(backend: str) -> None:
    def merge(n, x):
        if n > 2:
            k, t, pair = 3, x * 2, (1, x)
        else:
            k, t, pair = 3, x + 1, (1, x - 1)
        ct.static_assert(ct.ensure_constant(k) == 3)
        m = 1 if n > 2 else 2
        unused = 1 if n.ndim == 0 else "text"
        return t + m * 100, pair[1] + pair[0]

    gives(merge, (V * 2 + 100, V + 1), 3, V)
    gives(merge, (V + 201, V), 2, V)


def test_a_variable_of_two_types_may_go_unused(backend: str) -> None:
    def unused(n):
        if n > 2:
            x = 1
        else:
            x = ct.zeros((2,), ct.float32)
        return n

    scalar(unused, 5, 5)


def test_arrays_and_views_through_branches(backend: str) -> None:
    @ct.kernel
    def choose(a, b, n, out):
        if n > 2:
            chosen, view = a, a.tiled_view((4,))
        else:
            chosen, view = b, b.tiled_view((4,))
        ct.store(out, 0, ct.load(chosen, 0, 4) + view.load(1))

    a, b = np.arange(8, dtype=np.int32), np.arange(8, dtype=np.int32) * 10
    for n, source in ((3, a), (1, b)):
        out = np.zeros(4, np.int32)
        ct.launch(None, (1,), choose, (a, b, n, out))
        np.testing.assert_array_equal(out, source[:4] + source[4:])


def test_arrays_with_other_strides_and_extents_meet(backend: str) -> None:
    """Extents that are static for one of the arrays only are read at run time from where they meet."""

    @ct.kernel
    def choose(a, b, n, out):
        x = a if n > 1 else b
        view = a.tiled_view(4) if n > 1 else b.tiled_view(4)
        y, w, part = a, a.tiled_view(4), a.slice(0, 0, 8)
        for i in range(n):
            y, w, part = b, b.tiled_view(4), part.slice(0, 1, 5)
        ct.store(out, 0, ct.load(x, 0, 4) + view.load(0))
        ct.store(out, 1, ct.load(y, 0, 4) + w.load(0))
        ct.store(out, 2, ct.load(part, 0, 4, padding_mode="ZERO"))
        ct.scatter(out, 12, part.shape[0])

    a, b = np.arange(16, dtype=np.int32), np.arange(0, 320, 10, dtype=np.int32)[::2]
    for n in (0, 1, 2):
        out = np.zeros(16, np.int32)
        ct.launch(None, (1,), choose, (a, b, n, out))
        np.testing.assert_array_equal(out[:4], 2 * (a if n > 1 else b)[:4])
        np.testing.assert_array_equal(out[4:8], 2 * (b if n else a)[:4])
        np.testing.assert_array_equal(out[8:12], a[n : n + 4])
        assert out[12] == (4 if n else 8)
    different = np.zeros(4, np.float32)
    with pytest.raises(TTE, match="2-dimensional|float32"):
        ct.launch(None, (1,), choose, (a, different, 1, out))


def test_slices_and_texts_meet_if_only_their_run_time_parts_differ(
    backend: str, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = np.arange(16, dtype=np.int32).reshape(4, 4)

    @ct.kernel
    def kernel(x, out, n):
        if n > 1:
            s, text = ct.Slice(n - 2, 2), f"n={n:3d};"
        else:
            s, text = ct.Slice(2, 2), f"n={-n:3d};"
        for i in range(n):
            text = f"n={i + 7:3d};"
        print(text)
        ct.store(out, (0, 0), ct.load_advanced_indexing(x, (ct.arange(4, dtype=ct.int32), s)))

    for n in range(4):
        out = np.zeros((4, 2), np.int32)
        ct.launch(None, (1,), kernel, (rows, out, n))
        first = n - 2 if n > 1 else 2
        np.testing.assert_array_equal(out, rows[:, first : first + 2])
        assert capfd.readouterr().out.strip() == f"n={n + 6 if n else 0:3d};"


def test_slices_and_texts_of_different_kinds_do_not_meet() -> None:
    refuses(lambda n: (ct.Slice(n, 4) if n > 1 else ct.Slice(n, 8)).length, TTE, 1, match="of length 4 on one path")

    def printed(n):
        text = f"a{n}"
        if n > 1:
            text = f"b{n}"
        print(text)

    refuses(printed, TTE, 1, match="'a{...}'")

    def carried(n):
        text = f"a{n}"
        for i in range(n):
            text = f"{i}{n}"
        print(text)

    refuses(carried, TTE, 1, match="'a{...}'")


def test_the_recursion_limit_of_the_process_stays() -> None:
    before = sys.getrecursionlimit()
    seen = []
    refuses(lambda n: ct.static_eval(seen.append(sys.getrecursionlimit()) or missing), ct.StaticException, 1)  # noqa: F821
    assert seen == [before] and sys.getrecursionlimit() == before
