"""The bytecode of CUDA Tile IR, versions 13.1 to 13.5: read and written."""

from __future__ import annotations

from tilewright.tileir.bytecode.reader import MAGIC, read
from tilewright.tileir.bytecode.writer import write

__all__ = ["MAGIC", "read", "write"]
