"""The exceptions of tile code, rendered with the source line, a caret and the inlining chain."""

from __future__ import annotations

import traceback

from tilewright.ir.diagnostics import colored_in_ipython, render, short_traceback, wants_full_traceback
from tilewright.ir.location import Loc


class TileError(Exception):
    """Base of every error found in tile code.

    ``message`` is the bare text; ``loc`` says where, or is None when no source is involved. ``compiler_output`` is
    what another compiler that took part said itself, or None.
    """

    compiler_output: str | None = None

    def __init__(self, message: str, loc: Loc | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.loc = loc

    def __str__(self) -> str:
        if self.loc is None:
            return self.message
        return render(self.message, self.loc)

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython and notebooks show in the place of their own traceback."""
        if isinstance(self, TileInternalError) or wants_full_traceback():
            return "".join(traceback.format_exception(self)).splitlines()
        return short_traceback(self, self.__traceback__, colored_in_ipython()).splitlines()


class TileSyntaxError(TileError):
    """A Python construct that tile code does not have."""


class TileTypeError(TileError):
    """A value of the wrong type, dtype, rank or shape, or a run-time value where a constant is needed."""


class TileValueError(TileError):
    """A constant of the right type whose value is not allowed."""


class TileUndefinedError(TileValueError):
    """A constant that the language leaves undefined; ``category`` is what the sanitizer calls it."""

    def __init__(self, message: str, loc: Loc | None = None, category: str = "") -> None:
        super().__init__(message, loc)
        self.category = category


class TileRecursionError(TileError):
    """Recursion that does not end while the kernel is being compiled."""


class TileUnsupportedFeatureError(TileError):
    """A feature that the chosen backend or architecture does not have."""


class TileStaticAssertionError(TileError):
    """A ``static_assert`` that failed."""


class UnsupportedCallError(TileError):
    """A call to something that tile code cannot call."""


class TileStaticEvalError(TileError):
    """A failure inside ``static_eval`` or ``static_iter``."""


class StaticException(TileStaticEvalError):
    """An exception that host code raised at compile time."""


class TileInternalError(TileError):
    """A defect of the compiler itself."""


class TileCompilerError(TileInternalError):
    """The native compiler of a backend failed."""

    def __init__(
        self, message: str, loc: Loc | None = None, compiler_flags: str = "", compiler_version: str | None = None
    ) -> None:
        super().__init__(message, loc)
        self.compiler_flags = compiler_flags
        self.compiler_version = compiler_version


class TileCompilerExecutionError(TileCompilerError):
    """The native compiler stopped with an error."""


class TileCompilerTimeoutError(TileCompilerError):
    """The native compiler took longer than ``compiler_timeout`` allows."""
