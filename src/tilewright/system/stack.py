"""The stack of the calling thread, which compilers recurse on."""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import Any

NEEDED = 64 << 10  # bytes: with half of that, compiling a small kernel overflows the stack, which ends the process
_ENOUGH = threading.local()  # has ``known`` in threads that have been asked: for the main one Linux reads all mappings


def require_stack() -> None:
    """RuntimeError where the calling thread's stack is too small to compile in."""
    if hasattr(_ENOUGH, "known"):
        return
    size = stack_bytes()
    if size is not None and size < NEEDED:
        raise RuntimeError(
            f"this thread has a stack of {size >> 10} KiB, and compiling a kernel needs at least {NEEDED >> 10}: call "
            "threading.stack_size(1 << 20) before the thread is made, or launch the kernel once in another thread"
        )
    _ENOUGH.known = True


def stack_bytes() -> int | None:
    """The size of the calling thread's stack; None where the system does not tell."""
    library = _pthreads()
    if library is None:
        return None
    attributes = ctypes.create_string_buffer(256)  # pthread_attr_t: 56 bytes on Linux
    size = ctypes.c_size_t()
    if library.pthread_getattr_np(ctypes.c_void_p(library.pthread_self()), attributes) != 0:
        return None
    found = library.pthread_attr_getstacksize(attributes, ctypes.byref(size)) == 0
    library.pthread_attr_destroy(attributes)
    return size.value if found else None


@functools.cache
def _pthreads() -> Any:
    """The C library, where it has ``pthread_getattr_np``, which is not in POSIX."""
    try:
        library = ctypes.CDLL(None)
        library.pthread_self.restype = ctypes.c_void_p
        library.pthread_getattr_np.restype = ctypes.c_int
    except (OSError, AttributeError, TypeError):
        return None
    return library
