"""Marking functions: ``@function``, and the stubs of tile operations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast, overload

_F = TypeVar("_F", bound=Callable[..., Any])


def tile_operation(stub: _F) -> _F:
    """Marks ``stub`` as an operation of tile code: the front end compiles calls of it, its body never runs.

    Calling it on the host raises RuntimeError.
    """

    @functools.wraps(stub)
    def on_host(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"ct.{stub.__name__}() is a tile operation: it can only be called in a kernel. "
            "Mark the calling function with @ct.kernel and run it with ct.launch(stream, grid, kernel, args)"
        )

    return cast(_F, on_host)


class TileFunction:
    """A function marked with ``@function``: see there."""

    def __init__(self, function: Callable[..., Any], host: bool, tile: bool) -> None:
        self.function = function
        self.host = host
        self.tile = tile
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.host:
            raise RuntimeError(
                f"{self.function.__name__}() is a tile function and cannot be called on the host; "
                "mark it with @ct.function(host=True) if it is meant for both"
            )
        return self.function(*args, **kwargs)


@overload
def function(func: Callable[..., Any], /, *, host: bool = False, tile: bool = True) -> TileFunction: ...
@overload
def function(func: None = None, /, *, host: bool = False, tile: bool = True) -> Callable[..., TileFunction]: ...
def function(func: Callable[..., Any] | None = None, /, *, host: bool = False, tile: bool = True) -> Any:
    """Marks a function that kernels call. The marker is optional: plain functions are compiled when called.

    With ``host=True`` the function may also be called on the host, as ordinary Python; with ``tile=False`` only
    there. Calling a tile function on the host raises RuntimeError. Source: guide 2.4.1.
    """
    if func is None:
        return lambda f: TileFunction(f, host, tile)
    return TileFunction(func, host, tile)
