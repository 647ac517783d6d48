"""Marking functions: ``@function``, and the stubs of tile operations."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

from tilewright.ir.errors import TileError
from tilewright.language.suggestions import explains_arguments

__all__ = ["function"]

_F = TypeVar("_F", bound=Callable[..., Any])
_P = ParamSpec("_P")
_R = TypeVar("_R")


class Evaluator(Protocol):
    """What evaluates tile code that Python itself runs."""

    def call(self, operation: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], /) -> Any:
        """A tile operation at once, on eager tiles."""

    def call_function(self, function: TileFunction, arguments: tuple[Any, ...], keywords: dict[str, Any], /) -> Any:
        """A function of tile code. RuntimeError unless eager tiles are among its arguments."""


_evaluator: Callable[[], Evaluator] | None = None


def set_evaluator(load: Callable[[], Evaluator]) -> None:
    """Let what ``load`` returns evaluate tile code that Python itself runs; ``load`` is called for each."""
    global _evaluator
    _evaluator = load


def _loaded_evaluator() -> Evaluator:
    if _evaluator is None:
        raise RuntimeError("tile operations can be called once the package tilewright is imported")
    return _evaluator()


# Set while a kernel is compiled and host code runs on its behalf: what tile operations mean to that code.
COMPILE_TIME: ContextVar[Callable[[Any, tuple[Any, ...], dict[str, Any]], Any] | None] = ContextVar(
    "compile time", default=None
)


def evaluate(operation: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """``operation(*arguments, **keywords)`` at once, on eager tiles. TileError as in a kernel, without our frames."""
    at_compile_time = COMPILE_TIME.get()
    if at_compile_time is not None:
        return at_compile_time(operation, arguments, keywords)
    try:
        return _loaded_evaluator().call(operation, arguments, keywords)
    except TileError as e:
        raise e.with_traceback(None) from None


def tile_operation(stub: _F) -> _F:
    """Marks ``stub`` as an operation of tile code: the front end compiles calls of it, its body never runs.

    Called by Python itself it is evaluated at once: see ``tilewright.eager``.
    """

    @functools.wraps(stub)
    def on_host(*args: Any, **kwargs: Any) -> Any:
        return evaluate(on_host, args, kwargs)

    return cast(_F, on_host)


def operation_like(model: Callable[_P, _R]) -> Callable[[Callable[[], None]], Callable[_P, _R]]:
    """Marks a stub as an operation of tile code that takes and gives what ``model`` does."""

    def mark(stub: Callable[[], None]) -> Callable[_P, _R]:
        setattr(stub, "__signature__", inspect.signature(model))  # noqa: B010  which types do not know
        return cast("Callable[_P, _R]", tile_operation(stub))

    return mark


class TileFunction:
    """A function marked with ``@function``: see there."""

    def __init__(self, function: Callable[..., Any], host: bool, tile: bool) -> None:
        self.function = function
        self.host = host
        self.tile = tile
        functools.update_wrapper(self, function)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.host:
            return self.function(*args, **kwargs)
        return _loaded_evaluator().call_function(self, args, kwargs)


@overload
def function(func: Callable[..., Any], /, *, host: bool = False, tile: bool = True) -> TileFunction: ...
@overload
def function(func: None = None, /, *, host: bool = False, tile: bool = True) -> Callable[..., TileFunction]: ...
@explains_arguments
def function(func: Callable[..., Any] | None = None, /, *, host: bool = False, tile: bool = True) -> Any:
    """Marks a function that kernels call. The marker is optional: plain functions are compiled when called.

    With ``host=True`` the function may also be called on the host, as ordinary Python; with ``tile=False`` only
    there. A tile function that the host calls raises RuntimeError, unless its arguments are eager tiles. TypeError for
    anything but a function.

    >>> @ct.function(host=True)
    ... def blocks(n, tile):
    ...     return ct.cdiv(n, tile)
    >>> blocks(1000, 128)
    8
    """
    if func is None:
        return lambda f: function(f, host=host, tile=tile)
    if not (callable(func) or isinstance(func, classmethod)):  # type: ignore[unreachable]
        raise TypeError(f"@ct.function marks a Python function, not {func!r}")
    return TileFunction(func, host, tile)
