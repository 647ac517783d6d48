"""Kernels that a program compiles while it runs, through the functions of ``nvrtc.h`` and ``cuda.h``."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tilewright.backends.cpu.identity import target_key
from tilewright.backends.cpu.on_demand import compiler, host
from tilewright.backends.export import Export
from tilewright.cpp import translation
from tilewright.cpp.module import Kernel, request_of
from tilewright.frontend.cpp.toolchain import Linked, compile_table, compiler_cache, link
from tilewright.frontend.cpp.typecodes import type_code
from tilewright.ir.errors import TileError
from tilewright.ir.types import ElementType, PointerType
from tilewright.system.folders import private_folder


class _Texts(ctypes.Structure):
    _fields_ = (("items", ctypes.POINTER(ctypes.c_char_p)), ("count", ctypes.c_size_t), ("room", ctypes.c_size_t))

    def decoded(self) -> list[str]:
        return [self.items[i].decode() for i in range(self.count)]


class _Program(ctypes.Structure):
    """The beginning of what `modules.cpp` of the runtime keeps of a program."""

    _fields_ = (("text", ctypes.c_char_p), ("name", ctypes.c_char_p), ("headers", _Texts), ("expressions", _Texts))


COMPILER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Program), ctypes.POINTER(ctypes.c_char_p), ctypes.c_int)
FINDER = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_char_p,
    ctypes.POINTER(ctypes.c_uint),
    ctypes.POINTER(ctypes.c_uint),
)
SUCCESS, INVALID_OPTION, FAILED = 0, 5, 6  # results of nvrtcCompileProgram
# What concerns GPUs, debuggers and optimizers is as it is here.
_IGNORED = re.compile(
    r"--?(arch|gpu-architecture|lineinfo|generate-line-info|enable-tile|[GOw].*|d[cwG]|dopt|ptxas-options|device-.*|ftz|rdc|rdc=.*"
    r"|relocatable-device-code|maxrregcount|prec-(div|sqrt)|fmad|use_fast_math|extra-device-vectorization|default-device"
    r"|restrict|disable-warnings|display-error-number|diag-(suppress|warn|error)|minimal|split-compile|time)(=.*)?"
)


_POINTER_SIZE = 8
_MAGIC = b"\x7fTileIR\n"  # as `modules.cpp` of the runtime has it
# What a module tells the runtime that loads it, of which it is no part.
_TABLE = """
struct kernel { const char *name, *symbol; const unsigned *sizes; unsigned parameters; };
extern __attribute__((visibility("default"))) const struct kernel __tw_module_kernels[] = {ROWS {0, 0, 0, 0}};
__attribute__((visibility("default"))) const void *__tw_module_codes;
__attribute__((visibility("default"))) unsigned __tw_module_count;
void __tw_register_tile_code(const void *codes, unsigned count) {
    __tw_module_codes = codes;
    __tw_module_count = count;
}
"""


_OURS_FIRST = "// A toolkit has this file: of headers that it and tilewright have, those of tilewright come first.\n"
_MOST_FOLDERS = 64  # with headers that programs gave: those that were used last


class OptionError(ValueError):
    """An option that NVRTC does not have, or that has no value."""


def requested(text: str, name: str, options: Sequence[str], headers: Sequence[str]) -> translation.Request:
    """A program and how to compile it; ``headers`` are names and texts in turn. TileError for what is wrong with it,
    OptionError for options that are."""
    defines: dict[str, str | int | None] = {}
    folders: list[str] = []
    std, words = "c++20", list(options)
    while words:
        word = words.pop(0)
        flag = next(
            (f for f in ("--define-macro", "--include-path", "--std", "-std", "-D", "-I") if word.startswith(f)), ""
        )
        if not flag:
            if not _IGNORED.fullmatch(word):
                raise OptionError(f"unknown option {word}")
            continue
        value = word[len(flag) :].removeprefix("=") or (words.pop(0) if words else "")
        if not value:
            raise OptionError(f"{word} needs a value")
        if flag in ("-D", "--define-macro"):
            macro, assigned, number = value.partition("=")
            defines[macro] = number if assigned else 1
        elif flag in ("-I", "--include-path"):
            folders.append(value)
        else:
            std = value
    folders += [_folder_of(headers)] if headers else []
    request = request_of(text + "\n", std, defines, folders, name)
    translation.kernel_names(request)
    return request


def _folder_of(headers: Sequence[str]) -> str:
    """A folder with ``headers``, which stays for a while: the disk cache finds again what was compiled with it."""
    folder = compiler_cache() / "headers" / hashlib.sha256(repr(headers).encode()).hexdigest()[:16]
    for name, text in (("crt/host_config.h", _OURS_FIRST), *zip(headers[::2], headers[1::2])):
        path = Path(os.path.normpath(folder / name))
        if folder not in path.parents:
            raise OptionError(f"the header {name} has no name that programs include it by")
        private_folder(path.parent)
        if not path.is_file():
            made = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
            made.write_text(text)
            made.replace(path)
    with suppress(FileNotFoundError):  # another process removes, too
        os.utime(folder)
        for old in sorted(folder.parent.iterdir(), key=os.path.getmtime, reverse=True)[_MOST_FOLDERS:]:
            shutil.rmtree(old, ignore_errors=True)
    return str(folder)


def told(error: Exception) -> str:
    """What a log says of ``error``, with headers by the names that the program gave them."""
    return re.sub(rf"{re.escape(str(compiler_cache() / 'headers'))}/\w+/", "", str(error))


def code(request: translation.Request, expressions: Sequence[str]) -> bytes:
    """A shared object with the code of a program's kernels, those that are no templates and those that ``expressions``
    name, for programs without Python."""

    def make() -> translation.Made:
        names = [*dict.fromkeys([*translation.kernel_names(request), *expressions])]
        functions = translation.kernel_functions(request, names)
        codes = [[type_code(value.tile.dtype) for value in function.body.args] for function in functions]
        unique = hashlib.sha256(repr((request, names)).encode()).hexdigest()[:16]
        symbols = [f"module {unique} {name}" for name in names]
        exports = [(Export(*pair, ()), types) for pair, types in zip(zip(functions, symbols), codes)]
        texts, rows = [], []
        for number, (name, symbol, function) in enumerate(zip(names, symbols, functions)):
            sizes = [_size(value.tile.dtype) for value in function.body.args]
            texts.append(f"static const unsigned s{number}[] = {{{', '.join(map(str, [*sizes, 0]))}}};")
            rows.append(f"{{{json.dumps(name)}, {json.dumps(symbol)}, s{number}, {len(sizes)}}},")
        with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
            kernels = Path(folder, "kernels.o")
            compiler().write_program_code(exports, kernels, host())
            table = compile_table("\n".join([*texts, _TABLE.replace("ROWS", " ".join(rows))]))
            made = link([table, kernels.read_bytes()], (), (), library=False, kind=Linked.PLUGIN)
        return made, translation.included_files(request, "names")

    return translation.through_cache(request, "\1".join([f"module for {target_key()}", *expressions]), make)


def image(request: translation.Request) -> bytes:
    """What ``cuModuleLoadData`` takes, with the code of the kernels of a program that are no templates."""
    content = code(request, ())
    return _MAGIC + len(content).to_bytes(_POINTER_SIZE, "little") + content


def _size(type: ElementType) -> int:
    """The bytes of an argument."""
    return _POINTER_SIZE if isinstance(type, PointerType) else type.storage.itemsize


def loaded(image: bytes, expression: str) -> Kernel:
    """The kernel of an image that ``expression`` names. TileError where there is none."""
    fields = json.loads(image)
    defines = tuple((name, value) for name, value in fields.pop("defines"))
    request = translation.Request(**{**fields, "defines": defines, "include_dirs": tuple(fields["include_dirs"])})
    checked = functools.partial(_checked, request, expression)
    return Kernel(expression, translation.kernel_function(request, expression), checked, None, request)


def _checked(request: translation.Request, expression: str) -> Any:
    return translation.kernel_function(request.checked(), expression)


class Modules:
    """The kernels of modules, which are added to ``kernels``, and what the runtime calls. ``prepare`` compiles them, so
    that launches do not wait for it."""

    def __init__(
        self, library: ctypes.CDLL, kernels: dict[str, Kernel], prepare: Callable[[Sequence[Kernel]], None]
    ) -> None:
        self._kernels = kernels
        self._prepare = prepare
        self._numbers: dict[tuple[bytes, str], int] = {}
        self._made = library["__tw_compiled"]
        self._made.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
        self.callbacks = COMPILER(self._compile), FINDER(self._find)
        library["__tw_set_compiler"](*self.callbacks)

    def _compile(self, given: Any, options: Any, count: int) -> int:
        program = given.contents
        made = ctypes.addressof(program)
        try:
            words = [options[i].decode() for i in range(count)]
            request = requested(program.text.decode(), program.name.decode(), words, program.headers.decoded())
            if named := program.expressions.decoded():
                translation.kernel_functions(request, named)
            image = json.dumps(asdict(request)).encode()
        except (TileError, ValueError) as e:
            self._made(made, told(e).encode(), None, 0)
            return INVALID_OPTION if isinstance(e, OptionError) else FAILED
        self._made(made, b"", image, len(image))
        return SUCCESS

    def _find(self, image: int, size: int, name: bytes, sizes: Any, count: Any) -> int:
        key = ctypes.string_at(image, size), name.decode()
        number = self._numbers.get(key)
        try:
            kernel = loaded(*key) if number is None else self._kernels[f"module {number}"]
            if number is None:
                self._prepare([kernel])
        except (TileError, ValueError):
            return -1
        number = self._numbers.setdefault(key, len(self._numbers))
        self._kernels[f"module {number}"] = kernel
        for i, (_, rule) in enumerate(kernel.parameters):
            assert rule.declared is not None
            sizes[i] = _size(rule.declared)
        count[0] = len(kernel.parameters)
        return number
