"""The modules of the package, parsed once for all tests of how they are written."""

from __future__ import annotations

import ast
import functools
import gc
from pathlib import Path

import tilewright

ROOT = Path(tilewright.__file__).parent


@functools.cache
def trees() -> dict[Path, ast.Module]:
    """The syntax trees of all modules."""
    gc.disable()  # it would look through all nodes again and again
    found = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOT.rglob("*.py"))}
    gc.enable()
    gc.freeze()
    return found
