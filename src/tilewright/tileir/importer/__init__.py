"""CUDA Tile IR as our IR."""

from __future__ import annotations

from tilewright.tileir.importer.function import Imported, Memory, import_entry

__all__ = ["Imported", "Memory", "import_entry"]
