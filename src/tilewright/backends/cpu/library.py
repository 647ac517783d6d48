"""Kernels as a shared library with a C header, for programs without Python.

The library holds the object code of each kernel, and C functions that check what callers promised, pack arguments as
the code wants them, and run the blocks on threads.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tilewright.backends.cpu import library_source
from tilewright.backends.cpu.codegen.kernel import lower
from tilewright.backends.cpu.codegen.pipeline import optimize
from tilewright.backends.cpu.jit import compile_module
from tilewright.backends.cpu.target import Processor, for_other_programs
from tilewright.backends.export import Export
from tilewright.ir.errors import TileCompilerExecutionError, TileUnsupportedFeatureError
from tilewright.system.processors import PROCESSORS_HEADER
from tilewright.transforms.check_insertion import NullCheckInsertion
from tilewright.transforms.pipelines import run_passes

_RUNTIME = (PROCESSORS_HEADER, *(Path(__file__).with_name(f"library_{part}.c") for part in ("runtime", "print")))
_FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-pthread")


def _runtime() -> str:
    """What all libraries have in common, in C."""
    return "\n".join(part.read_text(encoding="utf-8") for part in _RUNTIME)


def write_library(kernels: Sequence[Export], path: Path, processor: Processor) -> None:
    """Write the library ``path``, and its header beside it with the suffix ``.h``.

    TileUnsupportedFeatureError where there are no POSIX threads or no C compiler;
    ValueError for symbols that are no names in C; OSError when a file cannot be written.
    """
    if sys.platform == "win32":
        raise TileUnsupportedFeatureError("a shared library can be exported on Linux and macOS only")
    if path.suffix == ".h":
        raise ValueError(f"{path} is where the header would go; name the library something else, such as kernels.so")
    processor = for_other_programs(processor)
    for kernel in kernels:
        if not re.fullmatch(r"[A-Za-z_]\w*", kernel.symbol, re.ASCII) or kernel.symbol in library_source.RESERVED:
            raise ValueError(f"the symbol {kernel.symbol!r} is no name in C; give the signature another one")
    kernels = list(map(library_source.with_c_names, kernels))
    compiler = _compiler()
    library = re.sub(r"\W", "_", path.stem, flags=re.ASCII)
    declarations = library_source.header(library, kernels, processor)
    texts = [declarations, library_source.FIELDS, _runtime().replace("LIBRARY_NAME", library)]
    with tempfile.TemporaryDirectory(prefix="tilewright-") as name:
        folder = Path(name)
        entries = [f"tilewright_{library}_{number}" for number in range(len(kernels))]
        texts += map(library_source.definition, kernels, _compiled(kernels, entries, folder, processor))
        (folder / "library.c").write_text("\n".join(texts), encoding="utf-8")
        objects = [folder / f"{entry}.o" for entry in entries]
        _compile(compiler, ["-shared", str(folder / "library.c"), *map(str, objects), "-lm"], folder / "library.so")
        copied = path.with_name(f".{path.name}.{os.getpid()}")
        shutil.copyfile(folder / "library.so", copied)
        os.replace(copied, path)  # a process that has loaded the old library keeps it
    path.with_suffix(".h").write_text(declarations, encoding="utf-8")


def write_program_code(kernels: Sequence[tuple[Export, Sequence[int]]], path: Path, processor: Processor) -> None:
    """Write an object with the code of ``kernels``, which registers itself with the CUDA runtime of a C++ program. With
    each kernel come the codes of the types of its parameters, as the headers of Tile C++ number them.

    TileUnsupportedFeatureError where there is no C compiler; OSError when the file cannot be written.
    """
    compiler, processor = _compiler(), for_other_programs(processor)
    tag = hashlib.sha256("\0".join(str(export.function.loc) + export.symbol for export, _ in kernels).encode())
    # Twice: for launches without and with null pointers.
    null = [replace(x, function=run_passes(x.function, (NullCheckInsertion(),))) for x, _ in kernels]
    exports = [*(export for export, _ in kernels), *null]
    entries = [f"tilewright_{tag.hexdigest()[:16]}_{number}" for number in range(len(exports))]
    runtime = _runtime().replace("const char *LIBRARY_NAME_last_error", "static const char *tw_last_error")
    texts = [library_source.TYPES, library_source.FIELDS, runtime]
    with tempfile.TemporaryDirectory(prefix="tilewright-") as name:
        folder = Path(name)
        found = _compiled(exports, entries, folder, processor, lines=True)
        described = [(export.symbol, codes) for export, codes in kernels]
        texts.append(library_source.program_definitions([*zip(described, found, found[len(kernels) :])]))
        (folder / "program.c").write_text("\n".join(texts), encoding="utf-8")
        _compile(compiler, ["-c", str(folder / "program.c")], folder / "program.o")
        objects = [folder / "program.o", *(folder / f"{entry}.o" for entry in entries)]
        _compile(compiler, ["-r", *map(str, objects)], path, flags=())


def _compiled(
    kernels: Sequence[Export], entries: Sequence[str], folder: Path, processor: Processor, *, lines: bool = False
) -> list[library_source.Code]:
    """The code of ``kernels``, whose entries get these names, in a file of ``folder`` each; with ``lines``, a crash of
    theirs has a place."""
    found = []
    for kernel, entry in zip(kernels, entries):
        lowered = lower(optimize(kernel.function), processor, entry, lines=lines)
        code = compile_module(lowered.text, processor, position_independent=True)
        (folder / f"{entry}.o").write_bytes(code)
        found.append(library_source.Code(entry, lowered))
    return found


def _compiler() -> list[str]:
    """The command of a C compiler: the environment variable CC, ``cc`` on PATH, or that of the ziglang package."""
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    if shutil.which("cc"):
        return ["cc"]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise TileUnsupportedFeatureError(
        "exporting a shared library needs a C compiler: put cc on PATH, name one in the environment variable CC, or "
        "pip install 'tilewright[cpp]'"
    )


def _compile(compiler: Sequence[str], arguments: Sequence[str], output: Path, flags: Sequence[str] = _FLAGS) -> None:
    command = [*compiler, *flags, *arguments, "-o", str(output)]
    environment = {"ZIG_LOCAL_CACHE_DIR": str(output.parent), **os.environ}  # else zig leaves a folder here
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    except OSError as e:
        raise TileUnsupportedFeatureError(f"the C compiler {compiler[0]!r} cannot be run: {e.strerror}") from e
    if done.returncode != 0:
        said = done.stderr.strip() or f"status {done.returncode}"
        raise TileCompilerExecutionError(
            f"the C compiler {shlex.join(compiler)} failed: {said}", None, shlex.join(flags)
        )
