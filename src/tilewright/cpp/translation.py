"""From a Tile C++ program and the name of a kernel to Tile IR, through the disk cache.

As in ccache's direct mode, a hit runs no compiler: one entry lists the files that the program includes, and the key of
what was compiled holds the contents of these files, so that it stands for the preprocessed program.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilewright.frontend.cpp.toolchain import compiler_identity
from tilewright.ir.core import Function
from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.runtime.cache import cache_key, disk_cache
from tilewright.version import __version__

_SEARCH_PATHS = ("CPATH", "CPLUS_INCLUDE_PATH")  # environment variables that Clang reads


@dataclass(frozen=True)
class Request:
    """A program and how to compile it; ``name`` is what its locations say."""

    text: str
    name: str
    std: str
    defines: tuple[tuple[str, str], ...]
    include_dirs: tuple[str, ...]

    def checked(self) -> Request:
        """The same program, stating what it must not do."""
        return replace(self, defines=(*self.defines, ("TW_CHECKED", "1")))


def kernel_names(request: Request) -> tuple[str, ...]:
    """The kernels of a program that are no templates, in source order. TileError for a program that is wrong."""
    return tuple(_result(request, "").splitlines())


def kernel_function(request: Request, expression: str) -> Function:
    """The kernel that ``expression`` names. TileError for a program, or an expression, that is wrong."""
    return parse_function(_result(request, expression))


def _result(request: Request, expression: str) -> str:
    """The Tile IR of a kernel, or the lines of ``kernel_names`` where ``expression`` is empty."""
    cache = disk_cache()
    if cache is None:
        return _translate(request, expression)[0]
    folders = [os.path.abspath(folder) for folder in request.include_dirs]
    settings = [os.environ.get(variable, "") for variable in _SEARCH_PATHS]
    known = __version__, compiler_identity(), repr(request), *folders, *settings
    list_key = cache_key("included files", *known)
    stored = cache.get(list_key)
    if stored is not None:
        data = cache.get(cache_key("Tile C++", expression, *known, *_contents(json.loads(stored))))
        if data is not None:
            return data.decode()
    result, files = _translate(request, expression)
    cache.put(list_key, json.dumps(files).encode())
    cache.put(cache_key("Tile C++", expression, *known, *_contents(files)), result.encode())
    return result


def _contents(files: Sequence[str]) -> list[str]:
    """The names of ``files`` and what they hold now; no key of a compilation has a file that is missing."""
    found = []
    for file in files:
        path = Path(file)
        found += [file, hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "missing"]
    return found


def _translate(request: Request, expression: str) -> tuple[str, list[str]]:
    """The result, and the files that were read for it."""
    frontend = importlib.import_module("tilewright.frontend.cpp.module")  # it takes a while to load
    module = frontend.Module(
        request.text,
        request.name,
        std=request.std,
        defines=dict(request.defines),
        include_dirs=request.include_dirs,
    )
    if expression:
        result = print_function(module.kernel(expression).function, locations=True)
    else:
        result = "\n".join(module.kernels)
    return result, [os.path.abspath(file) for file in module.files]
