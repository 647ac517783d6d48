"""Decompression of zstd frames: by the standard library from Python 3.14 on, or by the package ``zstandard``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

_found: Any = None
try:
    from compression import zstd as _found  # type: ignore[import-not-found, no-redef]
except ImportError:
    with contextlib.suppress(ImportError):
        import zstandard as _found  # type: ignore[import-not-found, no-redef]


class ZstdError(Exception):
    """What is no zstd frame, or cannot be decompressed here."""


def decompress(data: bytes, size: int) -> bytes:
    """The contents of the frame ``data``, which has ``size`` bytes when decompressed. ZstdError for others."""
    if _found is None:
        raise ZstdError(
            "this needs Python 3.14 or the package zstandard, which pip install 'tilewright[tileir]' brings; "
            "or compile with nvcc --no-compress"
        )
    try:
        found = _decoder(size)(data)
    except _found.ZstdError as e:
        raise ZstdError(str(e)) from None
    if len(found) != size:
        raise ZstdError(f"it holds {len(found)} bytes instead of {size}")
    return found


def _decoder(size: int) -> Callable[[bytes], bytes]:
    """A function that reads one frame and gives at most one byte more than ``size``."""
    if hasattr(_found, "ZstdDecompressor") and hasattr(_found, "compress") and not hasattr(_found, "backend"):
        return lambda data: bytes(_found.ZstdDecompressor().decompress(data, size + 1))
    return lambda data: bytes(_found.ZstdDecompressor().decompressobj().decompress(data))[: size + 1]
