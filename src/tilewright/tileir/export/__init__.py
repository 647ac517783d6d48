"""Our IR as CUDA Tile IR."""

from __future__ import annotations

from tilewright.tileir.export.function import Argument, Kernel, entry_name, export

__all__ = ["Argument", "Kernel", "entry_name", "export"]
