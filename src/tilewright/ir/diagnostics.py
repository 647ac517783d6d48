"""How errors in tile code are shown: the lines of the program, a caret, the message, and no frames of this package."""

from __future__ import annotations

import dis
import functools
import linecache
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from tilewright.ir.location import Loc

_PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep
_RUNNERS = ("<frozen ", f"{os.sep}IPython{os.sep}core{os.sep}", f"{os.sep}runpy.py")  # what runs a program or a cell
_MISUSE = (TypeError, ValueError, OverflowError, RuntimeError, NotImplementedError, AttributeError)
_RAISE = dis.opmap["RAISE_VARARGS"]
_MAX_FRAMES = 10  # of a longer chain of calls the first ones and the last two are shown
_WIDEST = 150  # of a longer line the part around the caret is shown
_BOLD, _RED, _DIM, _PLAIN = "\x1b[1m", "\x1b[1;31m", "\x1b[2m", "\x1b[0m"


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
    first = 0 if len(source) <= _WIDEST else max(0, loc.column - _WIDEST // 3)
    before, shown = "... " if first else "", source[first : first + _WIDEST]
    shown += " ..." if first + _WIDEST < len(source) else ""
    # Tabs stay tabs in the padding so that the caret lines up in any terminal.
    pad = " " * len(before) + "".join("\t" if c == "\t" else " " for c in source[first : loc.column])
    carets = "^" * min(width, max(first + _WIDEST - loc.column, 1))
    return [gutter + before + shown, " " * (len(gutter) - 2) + "| " + pad + carets]


def wants_full_traceback() -> bool:
    """Whether TILEWRIGHT_TRACEBACK asks for all frames.

    A value that it does not take is said, and no error: there is one already, which is to be shown.
    """
    text = os.environ.get("TILEWRIGHT_TRACEBACK", "")
    if text.strip().lower() not in ("", "short", "full") and sys.stderr is not None:
        sys.stderr.write(f"tilewright: TILEWRIGHT_TRACEBACK={text!r} is neither 'short' nor 'full'\n")
    return text.strip().lower() == "full"


def colored(stream: Any) -> bool:
    """Whether text for ``stream`` is to have colours: on terminals, unless NO_COLOR or FORCE_COLOR says otherwise."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    is_terminal = getattr(stream, "isatty", None)
    return is_terminal is not None and is_terminal() and os.environ.get("TERM") != "dumb"


def colored_in_ipython() -> bool:
    """Whether IPython or a notebook is to show colours: unless its shell has none, or NO_COLOR is set."""
    plain = str(getattr(_ipython(), "colors", "")).lower() == "nocolor"
    return not plain and not os.environ.get("NO_COLOR")


def _ipython() -> Any:
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


def short_traceback(error: BaseException, tb: TracebackType | None, color: bool) -> str:
    """The traceback of ``error`` without the frames of this package, and of what led to it on purpose."""
    parts = []
    if error.__cause__ is not None:
        parts += ["".join(traceback.format_exception(error.__cause__)), "\nWhich led to:\n\n"]
    frames = [frame for frame in traceback.extract_tb(tb) if not _is_hidden(frame.filename)]
    if frames:
        parts += ["Traceback (most recent call last):\n", *traceback.format_list(frames)]
    kind = type(error).__name__
    parts.append(f"{_RED}{kind}{_PLAIN}: " if color else f"{kind}: ")
    message = "\n".join([str(error), *getattr(error, "__notes__", ())])
    parts.append("\n".join(_highlighted(message)) if color else message)
    return "".join(parts) + "\n"


def _is_hidden(filename: str) -> bool:
    return filename.startswith(_PACKAGE) or any(part in filename for part in _RUNNERS)


def _highlighted(message: str) -> Iterator[str]:
    """The lines of a rendered error: the message bold, carets red, line numbers dim."""
    for i, line in enumerate(message.splitlines()):
        gutter, bar, rest = line.partition(" | ")
        if i == 0:
            yield f"{_BOLD}{line}{_PLAIN}"
        elif bar and rest.strip(" \t^") == "" and "^" in rest:
            yield f"{_DIM}{gutter}{bar}{_PLAIN}{_RED}{rest}{_PLAIN}"
        elif bar and gutter.strip().isdigit():
            yield f"{_DIM}{gutter}{bar}{_PLAIN}{rest}"
        else:
            yield line


def raised_on_purpose(tb: TracebackType | None) -> bool:
    """Whether a ``raise`` of this package made the error with this traceback: no defect, and nobody else's error."""
    if tb is None:
        return False
    while tb.tb_next is not None:
        tb = tb.tb_next
    code = tb.tb_frame.f_code
    return code.co_filename.startswith(_PACKAGE) and code.co_code[tb.tb_lasti] == _RAISE


def show_short_tracebacks(kinds: tuple[type[BaseException], ...], unless: type[BaseException]) -> None:
    """Make Python print the errors of ``kinds`` that nothing catches by ``short_traceback``, but those of ``unless``.

    So are the errors of ``_MISUSE`` that this package raises about what a program asks of it. A program that has a hook
    of its own keeps it. IPython and notebooks do the same.
    """
    _show_short_tracebacks_in_ipython()
    if sys.excepthook is not sys.__excepthook__:
        return

    def hook(found: type[BaseException], error: BaseException, tb: TracebackType | None) -> None:
        ours = isinstance(error, kinds) or _is_misuse(error, tb)
        if not ours or isinstance(error, unless) or wants_full_traceback():
            sys.__excepthook__(found, error, tb)
            return
        stream: TextIO | None = sys.stderr
        if stream is not None:
            stream.write(short_traceback(error, tb, colored(stream)))
            stream.flush()

    sys.excepthook = hook


def _is_misuse(error: BaseException, tb: TracebackType | None) -> bool:
    return type(error) in _MISUSE and raised_on_purpose(tb)


def _show_short_tracebacks_in_ipython() -> None:
    """Let the shell that runs this process, if it is IPython's, show misuse as it shows errors in tile code.

    It asks every error for ``_render_traceback_``, which those classes have that are ours; Python's own get one when
    the shell is about to show them.
    """
    shell = _ipython()
    if shell is None or hasattr(shell.showtraceback, "__wrapped__"):
        return
    show: Callable[..., None] = shell.showtraceback

    @functools.wraps(show)
    def showtraceback(exc_tuple: Any = None, *args: Any, **options: Any) -> None:
        error = sys.exc_info()[1] if exc_tuple is None else exc_tuple[1]
        if error is not None and _is_misuse(error, error.__traceback__) and not wants_full_traceback():
            lines = short_traceback(error, error.__traceback__, colored_in_ipython()).splitlines()
            error._render_traceback_ = lambda: lines  # type: ignore[union-attr]
        show(exc_tuple, *args, **options)

    shell.showtraceback = showtraceback
