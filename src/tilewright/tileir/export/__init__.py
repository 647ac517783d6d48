"""Our IR as CUDA Tile IR."""

from __future__ import annotations

from tilewright.tileir.export.function import Argument, Kernel, entry_name, export
from tilewright.tileir.export.tokens import moves_through_memory

__all__ = ["Argument", "Kernel", "entry_name", "export", "moves_through_memory"]
