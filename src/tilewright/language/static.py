"""Compile-time evaluation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from tilewright.language.functions import tile_operation

__all__ = ["ensure_constant", "static_assert", "static_eval", "static_exception", "static_iter"]

_T = TypeVar("_T")


@tile_operation
def static_eval(expr: Any, /) -> Any:
    """The value of ``expr``, evaluated as ordinary Python while the kernel is compiled.

    Tiles and arrays appear with their ``dtype``, ``shape`` and ``ndim`` and can be combined with operators.
    Exceptions become ``StaticException``.

    >>> ct.static_eval(2 ** 3)
    8
    """


@tile_operation
def static_assert(condition: bool, message: Any = None, /) -> None:
    """Stops the compilation with ``TileStaticAssertionError`` unless the constant ``condition`` is true.

    ``message`` is evaluated only when it fails, as by ``static_eval``. TileTypeError when the condition is not a
    constant bool.

    >>> ct.static_assert(1 < 2)
    """


def static_assertion_failed(message: Any) -> str:
    """What the error of ``static_assert`` says."""
    text = "" if message is None else str(message)
    return f"Static assertion failed: {text}" if text else "Static assertion failed"


def static_iter(iterable: Iterable[_T]) -> Iterable[_T]:
    """Marks the iterable of a ``for`` loop, or of ``tuple(... for ...)``, that is unrolled at compile time.

    At most 1000 items; no ``break``, ``continue`` or ``return`` inside. On the host it returns its argument.

    >>> [n for n in ct.static_iter((1, 2))]
    [1, 2]
    """
    return iterable


_STATIC_DEF = "_tilewright_static_def"


def static_def(function: _T) -> _T:
    """Marks a function, method or ``__init__`` whose calls in tile code are evaluated as ``static_eval`` would.

    No public name: published programs take it from ``cuda.tile._execution``.
    """
    setattr(function, _STATIC_DEF, True)
    return function


def is_static_def(callee: Any) -> bool:
    """Whether ``callee``, or the ``__init__`` of a class, is marked by ``static_def``."""
    marked = vars(callee).get("__init__") if isinstance(callee, type) else callee
    return getattr(marked, _STATIC_DEF, None) is True


@tile_operation
def static_exception(exc: BaseException, /) -> BaseException:
    """In ``raise static_exception(...)``: stops the compilation when tracing reaches the statement.

    >>> @ct.kernel
    ... def narrow(x, TILE: ct.Constant[int]):
    ...     if TILE > 16:
    ...         raise ct.static_exception(ValueError("TILE is at most 16"))
    >>> try:
    ...     ct.launch(None, (1,), narrow, (np.zeros(32), 32))
    ... except ct.TileError as e:
    ...     print("TILE is at most 16" in str(e))
    True
    """
    raise exc


@tile_operation
def ensure_constant(value: _T, /) -> _T:
    """``value``, or ``TileStaticAssertionError`` when it is not known at compile time.

    >>> ct.ensure_constant(3)
    3
    """
    return value
