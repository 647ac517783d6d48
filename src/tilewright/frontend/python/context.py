"""What an op builder may do: emit IR at the insertion point, and report errors there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from tilewright.ir.builder import Builder
from tilewright.ir.errors import TileError, TileTypeError


class Context(Protocol):
    """The part of the tracer that op builders see."""

    builder: Builder  # its ``loc`` is the location of the call being built

    def fail(self, message: str, error: type[TileError] = TileTypeError, *, argument: str | None = None) -> NoReturn:
        """Raise ``error`` at the current call; ``argument`` names the parameter, whose expression gets the caret."""

    def call(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call any callable of tile code (a Python function, lambda, stub, dtype) with compile-time values."""


OpBuilder = Callable[..., Any]  # builder(context, *arguments, **keywords) -> compile-time value
