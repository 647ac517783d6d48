"""An OpenMP runtime for launches, as PyTorch brings one."""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilewright.backends.cpu import openmp


@contextlib.contextmanager
def team(threads: int) -> Iterator[openmp.Runtime]:
    """Within this context the launches of this thread are parallel regions of so many threads, however late these are, and
    however long ago the last one was.

    Skips the test where there is no such runtime.
    """
    name = ctypes.util.find_library("gomp") if hasattr(os, "RTLD_NOLOAD") else None
    if name is None:
        pytest.skip("needs libgomp")
    library = ctypes.CDLL(name)
    found = openmp.find(Path(name))
    if found is None:
        pytest.skip("libgomp is too old")
    found = found._replace(members=list)
    before, patch = library.omp_get_max_threads(), pytest.MonkeyPatch()
    library.omp_set_num_threads(threads)
    openmp.use(found)
    patch.setattr(openmp, "note_use", lambda found, own, late: setattr(openmp.FREE, "value", 1))
    patch.setattr(openmp.AWAKE, "value", sys.maxsize)
    try:
        yield found
    finally:
        patch.undo()
        openmp.use(None)
        library.omp_set_num_threads(before)
