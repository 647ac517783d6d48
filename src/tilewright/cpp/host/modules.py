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
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tilewright.backends.cpu.identity import target_key
from tilewright.backends.cpu.on_demand import host, module
from tilewright.backends.export import Export
from tilewright.cpp import translation
from tilewright.cpp.host.build import HostUnit, build_unit
from tilewright.cpp.module import Kernel, request_of
from tilewright.frontend.cpp.debug_types import Piece
from tilewright.frontend.cpp.toolchain import Linked, compile_table, compiler_cache, link
from tilewright.ir.errors import TileError
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
    ctypes.POINTER(ctypes.c_void_p),
)
SUCCESS, INVALID_OPTION, FAILED = 0, 5, 6  # results of nvrtcCompileProgram
# What concerns GPUs, debuggers and optimizers is as it is here.
_IGNORED = re.compile(
    r"--?(arch|gpu-architecture|lineinfo|generate-line-info|enable-tile|[GOw].*|d[cwG]|dopt|ptxas-options|device-.*|ftz|rdc|rdc=.*"
    r"|relocatable-device-code|maxrregcount|prec-(div|sqrt)|fmad|use_fast_math|extra-device-vectorization|default-device"
    r"|restrict|disable-warnings|display-error-number|diag-(suppress|warn|error)|minimal|split-compile|time)(=.*)?"
)


_OPEN = ("-Wl,-z,undefs",)  # the runtime is in the program
_SIMT = re.compile(r"\b__global__\b")
_SIZE_BYTES = 8
_PART = "struct part { unsigned size, argument, offset; };"  # as the runtime has it
_ELF = b"\x7fELF"
_MAGIC = b"\x7fTileIR\n"  # as `modules.cpp` of the runtime has it
_TABLE = Path(__file__).with_name("module_table.c").read_text()


_OURS_FIRST = "// A toolkit has this file: of headers that it and tilewright have, those of tilewright come first.\n"
_MOST_FOLDERS = 64  # with headers that programs gave: those that were used last


def _plain(name: str) -> str:
    return re.sub(r"\s", "", name)


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
    name, for programs without Python; and behind it what Python compiles them from."""

    def make() -> translation.Made:
        program, tile = _with_instances(request, expressions)
        unit = build_unit(program) if _SIMT.search(request.text) else HostUnit(b"", ())
        names = [*dict.fromkeys([*translation.kernel_names(request), *tile])]
        kernels = translation.kernels_with_pieces(request, names) if names else []
        unique = hashlib.sha256(repr((request, names)).encode()).hexdigest()[:16]
        symbols = [f"module {unique} {name}" for name in names]
        exports = [
            (Export(function, symbol, ()), [piece.code for piece in pieces])
            for (function, pieces), symbol in zip(kernels, symbols)
        ]
        texts, rows = [], []
        for number, (symbol, name) in enumerate(unit.simt):
            texts.append(f"extern const char k{number}[] __asm__({json.dumps(symbol)});")
            rows += [f"{{{json.dumps(each)}, 0, 0, 0, k{number}}}," for each in dict.fromkeys((_plain(name), symbol))]
        for number, (name, symbol, (_, pieces)) in enumerate(zip(names, symbols, kernels)):
            parts = "".join(f"{{{', '.join(map(str, _part(piece)))}}}, " for piece in pieces)
            texts.append(f"static const struct part s{number}[] = {{{parts}{{0, 0, 0}}}};")
            rows.append(f"{{{json.dumps(name)}, {json.dumps(symbol)}, s{number}, {len(pieces)}, 0}},")
        with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
            binary = Path(folder, "kernels.o")
            module("library").write_program_code(exports, binary, host())
            table = compile_table("\n".join([_PART, *texts, _TABLE.replace("ROWS", " ".join(rows))]))
            objects = [table, binary.read_bytes(), *([unit.binary] if unit.simt else [])]
            made = link(objects, (), _OPEN if unit.simt else (), library=False, kind=Linked.PLUGIN)
        source = _encoded(replace(program, include_dirs=tuple(map(os.path.abspath, program.include_dirs))))
        return made + source + _length(source), translation.included_files(request, "names")

    return translation.through_cache(request, "\1".join([f"module for {target_key()}", *expressions]), make)


def image(request: translation.Request) -> bytes:
    """What ``cuModuleLoadData`` takes, with the code of the kernels of a program that are no templates."""
    content = code(request, ())
    return _MAGIC + _length(content) + content


def _part(piece: Piece) -> tuple[int, int, int]:
    """What the runtime knows of a piece: its bytes, the position of its argument, and where it is in that."""
    return piece.size, piece.argument, piece.offset


def _length(content: bytes) -> bytes:
    return len(content).to_bytes(_SIZE_BYTES, "little")


def _encoded(request: translation.Request) -> bytes:
    return json.dumps(asdict(request)).encode()


def _request_of(image: bytes) -> translation.Request:
    if image.startswith(_ELF):  # of ``code``
        image = image[-_SIZE_BYTES - int.from_bytes(image[-_SIZE_BYTES:], "little") : -_SIZE_BYTES]
    fields = json.loads(image)
    defines = tuple((name, value) for name, value in fields.pop("defines"))
    return translation.Request(**{**fields, "defines": defines, "include_dirs": tuple(fields["include_dirs"])})


def _with_instances(request: translation.Request, expressions: Sequence[str]) -> tuple[translation.Request, list[str]]:
    """A program that has the instances of SIMT kernels that are among ``expressions``, and those that name tile
    kernels. TileError for one that can be neither."""
    tile, uses = [], ""
    for expression in expressions:
        try:
            translation.kernel_functions(request, [expression])
            tile.append(expression)
        except TileError:
            if not _SIMT.search(request.text):
                raise
            name = f"__tw_instance{uses.count(chr(10))}"
            uses += f"static void const* const {name} __attribute__((used)) = (void const*)&{expression};\n"
    return replace(request, text=request.text + uses), tile


def loaded(image: bytes, expression: str) -> tuple[Kernel, tuple[Piece, ...]]:
    """The kernel of an image that ``expression`` names, and the pieces of its parameters. TileError where there is
    none."""
    request = _request_of(image)
    checked = functools.partial(_checked, request, expression)
    ((function, pieces),) = translation.kernels_with_pieces(request, [expression])
    return Kernel(expression, function, checked, None, request), pieces


def _checked(request: translation.Request, expression: str) -> Any:
    return translation.kernel_function(request.checked(), expression)


class Modules:
    """The kernels of modules, which are added to ``kernels``, and what the runtime calls. ``prepare`` compiles them, so
    that launches do not wait for it; ``images`` gets the files with code of SIMT kernels, by the names that the
    loader has for them; ``gpu`` has those of a program on a GPU; with ``checked``, their accesses are."""

    def __init__(
        self,
        library: ctypes.CDLL,
        kernels: dict[str, Kernel],
        prepare: Callable[[Sequence[Kernel]], None],
        images: dict[str, Path],
        gpu: Any = None,
        *,
        checked: bool = False,
    ) -> None:
        self._kernels, self._gpu, self._is_checked = kernels, gpu, checked
        self._prepare, self._images = prepare, images
        self._found: dict[tuple[bytes, str], tuple[int, tuple[Piece, ...]]] = {}
        self._library, self._simt = library, dict[bytes, tuple[ctypes.CDLL, dict[str, str]]]()
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
            request, _ = _with_instances(request, program.expressions.decoded())
            if _SIMT.search(request.text):
                unit = self._unit(request)
                if self._gpu is not None:
                    self._gpu.compiled(request, unit)
            image = _encoded(request)
        except (TileError, ValueError) as e:
            self._made(made, told(e).encode(), None, 0)
            return INVALID_OPTION if isinstance(e, OptionError) else FAILED
        self._made(made, b"", image, len(image))
        return SUCCESS

    def _unit(self, request: translation.Request) -> HostUnit:
        return build_unit(request.checked() if self._is_checked else request)

    def _simt_function(self, image: bytes, name: str) -> int | None:
        """The address of the SIMT kernel of an image that a symbol or an expression names, or of the variable of that
        name, None if there is none."""
        request = _request_of(image)
        if not _SIMT.search(request.text):
            return None
        if image not in self._simt:
            unit = self._unit(request)
            ctypes.CDLL(self._library._name, ctypes.RTLD_GLOBAL)  # it has the runtime
            linked = link([unit.binary], (), _OPEN, library=False, kind=Linked.PLUGIN)
            with tempfile.NamedTemporaryFile(suffix=".so", prefix="tilewright-") as file:
                Path(file.name).write_bytes(linked)
                symbols = {other: symbol for symbol, title in unit.simt for other in (symbol, _plain(title))}
                self._simt[image] = ctypes.CDLL(file.name), symbols
                self._images[file.name] = Path(f"/proc/{os.getpid()}/fd/{os.dup(file.fileno())}")
            if self._gpu is not None:
                self._gpu.add(self._simt[image][0], request, unit)
        module, symbols = self._simt[image]
        symbol = symbols.get(name) or symbols.get(_plain(name)) or name
        return ctypes.cast(module[symbol], ctypes.c_void_p).value if hasattr(module, symbol) else None

    def _load(self, key: tuple[bytes, str]) -> None:
        kernel, pieces = loaded(*key)
        self._prepare([kernel])
        self._found[key] = len(self._found), pieces
        self._kernels[f"module {self._found[key][0]}"] = kernel

    def _find(self, image: int, size: int, name: bytes, parts: Any, count: Any, function: Any) -> int:
        key = ctypes.string_at(image, size), name.decode()
        try:
            function[0] = self._simt_function(*key)
            if function[0]:
                return 0
            if key not in self._found:
                self._load(key)
        except (TileError, ValueError):
            return -1
        number, pieces = self._found[key]
        for i, value in enumerate(value for piece in pieces for value in _part(piece)):
            parts[i] = value
        count[0] = len(pieces)
        return number
