"""The classes of tile code: dataclasses, enums, context managers."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from support.tile_code import gives, refuses

import tilewright as ct
from tilewright.ir.errors import UnsupportedCallError

TSE, TTE, TVE, UCE = ct.TileSyntaxError, ct.TileTypeError, ct.TileValueError, UnsupportedCallError
I32 = np.int32


def scalar(function: Callable[..., Any], expected: int, *args: Any) -> None:
    """``function(*args)`` is the int32 scalar ``expected``."""
    gives(function, I32(expected), *args)


# -- dataclasses


@dataclasses.dataclass(frozen=True)
class Vector:
    x: Any
    y: Any = 1

    def __post_init__(self):
        ct.static_assert(self.x is not None)

    @property
    def total(self):
        return self.x + self.y

    def scaled(self, k, *, plus=0):
        return Vector(self.x * k + plus, self.y * k + plus)

    @classmethod
    def both(cls, v):
        return cls(v, v)

    @staticmethod
    def origin():
        return Vector(0, 0)

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __mul__(self, k):
        return self.scaled(k)

    def __rmul__(self, k):
        return self.scaled(k)

    def __call__(self, z):
        return self.x * 100 + self.y * 10 + z

    def __getitem__(self, i):
        return self.x if i == 0 else self.y

    def __len__(self):
        return 2

    def __lt__(self, other):
        return self.total < other.total


@dataclasses.dataclass(frozen=True)
class Labelled(Vector):
    name: str = "none"
    KIND: ClassVar[int] = 7

    def __repr__(self):
        return f"<{self.name} {self.x}>"


@dataclasses.dataclass(frozen=True)
class Slotted:
    __slots__ = ("value",)
    value: Any


@dataclasses.dataclass(frozen=True, order=True)
class Ordered:
    a: Any
    b: Any


@dataclasses.dataclass(frozen=True)
class Out:
    array: Any

    def __setitem__(self, i, value):
        ct.store(self.array, i, value)


GLOBAL_VECTOR = Vector(4, 5)


def test_dataclasses(backend: str) -> None:
    def use(n):
        v = Vector(n)
        w = v.scaled(2, plus=1) + Vector.both(n) * 3 + 2 * Vector.origin()
        named = Labelled(n, y=2, name="a")
        changed = dataclasses.replace(named, x=50)
        return (
            w.x,
            w.y,
            w.total,
            v(7),
            v[1] + len(v) * 10,
            changed.x + changed.y + named.KIND + len(changed.name),
            GLOBAL_VECTOR.total + n,
            Slotted(n).value,
            v < w,
            v == Vector(n, 1),
            v != Vector(n, 1),
            v == Labelled(n, 1),
            Ordered(1, 2) == Ordered(1, 3),
        )

    flags = tuple(map(np.bool_, (True, True, False)))
    gives(
        lambda n: use(n)[:11],
        (I32(16), I32(12), I32(28), I32(317), I32(21), I32(60), I32(12), I32(3), *flags),
        3,
    )


@dataclasses.dataclass(frozen=True, order=True)
class Version:
    major: Any
    note: Any = dataclasses.field(compare=False)
    minor: Any = 0

    def __divmod__(self, other):
        return self.major, other

    def __rdivmod__(self, other):
        return other, self.minor


def test_orders_and_divmod_of_dataclasses(backend: str) -> None:
    def orders(n):
        a, b = Version(n, 5, n + 1), Version(3, 4, minor=4)
        return a < b, a <= b, a > b, a >= b, a < Version(3, 0, 5), *divmod(a, 7), *divmod(8, a)

    for n in (2, 3, 4):
        a, b = (n, n + 1), (3, 4)
        flags = (np.bool_(f) for f in (a < b, a <= b, a > b, a >= b, a < (3, 5)))
        gives(orders, (*flags, I32(n), I32(7), I32(8), I32(n + 1)), n)


def test_static_eval_takes_and_makes_dataclasses(backend: str) -> None:
    def swapped(n):
        v = Version(n, 2)
        w = ct.static_eval(Version(v.note, v.major))
        return w.major, w.note, ct.static_eval(v).major

    gives(swapped, (I32(2), I32(5), I32(5)), 5)


def test_a_lambda_is_a_kernel(backend: str) -> None:
    out = np.zeros(2, np.int32)
    kernel = ct.kernel(lambda out, n: ct.store(out, 0, n))
    ct.launch(None, (1,), kernel, (out, 5))
    np.testing.assert_array_equal(out, [5, 0])


def test_item_assignment_of_dataclasses(backend: str) -> None:
    @ct.kernel
    def kernel(out):
        Out(out)[1] = 5

    out = np.zeros(2, np.int32)
    ct.launch(None, (1,), kernel, (out,))
    np.testing.assert_array_equal(out, [0, 5])


def test_dataclasses_through_control_flow(backend: str) -> None:
    def carried(n):
        state = Vector(ct.int32(0), ct.int32(1))
        for _ in range(n):
            state = Vector(state.y, state.x + state.y)
        if n > 3:
            state = state.scaled(2)
        return state.x

    scalar(carried, 26, 7)


@dataclasses.dataclass(frozen=True)
class Length:
    """Adds and compares with numbers only."""

    n: Any

    def __add__(self, other):
        return NotImplemented if ct.static_eval(isinstance(other, (Length, Added))) else self.n + other

    def __eq__(self, other):
        return NotImplemented if ct.static_eval(isinstance(other, Length)) else self.n == other


@dataclasses.dataclass(frozen=True)
class Added:
    n: Any

    def __radd__(self, other):
        return self.n + other.n * 10


def test_operators_may_give_not_implemented(backend: str) -> None:
    def results(n):
        a, b = Length(n), Length(2)
        return a + n, a + Added(n), a != 2, 2 != a, a == b, a != b  # noqa: SIM300

    for n in (2, 3):
        differs = n != 2
        flags = map(np.bool_, (differs, differs, not differs, differs))
        gives(results, (I32(2 * n), I32(11 * n), *flags), n)
    refuses(lambda n: Length(n) + Length(n), TTE, 1, match="cannot be combined")


@dataclasses.dataclass
class Mutable:
    x: int


MUTABLE = Mutable(3)


def test_mutable_dataclasses_are_for_host_code() -> None:
    refuses(lambda n: MUTABLE.x + n, TTE, 1, match="frozen=True")
    refuses(lambda n: ct.static_eval(Mutable(2)), TTE, 1, match="frozen=True")

    def configured(n):
        ct.static_assert(MUTABLE.x == 3)
        return ct.static_eval(MUTABLE.x) + n

    scalar(configured, 5, 2)


@dataclasses.dataclass(frozen=True)
class OwnInit:
    x: int

    def __init__(self, x):
        object.__setattr__(self, "x", x)


@dataclasses.dataclass(frozen=True)
class OwnNew:
    x: int

    def __new__(cls, x):
        return object.__new__(cls)


@dataclasses.dataclass(frozen=True, init=False)
class NoInit:
    x: int


@dataclasses.dataclass(frozen=True)
class Factory:
    x: tuple = dataclasses.field(default_factory=tuple)


@dataclasses.dataclass(frozen=True)
class NotInit:
    x: int = dataclasses.field(default=1, init=False)


class Plain:
    pass


def test_classes_that_tile_code_does_not_have() -> None:
    refuses(lambda n: Mutable(1), TTE, 1)
    refuses(lambda n: OwnInit(1), TTE, 1)
    refuses(lambda n: OwnNew(1), TTE, 1)
    refuses(lambda n: NoInit(1), TTE, 1)
    refuses(lambda n: Factory(), TTE, 1)
    refuses(lambda n: NotInit(), TTE, 1)
    refuses(lambda n: Plain(), UCE, 1)
    refuses(lambda n: SimpleNamespace(a=1), UCE, 1)
    refuses(lambda n: Vector(), TTE, 1)
    refuses(lambda n: Vector(1, 2, 3), TTE, 1)
    refuses(lambda n: Vector(1).missing, TTE, 1)
    refuses(lambda n: -Vector(1), TTE, 1)
    refuses(lambda n: 1 in Vector(1), TTE, 1)
    refuses(lambda n: Vector(1) - Vector(1), TTE, 1)
    with pytest.raises(TypeError):
        ct.launch(None, (1,), ct.kernel(Vector.scaled), (GLOBAL_VECTOR, 1, 0))


# -- enums


class Color(enum.Enum):
    RED = 1
    BLUE = "b"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


def test_enums(backend: str) -> None:
    def use(n):
        c = Color.RED if n.ndim == 0 else Color.BLUE
        return (
            n + c.value + len(c.name),
            n + Level.HIGH,
            n < Level.HIGH,
            Color("b") == Color.BLUE and Color(1) != Color.BLUE and Color["RED"] is not None,
        )

    gives(lambda n: use(n)[:3], (I32(2 + 1 + 3), I32(7), np.True_), 2)
    scalar(lambda n: n if use(n)[3] else 0, 2, 2)
    refuses(lambda n: Color(2), TVE, 1)
    refuses(lambda n: Color(n), TTE, 1)
    refuses(lambda n: Color.RED < Color.BLUE, TTE, 1)
    refuses(lambda n: Color.GREEN, TTE, 1)


# -- context managers


@contextlib.contextmanager
def storing(out: Any, i: Any) -> Any:
    value = i * 10
    yield value
    ct.store(out, i, value + 1)


def test_context_managers(backend: str) -> None:
    @ct.kernel
    def kernel(out):
        with storing(out, 1) as a, storing(out, i=2) as b:
            ct.store(out, 0, a + b)
        with storing(out, 3):
            pass

    out = np.zeros(4, np.int32)
    ct.launch(None, (1,), kernel, (out,))
    np.testing.assert_array_equal(out, [30, 11, 21, 31])


def append(out: Any, value: Any) -> None:
    count = ct.gather(out, 0) + 1
    ct.scatter(out, 0, count)
    ct.scatter(out, count, value)


@contextlib.contextmanager
def noted(out: Any, start: Any, end: Any) -> Any:
    append(out, start)
    yield end
    append(out, end)


@contextlib.contextmanager
def wrapped(out: Any, n: Any) -> Any:
    append(out, n)
    with noted(out, n + 1, n + 4) as end:
        append(out, n + 2)
        yield end + 1
        append(out, n + 3)
    with noted(out, n + 5, n + 6):
        n += 100  # seen by nobody else


@dataclasses.dataclass(frozen=True)
class Notes:
    out: Any

    @contextlib.contextmanager
    def noted(self, start: Any, end: Any) -> Any:
        append(self.out, start)
        yield
        append(self.out, end)


def left_early(out, n):
    with noted(out, 1, 2):
        for i in range(n):
            with wrapped(out, 10 * i), Notes(out).noted(7, 8):
                if i == 1:
                    continue
                append(out, i)
                if i == 2:
                    break
                if i == n:
                    return 1
        with noted(out, 3, 4):
            while True:
                with noted(out, 5, 6):
                    return 2


def test_leaving_a_with_block_early_runs_what_follows_the_yield(backend: str) -> None:
    def in_python(n: int) -> list[int]:
        seen: list[int] = []

        class Recorder:
            def __enter__(self) -> None:
                seen.append(self.start)

            def __exit__(self, *_: Any) -> None:
                seen.extend(self.ends)

            def __init__(self, start: int, *ends: int) -> None:
                self.start, self.ends = start, ends

        with Recorder(1, 2):
            for i in range(n):
                m = 10 * i
                with Recorder(m, m + 5, m + 6), Recorder(m + 1, m + 4), Recorder(m + 2, m + 3), Recorder(7, 8):
                    if i == 1:
                        continue
                    seen.append(i)
                    if i == 2:
                        break
            with Recorder(3, 4), Recorder(5, 6):
                pass
        return [*seen, 2]

    @ct.kernel
    def kernel(out, n):
        append(out, left_early(out, n))

    for n in (1, 4):
        out = np.zeros(64, np.int32)
        ct.launch(None, (1,), kernel, (out, n))
        assert out[1 : 1 + out[0]].tolist() == in_python(n)


@contextlib.contextmanager
def two_yields() -> Any:
    yield 1
    yield 2


@contextlib.contextmanager
def guarded() -> Any:
    try:
        yield 1
    finally:
        pass


@contextlib.contextmanager
def in_a_branch(n: Any) -> Any:
    if n > 0:
        yield 1


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (two_yields, TTE),
        (guarded, TSE),
        (lambda: in_a_branch(1), TTE),
        (lambda: 3, TSE),
        (contextlib.nullcontext, UCE),
    ],
)
def test_what_is_no_context_manager(make: Callable[..., Any], error: type[ct.TileError]) -> None:
    def use(n):
        with make():
            pass

    refuses(use, error, 1)
