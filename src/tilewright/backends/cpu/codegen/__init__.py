"""From a Tile IR function to an LLVM module: ``codegen.lower``, after the passes of ``codegen.optimize``.

Both load when they are first used: a kernel from the disk cache needs neither.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.backends.cpu.codegen.kernel import lower
    from tilewright.passes.pipelines import optimize

__all__ = ["lower", "optimize"]

_MODULES = {"lower": "tilewright.backends.cpu.codegen.kernel", "optimize": "tilewright.passes.pipelines"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(name)
