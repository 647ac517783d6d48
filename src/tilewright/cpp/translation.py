"""From a Tile C++ program and the name of a kernel to Tile IR, through the disk cache.

As in ccache's direct mode, a hit runs no compiler: one entry lists the files that the program includes, and the key of
what was compiled holds the contents of these files, so that it stands for the preprocessed program.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

from tilewright.frontend.cpp.debug_types import Piece
from tilewright.frontend.cpp.toolchain import compiler_identity, require_compiler
from tilewright.ir.core import Function
from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.runtime.cache import cache_key, disk_cache
from tilewright.system.forks import load
from tilewright.version import __version__

_SEARCH_PATHS = ("CPATH", "CPLUS_INCLUDE_PATH")  # environment variables that Clang reads
_BREAK = "\f"  # between the kernels of an entry, and between their names
_CHECKED = ("TW_CHECKED", "1")  # the definition that makes programs state what they must not do
Made = tuple[bytes, Sequence[str]]  # data for the cache, and the files that were read for it


@dataclass(frozen=True)
class Request:
    """A program and how to compile it; ``name`` is what its locations say."""

    text: str
    name: str
    std: str
    defines: tuple[tuple[str, str], ...]
    include_dirs: tuple[str, ...]

    def checked(self) -> Request:
        """This program, stating what it must not do."""
        return replace(self, defines=(*self.defines, _CHECKED))

    @property
    def is_checked(self) -> bool:
        """Whether this is such a program."""
        return _CHECKED in self.defines


def kernel_names(request: Request) -> tuple[str, ...]:
    """The kernels of a program that are no templates, in source order. TileError for a program that is wrong."""

    def make() -> Made:
        module = _frontend(request)
        return "\n".join(module.kernels).encode(), module.files

    return tuple(through_cache(request, "names", make).decode().splitlines())


def kernels_with_pieces(request: Request, expressions: Sequence[str]) -> list[tuple[Function, tuple[Piece, ...]]]:
    """The kernels that ``expressions`` name, and the pieces of their parameters. TileError for a program, or an
    expression, that is wrong."""
    return _translated(request, ["kernels and pieces", *expressions], lambda module: module.load(*expressions))


def kernel_functions(request: Request, expressions: Sequence[str]) -> list[Function]:
    """The kernels that ``expressions`` name. TileError as of ``kernels_with_pieces``."""
    return [function for function, _ in kernels_with_pieces(request, expressions)]


def launched_functions(request: Request, kernels: Sequence[tuple[str, Sequence[Piece]]]) -> list[Function]:
    """The kernels of a program with these symbols and pieces of their parameters."""
    what = ["launched with pieces", *(f"{symbol} {pieces}" for symbol, pieces in kernels)]
    return [function for function, _ in _translated(request, what, lambda module: module.load_launched(kernels))]


def _translated(
    request: Request, what: Sequence[str], load: Callable[[Any], Sequence[Any]]
) -> list[tuple[Function, tuple[Piece, ...]]]:
    """What ``load`` gives for a program, which ``what`` names."""

    def make() -> Made:
        module = _frontend(request)
        found = [(each, json.dumps([astuple(piece) for piece in each.pieces])) for each in load(module)]
        texts = [f"{pieces}\n{print_function(each.function, locations=True)}" for each, pieces in found]
        return _BREAK.join(texts).encode(), module.files

    entries = (e.split("\n", 1) for e in through_cache(request, _BREAK.join(what), make).decode().split(_BREAK))
    return [(parse_function(text), tuple(Piece(*each) for each in json.loads(pieces))) for pieces, text in entries]


def kernel_function(request: Request, expression: str) -> Function:
    """One such kernel."""
    return kernel_functions(request, [expression])[0]


def through_cache(request: Request, what: str, make: Callable[[], Made]) -> bytes:
    """What ``make`` makes of a program, which ``what`` distinguishes from other things made of it."""
    cache = disk_cache()
    if cache is None:
        return make()[0]
    known, list_key = _known(request, what), _list_key(request, what)
    stored = cache.get(list_key)
    if stored is not None:
        data = cache.get(cache_key("Tile C++", *known, *_contents(json.loads(stored))))
        if data is not None:
            return data
    data, read = make()
    files = [os.path.abspath(file) for file in read]
    cache.put(list_key, json.dumps(files).encode(), f"files that {os.path.basename(request.name)} includes")
    cache.put(cache_key("Tile C++", *known, *_contents(files)), data, f"{os.path.basename(request.name)}, translated")
    return data


def included_files(request: Request, what: str) -> list[str]:
    """The files that were read when ``through_cache`` made ``what`` last."""
    cache = disk_cache()
    stored = None if cache is None else cache.get(_list_key(request, what))
    return [] if stored is None else list(json.loads(stored))


def file_number(request: Request, llvm: str) -> str:
    """What tells a file of a program, whose module is ``llvm``, from the others."""
    return hashlib.sha256(f"{os.path.abspath(request.name)} {request.defines} {llvm}".encode()).hexdigest()[:16]


def kernel_key(file: str, symbol: str) -> str:
    """What a program knows a kernel by: files with other numbers may have one with this symbol."""
    return f"{file} {symbol}"


def _known(request: Request, what: str) -> tuple[str, ...]:
    """What is known of a result before the included files are."""
    folders = [os.path.abspath(folder) for folder in request.include_dirs]
    settings = [os.environ.get(variable, "") for variable in _SEARCH_PATHS]
    return __version__, compiler_identity(), what, repr(request), *folders, *settings


def _list_key(request: Request, what: str) -> str:
    return cache_key("included files", *_known(request, what))


def _contents(files: Sequence[str]) -> list[str]:
    """The names of ``files`` and what they hold now; no key of a compilation has a file that is missing."""
    found = []
    for file in files:
        path = Path(file)
        found += [file, hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "missing"]
    return found


def _frontend(request: Request) -> Any:
    """The program in the hands of the front end, which takes a while to load."""
    require_compiler()
    frontend = load("tilewright.frontend.cpp.module")
    return frontend.Module(
        request.text, request.name, std=request.std, defines=dict(request.defines), include_dirs=request.include_dirs
    )
