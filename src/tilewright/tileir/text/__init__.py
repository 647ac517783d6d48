"""The text form of CUDA Tile IR, as ``tileirdisasm`` prints it."""

from __future__ import annotations

from tilewright.tileir.text.parser import parse_module
from tilewright.tileir.text.printer import print_module

__all__ = ["parse_module", "print_module"]
