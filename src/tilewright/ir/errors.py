"""The exceptions of tile code, rendered with the source line, a caret and the inlining chain."""

from __future__ import annotations

import linecache

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


_MAX_FRAMES = 10  # of a longer chain the first ones and the last two are shown


def render(message: str, loc: Loc) -> str:
    """``file:line:column: message``, the source with a caret underneath, and the calls that led there."""
    lines = [f"{loc}: {message}"]
    frames = list(loc.chain())
    hidden = len(frames) - _MAX_FRAMES
    for i, frame in enumerate(frames):
        if hidden > 0 and i == _MAX_FRAMES - 2:
            lines.append(f"... {hidden} more calls ...")
        if hidden > 0 and _MAX_FRAMES - 2 <= i < len(frames) - 2:
            continue
        where = f" in {frame.function}" if frame.function else ""
        if frame is not loc:
            lines.append(f"called from {frame.file}:{frame.line}:{frame.column + 1}{where}")
        elif where:
            lines.append(f"  --> {frame.file}:{frame.line}{where}")
        lines.extend(_source_with_caret(frame))
    return "\n".join(lines)


def _source_with_caret(loc: Loc) -> list[str]:
    source = linecache.getline(loc.file, loc.line).rstrip("\n")
    if not source.strip():
        return []
    if loc.end_column is not None and loc.end_line in (None, loc.line):
        width = max(loc.end_column - loc.column, 1)
    else:
        width = max(len(source) - loc.column, 1)
    gutter = f"{loc.line:>5} | "
    # Tabs stay tabs in the padding so that the caret lines up in any terminal.
    pad = "".join("\t" if c == "\t" else " " for c in source[: loc.column])
    return [gutter + source, " " * (len(gutter) - 2) + "| " + pad + "^" * width]
