"""The record by which launches of this process keep off each other's sums: see ``codegen/locked_sums.py``."""

from __future__ import annotations

import ctypes
import os

from tilewright.backends.cpu.context import EXCLUSION_WORDS, Exclusion

_RECORD = (ctypes.c_int64 * EXCLUSION_WORDS)()
EXCLUSION = ctypes.addressof(_RECORD)


def _in_child() -> None:
    """Free the locks of threads that a child does not have. The workers that these were stay counted, which makes sums
    slower there."""
    ctypes.memset(EXCLUSION + 8 * Exclusion.LOCKS, 0, 8 * (EXCLUSION_WORDS - Exclusion.LOCKS))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
