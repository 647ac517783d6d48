"""From a Tile IR function to an LLVM module: ``codegen.lower``.

The generator loads when it is first used: a kernel from the disk cache needs none of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.backends.cpu.codegen.kernel import lower

__all__ = ["lower"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("tilewright.backends.cpu.codegen.kernel"), name)
    raise AttributeError(name)
