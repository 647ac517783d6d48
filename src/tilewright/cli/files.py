"""Running the Python files that commands are given."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path

from tilewright.cli.errors import UsageError


def load_module(path: Path) -> types.ModuleType:
    """The module in the file ``path``, which finds its neighbours as a program would. UsageError without a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"there is no Python file {path}")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
