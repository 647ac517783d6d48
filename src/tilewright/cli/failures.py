"""What a program raises, shown from the program's own lines on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

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
