"""Compiling the files of a C++ program to objects, and these with the runtime to a shared object or a program.

Everything goes through the disk cache.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.backends.cpu.identity import target_key
from tilewright.backends.cpu.on_demand import host, module
from tilewright.backends.export import Export
from tilewright.cpp.translation import Made, Request, included_files, kernel_key, launched_functions, through_cache
from tilewright.frontend.cpp import toolchain
from tilewright.frontend.cpp.debug_types import Piece
from tilewright.frontend.cpp.locations import INCLUDE_DIR
from tilewright.runtime.cache import cache_key, disk_cache
from tilewright.system.forks import load
from tilewright.system.processors import PROCESSORS_HEADER

# In the tables of names of objects that need the C++ standard library.
_LIBRARY_NAMES = rb"\0(?:_ZS|_ZNK?S|_ZNK?St|_Zn[wa]|_Zd[la]|_ZT[IVS]|__cxa_(?!finalize|atexit)|__gxx_)"
RUNTIME_DIR = Path(__file__).parents[1] / "runtime"
TOOLCHAIN = Path(__file__).parents[1] / "cmake" / "toolchain.cmake"  # for CMake


@dataclass(frozen=True)
class HostKernel:
    """A tile kernel: its symbol, its name in the source, and the pieces of its parameters."""

    symbol: str
    name: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class HostUnit:
    """One file of a program, compiled: an object with stubs for its kernels, and the tile kernels among these; of the
    SIMT kernels their symbols and names; and the number of the file."""

    binary: bytes
    kernels: tuple[HostKernel, ...]
    simt: tuple[tuple[str, str], ...] = ()
    number: str = ""


@dataclass(frozen=True)
class Libraries:
    """What else goes into a program: objects and archives by their path, and options for the linker."""

    files: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


NO_LIBRARIES = Libraries()
# Libraries of the toolkit whose functions are in our runtime, which is linked in any case.
_IN_THE_RUNTIME = {"-lcudart", "-lcudart_static", "-lcudadevrt", "-lcuda", "-lnvrtc"}


def build_unit(request: Request) -> HostUnit:
    """The host part of a file. TileError for what the compiler refuses."""
    data = through_cache(request, "host unit", lambda: load("tilewright.cpp.host.units").compiled(request))
    head, _, binary = data.partition(b"\n")
    tile, simt, number, warnings = json.loads(head)
    for warning in warnings:
        print(f"tilewright: {warning}", file=sys.stderr, flush=True)
    kernels = tuple(HostKernel(symbol, name, tuple(Piece(*each) for each in pieces)) for symbol, name, pieces in tile)
    return HostUnit(binary, kernels, tuple((symbol, name) for symbol, name in simt), number)


def build_object(request: Request) -> bytes:
    """A file with the code of its tile kernels for this kind of processor: what ``tilewright c++ -c`` writes."""

    def make() -> Made:
        wanted = [(kernel.symbol, kernel.pieces) for kernel in unit.kernels]
        exports = [
            (Export(function, kernel_key(unit.number, symbol), ()), [piece.code for piece in pieces])
            for function, (symbol, pieces) in zip(launched_functions(request, wanted), wanted)
        ]
        with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
            path = Path(folder) / "kernels.o"
            module("library").write_program_code(exports, path, host())
            return toolchain.merge([unit.binary, path.read_bytes()]), included_files(request, "host unit")

    unit = build_unit(request)
    return unit.binary if not unit.kernels else through_cache(request, f"object for {target_key()}", make)


def link_units(units: Sequence[HostUnit], libraries: Libraries = NO_LIBRARIES) -> bytes:
    """The files of a program with the runtime, as a shared object. TileError at the first use of a name that nothing
    defines."""
    return link_objects([unit.binary for unit in units], libraries, toolchain.Linked.PLUGIN)


def link_objects(
    objects: Sequence[bytes], libraries: Libraries, kind: toolchain.Linked, compiler_words: Sequence[str] = ()
) -> bytes:
    """``objects`` and the runtime, linked to what calls ``compiler_words`` if it compiles kernels while it runs, or
    crashes. TileError as of ``link_units``."""
    if compiler_words:
        table = ", ".join(json.dumps(word) for word in compiler_words)
        objects = [
            *objects,
            toolchain.compile_table(f"extern const char *const __tw_compiler_command[] = {{{table}, nullptr}};"),
        ]
    contents = [hashlib.sha256(content).hexdigest() for content in objects]
    contents += [hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in libraries.files]
    key = cache_key(
        "linked program", toolchain.compiler_identity(), _runtime_identity(), kind.name, repr(libraries), *contents
    )
    cache = disk_cache()
    found = None if cache is None else cache.get(key)
    if found is None:
        needs_library = bool(libraries.files) or any(re.search(_LIBRARY_NAMES, content) for content in objects)
        if needs_library and not toolchain.library_is_built():
            print("tilewright: building the C++ standard library for this machine, once", file=sys.stderr, flush=True)
        inputs = [*objects, toolchain.compile_runtime(RUNTIME_DIR / "all.cpp", _runtime_identity())]
        options = [option for option in libraries.options if option not in _IN_THE_RUNTIME]
        found = toolchain.link(inputs, libraries.files, options, library=needs_library, kind=kind)
        if cache is not None:
            cache.put(key, found)
    return found


def _runtime_identity() -> str:
    """What tells the sources of the runtime from another version of them."""
    files = sorted([*RUNTIME_DIR.iterdir(), *INCLUDE_DIR.glob("cuda_runtime.h"), *INCLUDE_DIR.glob("tilewright/*.h")])
    files.append(PROCESSORS_HEADER)
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()
