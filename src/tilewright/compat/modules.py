"""``cuda.tile`` and its submodules as names for ours."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
from collections.abc import Sequence
from enum import Enum

from tilewright.compat import private

OURS = "tilewright"
THEIRS = "cuda.tile"

EXPERIMENTAL = "cuda.tile_experimental"
# The environment variables of ``cuda.tile``, as ours.
_VARIABLES = {
    "CUDA_TILE_CACHE_DIR": "TILEWRIGHT_CACHE_DIR",
    "CUDA_TILE_CACHE_SIZE": "TILEWRIGHT_CACHE_SIZE",
    "CUDA_TILE_COMPILER_TIMEOUT_SEC": "TILEWRIGHT_COMPILER_TIMEOUT",
}
_LOGS = ("CUTILEIR", "TILEIR")


class Implementation(Enum):
    """What ``import cuda.tile`` gives in this process."""

    TILEWRIGHT = "tilewright"
    ORIGINAL = "the installed cuda.tile"


def install(*, replace: bool = False) -> Implementation:
    """Make ``import cuda.tile`` (and ``cuda.tile.tune`` and so on) give tilewright.

    An installed ``cuda.tile`` is left alone unless ``replace`` is true. Returns which implementation programs get.
    Programs may go on using the environment variables of the original: see ``_adopt_environment``. Calling it again
    changes nothing. RuntimeError when the original has been imported already and ``replace`` asks
    for ours.
    """
    if any(isinstance(f, _Finder) for f in sys.meta_path):
        return Implementation.TILEWRIGHT
    if THEIRS in sys.modules:
        if replace:
            raise RuntimeError("cuda.tile has been imported already; call tilewright.compat.install before that")
        return Implementation.ORIGINAL
    if not replace and _original_exists():
        return Implementation.ORIGINAL
    _adopt_environment()
    # What programs read of the original to make a kernel with other hints from one that exists.
    importlib.import_module(OURS).kernel._pyfunc = property(lambda kernel: kernel.function)
    sys.meta_path.insert(0, _Finder())
    return Implementation.TILEWRIGHT


def _adopt_environment() -> None:
    """Give what the variables of ``cuda.tile`` ask for to our own ones that are not set.

    The folder and size of the cache and the time limit mean the same; either kind of log shows the Tile IR of each
    kernel that is compiled. RuntimeError for logs that the original does not know either.
    """
    for theirs, ours in _VARIABLES.items():
        if theirs in os.environ:
            os.environ.setdefault(ours, os.environ[theirs])
    logs = [name.strip() for name in os.environ.get("CUDA_TILE_LOGS", "").split(",") if name.strip()]
    unknown = [name for name in logs if name not in _LOGS]
    if unknown:
        raise RuntimeError(f"CUDA_TILE_LOGS: there is no log {unknown[0]!r}; the logs are {', '.join(_LOGS)}")
    if logs:
        os.environ.setdefault("TILEWRIGHT_SHOW_IR", "1")


def _original_exists() -> bool:
    try:
        return importlib.util.find_spec(THEIRS) is not None
    except ModuleNotFoundError:  # there is no package ``cuda`` at all
        return False


_PRIVATE = {f"{THEIRS}.{name}": name for name in private.MODULES}
# ``from cuda.tile import _cext`` looks for a submodule of the package by the package's own name.
_FROM_PACKAGE = {f"{OURS}.{name}": f"{THEIRS}.{name}" for name in private.MODULES}


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``cuda.tile...`` as ``tilewright...``, and ``cuda`` itself where nothing else provides it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname in _PRIVATE or fullname in _FROM_PACKAGE or fullname == EXPERIMENTAL:
            package = fullname.removeprefix(THEIRS + ".") in private.PACKAGES
            return importlib.machinery.ModuleSpec(fullname, self, is_package=package)
        if fullname == THEIRS or fullname.startswith(THEIRS + "."):
            ours = OURS + fullname[len(THEIRS) :]
            if importlib.util.find_spec(ours) is None:
                return None
            return importlib.machinery.ModuleSpec(fullname, self, is_package=fullname == THEIRS)
        if fullname == "cuda" and importlib.machinery.PathFinder.find_spec("cuda") is None:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        if spec.name == "cuda":
            module = types.ModuleType("cuda", "A namespace for cuda.tile.")
            module.__path__ = []
            return module
        if spec.name in _FROM_PACKAGE:
            return importlib.import_module(_FROM_PACKAGE[spec.name])
        if spec.name in _PRIVATE:
            return private.module(_PRIVATE[spec.name], importlib.import_module(OURS))
        if spec.name == EXPERIMENTAL:
            return importlib.import_module("tilewright.compat.experimental")
        return importlib.import_module(OURS + spec.name[len(THEIRS) :])

    def exec_module(self, module: types.ModuleType) -> None:
        """The module has been executed under its own name."""
