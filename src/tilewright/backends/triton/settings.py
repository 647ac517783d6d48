"""Triton's own settings, changed for the time of a compilation."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import triton
from triton._C import libtriton
from triton.runtime import cache

from tilewright.system.environment import changed

TRITON_VERSION: str = triton.__version__
# Variables of the environment for Triton. MMA ops of warp groups, which only Hopper has, ptxas compiles wrongly where
# a left operand is in registers, two have equal operands, or tiles of two layouts take turns at one address.
_WITHOUT_WARP_GROUPS, _WITHOUT_TENSOR_MEMORY = "DISABLE_MMA_V3", "DISABLE_MMA_V5"


@functools.cache
def _fingerprint() -> str:
    library = Path(libtriton.__file__)
    found = library.stat()
    return f"{TRITON_VERSION} {library} {found.st_size} {found.st_mtime_ns}"


@contextlib.contextmanager
def known_by_fingerprint() -> Iterator[None]:
    """A context in which Triton's cache knows Triton by when it was installed.

    Reading all of its hundreds of megabytes, as it does otherwise, takes most of the time of a first compilation.
    """
    kept = cache.triton_key
    cache.triton_key = _fingerprint
    try:
        yield
    finally:
        cache.triton_key = kept


@contextlib.contextmanager
def output_to(file: IO[str]) -> Iterator[None]:
    """What the compiler prints, and what its native code writes to the standard error, goes to ``file`` instead."""
    sys.stderr.flush()
    kept, stdout = os.dup(2), sys.stdout
    os.dup2(file.fileno(), 2)
    sys.stdout = file
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        sys.stdout = stdout


def mma_ops(*, tensor_memory: bool) -> contextlib.AbstractContextManager[None]:
    """A context in which MMA ops are never those of warp groups, and of ``tensor_memory`` only if that is used."""
    without = _WITHOUT_WARP_GROUPS, *([] if tensor_memory else [_WITHOUT_TENSOR_MEMORY])
    return changed(dict.fromkeys(without, "1"))


@contextlib.contextmanager
def without_buffer_atomics() -> Iterator[None]:
    """A context in which kernels for AMD use no buffer atomics, of which LLVM lacks some."""
    with triton.knobs.amd.scope():
        triton.knobs.amd.use_buffer_atomics = False
        yield
