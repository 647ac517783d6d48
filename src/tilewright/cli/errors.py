"""How commands end: their exit statuses, the errors that stand for them, and what is shown of those of programs."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

FINE, FINDINGS, MISUSE, FAILED = range(4)
STATUSES = """\
exit status: 0 fine, 1 something was found (a violation, a wrong result), 2 misuse of the command, 3 the program failed;
a program that ends itself keeps its own"""


class UsageError(Exception):
    """What was typed cannot be done; the message says why and what to type instead. The status is ``MISUSE``."""


class Failure(Exception):
    """What was typed makes sense, and could not be carried out. The status is ``FAILED``."""


@contextlib.contextmanager
def misused(*kinds: type[Exception]) -> Iterator[None]:
    """Errors of these ``kinds`` say what is wrong with what was typed."""
    try:
        yield
    except kinds as e:
        raise UsageError(str(e)) from e


@contextlib.contextmanager
def writing(path: object, kind: type[Exception] = UsageError) -> Iterator[None]:
    """A file that cannot be written is an error of ``kind``."""
    try:
        yield
    except OSError as e:
        raise kind(f"cannot write {path}: {e.strerror}") from None


_PACKAGE = Path(__file__).parents[1]
# What leads to a program: frames of these say nothing about it.
_RUNNERS = (*(f"{_PACKAGE / part}{os.sep}" for part in ("cli", "compat")), "<frozen ", f"{os.sep}runpy.py")


def show(error: Exception) -> None:
    """Print ``error`` as the hook of the process does; with all frames where none is the program's."""
    tb = error.__traceback__
    while tb is not None and any(part in tb.tb_frame.f_code.co_filename for part in _RUNNERS):
        tb = tb.tb_next
    if tb is not None:
        error = error.with_traceback(tb)
    sys.excepthook(type(error), error, error.__traceback__)
