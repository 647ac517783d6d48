"""Run-time values inside ``static_eval``: host code sees their dtype, shape and rank, and may combine them."""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright.frontend.python.constants import define_operators
from tilewright.frontend.python.merge import describe, is_record, with_fields
from tilewright.frontend.python.ops.table import METHODS
from tilewright.frontend.python.scope import LocalFunction
from tilewright.frontend.python.values import Array, ArrayList, BoundMethod, Keywords, Tile, TiledView
from tilewright.ir.dtypes import DType
from tilewright.ir.errors import TileStaticEvalError
from tilewright.language.arithmetic import maximum, minimum

if TYPE_CHECKING:
    from tilewright.frontend.python.semantics import ValueSemantics


_KINDS: dict[type, str] = {Tile: "tile", Array: "array", TiledView: "tiled view"}


class HostMethod:
    """A method of a run-time value, which host code may pass around and the kernel may call."""

    def __init__(self, method: BoundMethod) -> None:
        self.method = method

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return tile_operation_at_compile_time(self.method.stub, arguments, keywords)


class HostLocal:
    """A function that tile code defines: host code may pass it around, and the kernel may call it."""

    def __init__(self, function: LocalFunction) -> None:
        self.function = function

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        raise TileStaticEvalError(
            f"{self.function.name} is defined in tile code, so host code cannot call it at compile time; call it in "
            "the kernel itself, or define it outside of the kernel"
        )


class Proxy:
    """A run-time value that host code may inspect, pass around and, for tiles, combine with operators."""

    def __init__(self, tracer: ValueSemantics, value: Any) -> None:
        self._tracer = tracer
        self._value = value

    @property
    def dtype(self) -> DType:
        return self._value.dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(as_host_value(self._tracer, n) for n in self._value.shape)

    @property
    def ndim(self) -> int:
        return len(self._value.shape)

    @property
    def strides(self) -> tuple[Any, ...]:
        if not isinstance(self._value, Array):
            raise AttributeError(f"{describe(self._value)} has no attribute 'strides' at compile time")
        return tuple(as_host_value(self._tracer, n) for n in self._value.strides)

    def __repr__(self) -> str:
        shape = ", ".join("?" if isinstance(n, Proxy) else str(n) for n in self.shape)
        shape += "," * (self.ndim == 1)
        return f"<{_KINDS[type(self._value)]}[{self.dtype}, ({shape})]>"

    def __getattr__(self, name: str) -> HostMethod:
        method = METHODS.get(type(self._value), {}).get(name)
        if method is None:
            raise AttributeError(f"{describe(self._value)} has no attribute {name!r} at compile time")
        return HostMethod(BoundMethod(self._value, method))

    def __bool__(self) -> bool:
        raise TileStaticEvalError("a run-time value has no truth at compile time", self._tracer.builder.loc)

    def __index__(self) -> int:
        raise TileStaticEvalError(
            f"{describe(self._value)} is known at run time only: it cannot be an index or a number at compile time; "
            "loop over range(...), or pass the number as ct.Constant",
            self._tracer.builder.loc,
        )

    def __hash__(self) -> int:
        return id(self._value)


# What Python's own messages call them, such as "'function' object cannot be interpreted as an integer".
HostMethod.__name__, HostLocal.__name__, Proxy.__name__ = "method", "function", "run-time value"


def _binary(key: str, reflected: bool) -> Any:
    def method(self: Proxy, other: Any) -> Any:
        t = self._tracer
        x, y = self._value, from_host_value(t, other)
        return as_host_value(t, t.operator(key, y, x) if reflected else t.operator(key, x, y))

    return method


def _unary(key: str) -> Any:
    return lambda self: as_host_value(self._tracer, self._tracer.operator(key, self._value))


define_operators(Proxy, _binary, _unary)


def _choose(name: str) -> Any:
    """The builtin ``min`` or ``max``, which combines two tiles element by element as in tile code."""
    builtin = getattr(builtins, name)

    def choose(*values: Any, **options: Any) -> Any:
        proxy = next((v for v in values if isinstance(v, Proxy)), None)
        if proxy is None or len(values) != 2 or options:
            return builtin(*values, **options)
        t = proxy._tracer
        return as_host_value(t, t.operator(name, *(from_host_value(t, v) for v in values)))

    return choose


# What host code finds in place of Python's own functions.
NAMES = {name: _choose(name) for name in ("min", "max")}
_OPERATIONS = {minimum: NAMES["min"], maximum: NAMES["max"]}


def tile_operation_at_compile_time(operation: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """What host code gets that calls a tile operation while a kernel is compiled."""
    if operation in _OPERATIONS and any(isinstance(a, Proxy) for a in arguments):
        return _OPERATIONS[operation](*arguments, **keywords)
    name = getattr(operation, "__name__", str(operation))
    raise TileStaticEvalError(
        f"ct.{name}() is a tile operation, which host code cannot call at compile time; call it in the kernel itself"
    )


def as_host_value(t: ValueSemantics, value: Any) -> Any:
    """A compile-time value as ``static_eval`` shows it to host code."""
    if isinstance(value, Tile) and value.constant is not None:
        return value.constant
    if isinstance(value, (Tile, Array, TiledView, ArrayList)):
        return Proxy(t, value)
    if isinstance(value, BoundMethod):
        return HostMethod(value)
    if isinstance(value, LocalFunction):
        return HostLocal(value)
    if type(value) is tuple:
        return tuple(as_host_value(t, v) for v in value)
    if isinstance(value, Keywords):
        return {name: as_host_value(t, v) for name, v in value.items()}
    return _converted(t, value, as_host_value) if is_record(value) else value


def from_host_value(t: ValueSemantics, value: Any) -> Any:
    """What host code returned, as a compile-time value."""
    if isinstance(value, Proxy):
        return value._value
    if isinstance(value, HostMethod):
        return value.method
    if isinstance(value, HostLocal):
        return value.function
    if type(value) is tuple:
        return tuple(from_host_value(t, v) for v in value)
    if is_record(value):
        value = _converted(t, value, from_host_value)
    return t.imported(value, "the result of static_eval")


def _converted(t: ValueSemantics, record: Any, convert: Callable[[ValueSemantics, Any], Any]) -> Any:
    """``record``, an instance of a dataclass, or a copy if ``convert`` changes any of its fields."""
    fields = {f.name: getattr(record, f.name) for f in dataclasses.fields(record) if hasattr(record, f.name)}
    changed = {name: convert(t, value) for name, value in fields.items()}
    return record if all(changed[name] is fields[name] for name in fields) else with_fields(record, changed)
