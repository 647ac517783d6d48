"""Decompression of zstd frames: by the standard library from Python 3.14 on, the package ``zstandard``, or the library
of the system."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

_SYSTEM = ("libzstd.so.1", "libzstd.1.dylib", "libzstd.dll")
_found: Any = None
try:
    from compression import zstd as _found  # type: ignore[import-not-found, no-redef]
except ImportError:
    with contextlib.suppress(ImportError):
        import zstandard as _found  # type: ignore[import-not-found, no-redef]


class ZstdError(ValueError):
    """What is no zstd frame, or cannot be decompressed here."""


def decompress(data: bytes, size: int) -> bytes:
    """The contents of the frame ``data``, which has ``size`` bytes when decompressed. ZstdError for others."""
    if _found is None:
        found = _by_system(data, size)
    else:
        try:
            if hasattr(_found, "backend"):  # the package
                found = bytes(_found.ZstdDecompressor().decompressobj().decompress(data))[: size + 1]
            else:
                found = bytes(_found.ZstdDecompressor().decompress(data, size + 1))
        except _found.ZstdError as e:
            raise ZstdError(str(e)) from None
    if len(found) != size:
        raise ZstdError(f"it holds {len(found)} bytes instead of {size}")
    return found


def _by_system(data: bytes, size: int) -> bytes:
    for name in _SYSTEM:
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(name)
            library.ZSTD_decompress.restype = ctypes.c_size_t
            library.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t] * 2
            made = ctypes.create_string_buffer(size)
            count = library.ZSTD_decompress(made, size, data, len(data))
            if library.ZSTD_isError(ctypes.c_size_t(count)):
                raise ZstdError("it is damaged")
            return made.raw[:count]
    raise ZstdError(
        "this needs Python 3.14, the package zstandard, which pip install 'tilewright[tileir]' brings, or libzstd; "
        "or compile with nvcc --no-compress"
    )
