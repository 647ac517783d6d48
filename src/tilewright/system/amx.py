"""The tile registers of AMX, which Linux lets only processes use that have asked for them."""

from __future__ import annotations

import ctypes
import functools
import platform
import sys

_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18  # <asm/unistd_64.h>, <asm/prctl.h>, XSAVE's component


@functools.cache
def request_tiles() -> bool:
    """Ask for them, for all threads of this process; False where there are none, or the kernel refuses."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    return bool(ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) == 0)
