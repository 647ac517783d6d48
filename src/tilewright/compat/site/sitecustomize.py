"""Python imports this at the start of a process that has this folder on its path: see ``compat.children``."""

from __future__ import annotations

import contextlib
import importlib
import sys
from pathlib import Path

with contextlib.suppress(ImportError):  # a Python without tilewright goes its own way
    importlib.import_module("tilewright.compat.children").join()

# The sitecustomize that this one hides.
_here = str(Path(__file__).parent)
if _here in sys.path and sys.modules.get("sitecustomize") is sys.modules[__name__]:
    sys.path.remove(_here)
    _hiding = sys.modules.pop("sitecustomize")
    with contextlib.suppress(ImportError):
        importlib.import_module("sitecustomize")
    sys.modules.setdefault("sitecustomize", _hiding)  # whoever imports it wants to find one
