"""Our IR as CUDA Tile IR."""

from __future__ import annotations

from tilewright.tileir.export.function import Argument, export_function

__all__ = ["Argument", "export_function"]
