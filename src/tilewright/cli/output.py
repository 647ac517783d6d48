"""What commands print: a reader that has gone changes nothing else, and a full disk is an error."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TextIO

from tilewright.cli.errors import FAILED, MISUSE, Failure, UsageError, show
from tilewright.ir.errors import TileError
from tilewright.system.environment import SettingError


def open_streams() -> None:
    """Give a process that was started without standard streams empty ones, before a file gets their numbers."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - as long as the process


def say(text: str = "", *, error: bool = False) -> None:
    """Print a line, on the standard error stream with ``error``. Failure where it cannot be written."""
    stream = sys.stderr if error else sys.stdout
    try:
        stream.write(text + "\n")
        stream.flush()
    except BrokenPipeError:  # the reader, such as head, has seen enough; the command goes on
        _mute(stream)
    except OSError as e:
        _mute(stream)
        if not error:
            raise Failure(f"cannot write to the standard output: {e.strerror}") from None


def status_of(end: Callable[[], int]) -> int:
    """The exit status that ``end`` returns or that stands for the error that it raises, which is shown.

    What a program raises is shown as Python would show it, from the program's own lines on.
    """
    try:
        return finish(end())
    except (UsageError, SettingError) as e:
        say(f"tilewright: {e}", error=True)
        return MISUSE
    except (Failure, TileError) as e:
        say(f"tilewright: {e}", error=True)
        return FAILED
    except Exception as e:  # noqa: BLE001 - whatever a program raises is its failure
        show(e)
        return finish(FAILED)


def finish(status: int) -> int:
    """The exit status, after what a program has left in the standard output is written: 120 where that fails, as of
    Python itself, unless something failed before."""
    try:
        sys.stdout.flush()
    except OSError:
        _mute(sys.stdout)
        return status or 120
    return status


def _mute(stream: TextIO) -> None:
    """Send what follows to nowhere: the end of the process flushes the stream once more."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # no file, such as a test's buffer
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
