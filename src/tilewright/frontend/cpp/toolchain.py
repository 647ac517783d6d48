"""Finds a C++ compiler and runs it on one source text."""

from __future__ import annotations

import atexit
import enum
import functools
import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tilewright.frontend.cpp.diagnostics import errors, link_error, narrowing, raise_for
from tilewright.frontend.cpp.locations import INCLUDE_DIR, as_written
from tilewright.frontend.cpp.source import first_headers, headers_first, needs_expansion, with_keywords
from tilewright.ir.errors import TileCompilerExecutionError, TileError, TileUnsupportedFeatureError
from tilewright.system.folders import private_folder, say_unusable, user_folder

COMPILATION_DIR = "/tilewright"  # no prefix of any file, so that file names stay as they are
MINIMUM_VERSION = 19  # deduces template arguments through aliases, which ct::shape{...} needs

# No optimization here: the passes that keep loops as written run in ``optimize``, and what the host part of a program
# needs runs when it is linked. -O1 only keeps Clang from forbidding them.
_COMMON = (
    *("-O1", "-Xclang", "-disable-llvm-passes", "-fno-sanitize=all"),
    *("-fno-color-diagnostics", "-fno-caret-diagnostics", "-fno-elide-type", "-fspell-checking"),
    *("-ftemplate-backtrace-limit=0", "-Wno-everything"),
    # Ill-formed programs that Clang only warns of, as it could give them a meaning: one that stops, or any.
    *("-Werror=return-mismatch", "-Werror=non-pod-varargs", "-Werror=address-of-temporary"),
)
_TO_LLVM = ("-x", "c++", "-S", "-emit-llvm", *_COMMON)
_EMPTY = INCLUDE_DIR / "tilewright" / "precompiled.h"
_TO_PCH = ("-x", "c++-header", *_COMMON)
_MOST_HEADERS = 100  # files of 2 to 20 MB
# The target fixes the sizes of the types and how structs are passed.
_FLAGS = (
    "-D__CUDA_ARCH__=900",  # as what programs are told of the device here
    *("-target", "x86_64-linux-gnu", "-fno-builtin", "-ffp-contract=off", "-fno-discard-value-names"),
    *("-Xclang", "-mno-constructor-aliases"),  # so that each constructor that is called has a body
    *("-gcolumn-info", f"-fdebug-compilation-dir={COMPILATION_DIR}"),
    *("-Wc++11-narrowing", "-Wno-error=c++11-narrowing"),
)
# Keywords stay for what looks for them in the text, and so do includes of system headers, where nothing is rewritten.
_EXPAND = (
    *("-x", "c++", "-E", "-O1", "-DTW_KEYWORDS_STAY", "-fno-color-diagnostics"),
    *("-Xclang", "-fkeep-system-includes"),
)
# What a line marker says of the nesting of files, which makes no sense where some are left out.
_OF_THE_SYSTEM = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+(?:GCC|clang)[ \t]+system_header\b", re.MULTILINE)
_MARKER = re.compile(r'^(# \d+ "(?:[^"\\\n]|\\.)*")(?: [1-4])+$', re.MULTILINE)
_MACROS = (
    *(
        "-D__CUDACC__=1",
        "-D__NVCC__=1",
        "-D__CUDACC_VER_MAJOR__=13",
        "-D__CUDACC_VER_MINOR__=3",
        "-D__CUDACC_VER_BUILD__=0",
        "-D__CUDA_ARCH_LIST__=900",
    ),
    *("-D__CUDACC_EXTENDED_LAMBDA__=1", "-D__CUDACC_RELAXED_CONSTEXPR__=1", "-UNDEBUG"),
)
# Bodies of function templates are analysed when they are instantiated, as nvcc does it.
_DELAY_TEMPLATES = ("-fdelayed-template-parsing",)
_NO_EXCEPTIONS = ("-fno-exceptions", "-fno-rtti")
_SIMT = ("-DTW_SIMT", "-Xclang", "-fdeclspec", "-fno-math-errno")  # of host code with SIMT kernels
_TYPES = ("-g", "-Xclang", "-fno-use-ctor-homing")  # of classes that are made in other files, too
# The instruction for bfloat16 makes zeros of subnormal numbers.
_X86 = platform.machine() in ("x86_64", "AMD64")
_PRECISE = ("-Xclang", "-target-feature", "-Xclang", "-avx512bf16") if _X86 else ()
# Threads that touch memory here and there do so faster one after another than as vectors.
_EACH_ALONE = [word for kind in ("gather", "scatter") for word in ("-target-feature", f"+prefer-no-{kind}")]
_SCALAR = tuple(word for each in _EACH_ALONE for word in ("-Xclang", each)) if _X86 else ()
_HOST_FLAGS = (*_PRECISE, "-DTW_HOST", "-fPIC", *_TYPES, "-gcolumn-info", f"-fdebug-compilation-dir={COMPILATION_DIR}")
# What a program does wrong on the host happens where it is written: `host/simt.py` takes that back for kernels.
_FAITHFUL = ("-fno-delete-null-pointer-checks", "-fno-strict-return")
_FAST = (*_PRECISE, *_SCALAR, "-O2", "-fno-math-errno")
# LLVM 22 folds a load under a mask into the instruction that uses it, and unfolds it again to a load of all lanes.
_MASKED = ("-mllvm", "-disable-peephole") if _X86 else ()
_OBJECT_FLAGS = ("-c", "-fPIC", "-O1", "-fno-sanitize=all", "-Wno-everything", *_MASKED)
_RUNTIME_FLAGS = ("-std=c++20", "-O2", "-g0", "-fno-exceptions", "-fno-rtti", "-isystem", str(INCLUDE_DIR))
_LINK_FLAGS = ("-O1", "-fno-sanitize=all", "-pthread", "-ldl")
_SHARED_FLAGS = ("-shared", "-fPIC", "-Wl,-z,defs")


class Linked(enum.Enum):
    """What objects are linked to, and the options for that."""

    PROGRAM = ("-rdynamic",)  # its runtime is that of its libraries, too, so that all know its memory and its streams
    LIBRARY = _SHARED_FLAGS
    PLUGIN = (*_SHARED_FLAGS, "-Wl,-Bsymbolic")  # what runs beside others has a runtime of its own


@dataclass(frozen=True)
class Compiler:
    """The command that runs a Clang, and what it calls itself."""

    command: tuple[str, ...]
    version: str


@dataclass(frozen=True)
class Output:
    """An unoptimized LLVM module, and the files that went into it but for our headers and the compiler's."""

    llvm: str
    files: tuple[str, ...]


@functools.cache
def find_compiler() -> Compiler | None:
    """The Clang of the ziglang package, or a clang++ on PATH that is recent enough; None when there is neither."""
    command = _command()
    if command is None:
        return None
    version = _version(command)
    number = re.search(r"version (\d+)", version)
    if len(command) == 1 and (number is None or int(number.group(1)) < MINIMUM_VERSION):
        return None
    return Compiler(command, version)


def _command() -> tuple[str, ...] | None:
    """What runs the compiler that is there, be it recent enough or not."""
    package = importlib.util.find_spec("ziglang")
    if package is not None and package.origin is not None:
        zig = Path(package.origin).parent / "zig"
        if zig.exists():
            return str(zig), "c++"
    path = shutil.which("clang++")
    return None if path is None else (path,)


def compiler_command() -> tuple[str, ...]:
    """The command of the compiler itself."""
    return require_compiler().command


def compiler_identity() -> str:
    """What tells the compiler from another version of it, without running it: part of cache keys."""
    command = _command()
    if command is None:
        return "none"
    program = Path(command[0]).resolve()
    status = program.stat()
    return f"{program} {status.st_size} {status.st_mtime_ns}"


def _version(command: tuple[str, ...]) -> str:
    result = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False, env=_environment())
    return result.stdout.split("\n", 1)[0]


def _environment() -> dict[str, str]:
    """The environment of the compiler: zig wants a directory for its cache, which only linking fills."""
    if {"ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"} <= os.environ.keys():
        return dict(os.environ)
    cache = compiler_cache()
    return {"ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache), **os.environ}


@functools.cache
def compiler_cache() -> Path:
    """The folder of zig, whose libraries get into programs, and of headers: nobody else may write to it."""
    try:
        folder = user_folder() / "zig"
        private_folder(folder)
    except (OSError, RuntimeError) as e:
        say_unusable("of the C++ compiler", str(e))
        folder = Path(tempfile.mkdtemp(prefix="tilewright-zig-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def require_compiler() -> Compiler:
    """The compiler, or TileUnsupportedFeatureError saying what to install: it, or LLVM, which reads what it makes."""
    if importlib.util.find_spec("llvmlite") is None:
        raise TileUnsupportedFeatureError("Tile C++ needs LLVM: pip install 'tilewright[cpp]'")
    compiler = find_compiler()
    if compiler is None:
        raise TileUnsupportedFeatureError(
            "Tile C++ needs a C++ compiler: pip install 'tilewright[cpp]', "
            f"or put clang++ {MINIMUM_VERSION} or later on PATH"
        )
    return compiler


@dataclass(frozen=True)
class Options:
    """How a source is compiled. ``host`` is for code that this processor will run, ``exceptions`` for kernels with host
    code next to them, ``types`` for kernels that take classes, whose members debug information tells."""

    std: str = "c++20"
    defines: Mapping[str, str | int] = field(default_factory=dict)
    include_dirs: Sequence[str | os.PathLike[str]] = ()
    exceptions: bool = False
    host: bool = False
    types: bool = False

    def flags(self, text: str, defines: Mapping[str, str | int]) -> list[str]:
        """The compiler's options for ``text``; ``defines`` are the definitions that no line before it makes."""
        flags = [*_MACROS, "-isystem", str(INCLUDE_DIR)]
        if self.host:
            simt = any(word in text for word in ("__global__", "__device__", "__shared__", "__tw_simt"))
            on_gpu = "TW_SIMT_GPU" in self.defines
            flags += (*_HOST_FLAGS, *(() if on_gpu else _FAITHFUL), *(_SIMT if simt else ()))
        else:
            flags += (*_FLAGS, *(_TYPES if self.types else ("-gline-tables-only",)))
            flags += () if self.exceptions else _NO_EXCEPTIONS
        return [*flags, f"-std={self.std}", *(f"-D{key}={value}" for key, value in defines.items())]

    def folders(self) -> list[str]:
        """The compiler's options for ``include_dirs``."""
        flags = []
        for path in self.include_dirs:  # a toolkit's headers are for nvcc; ours, of the same names, come first
            is_toolkit = Path(path, "crt/host_config.h").is_file()
            flags += ["-idirafter" if is_toolkit else "-I", str(path)]
        return flags

    def prelude(self, text: str = "") -> tuple[str, ...]:
        """What all programs know without an include: the keywords, the CUDA runtime, what describes kernels to us, and
        what host code beside kernels may call."""
        first = "cuda_runtime.h" if "cuda_tile.h" in text else "cuda_tile.h"
        of_host = ("-include", "tilewright/host_headers.h") if self.host or self.exceptions else ()
        return "-include", first, *of_host


def expanded(text: str, name: str, options: Options) -> tuple[str, tuple[str, ...] | None]:
    """``text`` with its macros and includes expanded, and the files that it includes, as in ``Output``; where nothing
    has to be expanded to be rewritten, ``text`` itself and None."""
    if not needs_expansion(text, options.include_dirs):
        return text, None
    with tempfile.TemporaryDirectory(prefix="tilewright-") as directory:
        output = Path(directory) / "expanded.cu"
        before, left = headers_first(text, options.defines, options.include_dirs)
        flags = (*_EXPAND, *options.flags(text, left), *options.folders(), *options.prelude(text))
        files, found = _run(text, name, flags, Path(directory), output, before)
        users: dict[str, str] = {}  # files of the user that say of themselves that they are the system's, without that
        while not found and (more := _said_to_be_of_the_system(files, users)):
            users |= more
            overlay = ("-Xclang", "-ivfsoverlay", "-Xclang", str(_overlay(users, Path(directory))))
            files, found = _run(text, name, (*flags, *overlay), Path(directory), output, before)
        if found:
            raise found[0]
        return with_keywords(_MARKER.sub(r"\1", output.read_text())), files


def _said_to_be_of_the_system(files: Iterable[str], known: Container[str]) -> dict[str, str]:
    """The ``files`` that the compiler leaves out, as it does headers of the system, but for the ``known`` ones, with
    their texts as those of other headers."""
    texts = {file: Path(file).read_text(errors="replace") for file in files if file not in known}
    return {file: _OF_THE_SYSTEM.sub("", text) for file, text in texts.items() if _OF_THE_SYSTEM.search(text)}


def _overlay(texts: Mapping[str, str], directory: Path) -> Path:
    """A file in ``directory`` by which the compiler reads ``texts`` in the place of files."""
    roots = []
    for number, (file, text) in enumerate(texts.items()):
        copy = directory / f"header{number}"
        copy.write_text(text)
        roots.append({"type": "file", "name": os.path.abspath(file), "external-contents": str(copy)})
    made = directory / "overlay.yaml"
    made.write_text(json.dumps({"version": 0, "use-external-names": False, "roots": roots}))
    return made


def _run(
    text: str, name: str, flags: Sequence[str], directory: Path, output: Path, before: str = ""
) -> tuple[tuple[str, ...], list[TileError]]:
    """Run the compiler on ``text``: the files that it read, but for our headers and its own, and its errors."""
    compiler = require_compiler()
    source, read = directory / "source.cu", directory / "files"
    source.write_text(f'{before}#line 1 "{_escaped(name)}"\n{text}')
    named = ["-Xclang", "-header-include-file", "-Xclang", str(read)]  # zig passes such options on only so
    result = subprocess.run(
        [*compiler.command, *flags, *named, "-o", str(output), str(source)],
        capture_output=True,
        text=True,
        check=False,
        env=_environment(),
    )
    found = [*errors(result.stderr, str(INCLUDE_DIR)), *narrowing(result.stderr)]
    if not found and (result.returncode != 0 or not output.exists()):
        raise_for(result.stderr)
    for error in found:
        error.loc = None if error.loc is None else as_written(error.loc, text, name)
    folder = Path(compiler.command[0]).parent  # as it is named here, and as the compiler names it
    own = str(INCLUDE_DIR), str(folder), str(folder.resolve())
    files = dict.fromkeys(read.read_text().splitlines()) if read.exists() else {}
    return tuple(file for file in files if not os.path.abspath(file).startswith(own)), found


@functools.cache
def _headers_state() -> str:
    """What tells our headers and those of C from other versions of them."""
    files = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(INCLUDE_DIR.rglob("*"))]
    return repr((platform.libc_ver(), files))


def _precompiled(flags: Sequence[str], prelude: Sequence[str]) -> tuple[str, ...]:
    """The option that stands for ``prelude``: its headers, parsed with ``flags``. None of it where they have errors,
    which are told where the text includes them."""
    kept = _made_once("headers", _headers_state(), (*_TO_PCH, *flags, *prelude, str(_EMPTY)))
    if kept is None:
        return ()
    with suppress(OSError):  # another process may take them away, or nobody may
        os.utime(kept)  # those that were not used for the longest are taken away
        for old in sorted(kept.parent.glob("headers-*"), key=lambda file: file.stat().st_mtime)[:-_MOST_HEADERS]:
            old.unlink(missing_ok=True)
    return "-include-pch", str(kept)


def _made_once(kind: str, state: str, command: Sequence[str]) -> Path | None:
    """The file that ``command`` makes of what is in ``state``, at the first time, in the place of those that it made of
    other states. None where the compiler refuses."""
    name = f"{kind}-{_digest(repr(command))}"
    kept = compiler_cache() / "made" / f"{name}-{_digest(compiler_identity() + state)}"
    if not kept.exists():
        private_folder(kept.parent)
        with tempfile.TemporaryDirectory(dir=kept.parent) as directory:
            made = Path(directory) / kind
            if _driver(compiler_command(), [*command, "-o", str(made)]).returncode != 0:
                return None
            made.replace(kept)
            for outdated in set(kept.parent.glob(f"{name}-*")) - {kept}:
                outdated.unlink(missing_ok=True)
    return kept


def _compile(
    text: str, name: str, flags: Sequence[str], again: Sequence[str], directory: Path, output: Path, before: str
) -> tuple[str, ...]:
    """Run the compiler proper, as ``_run``. Errors in function templates that nothing instantiates do not count.

    The compiler finds and words errors best where the templates are written. So these are looked at only in what has
    errors, and those that are left without them keep their words. ``again`` are the flags for that: headers that were
    parsed before have templates that are analysed.
    """
    files, found = _run(text, name, (*_TO_LLVM, *flags), directory, output, before)
    if not found:
        return files
    output.unlink(missing_ok=True)
    files, left = _run(text, name, (*_TO_LLVM, *again, *_DELAY_TEMPLATES), directory, output, before)
    if not left:
        return files
    lines = {_line(error) for error in left}
    raise next((error for error in found if _line(error) in lines), left[0])


def _line(error: TileError) -> tuple[str, int] | None:
    return None if error.loc is None else (error.loc.file, error.loc.line)


def compile_to_llvm(text: str, name: str, options: Options, included: tuple[str, ...] | None = None) -> Output:
    """The unoptimized LLVM module of the C++ source ``text``, which the user knows as ``name``. ``included`` are the
    files in what ``expanded`` has expanded.

    Raises TileSyntaxError or TileTypeError, at the user's line, for what the compiler refuses.
    """
    with tempfile.TemporaryDirectory(prefix="tilewright-") as directory:
        output = Path(directory) / "module.ll"
        before, left = headers_first(text, options.defines, options.include_dirs)
        flags = options.flags(text, left)  # also of expanded text, in which our headers are still to be read
        again = first = (*flags, *options.folders())
        if included is None:
            again, prelude = (*again, *options.prelude(text)), options.prelude()
            if len(left) == len(options.defines):  # else definitions come first
                headers = first_headers(text, options.include_dirs)
                prelude = (*prelude, *(word for name in headers for word in ("-include", name)))
            first = (*first, *(_precompiled(flags, prelude) or options.prelude(text)))
        else:
            before = ""
        files = _compile(text, name, first, again, Path(directory), output, before)
        return Output(output.read_text(), files if included is None else included)


def to_object(llvm: str, *, fast: bool) -> bytes:
    """The object of the LLVM module ``llvm``; ``fast`` vectorizes."""
    return _made("host.ll", llvm, (*_OBJECT_FLAGS, *(_FAST if fast else ())))


def compile_runtime(source: Path, state: str) -> bytes:
    """The object of the runtime, which includes our headers; ``state`` tells these from other versions of them."""
    made = _made_once("runtime", state, (*_OBJECT_FLAGS, *_RUNTIME_FLAGS, str(source)))
    if made is None:
        raise TileCompilerExecutionError(f"the compiler refuses the runtime of C++ programs, {source}")
    return made.read_bytes()


def compile_table(text: str) -> bytes:
    """The object of a table of ours, in C++ but for its names."""
    return _made("table.cpp", f'extern "C" {{\n{text}\n}}\n', _OBJECT_FLAGS)


def _made(name: str, text: str, flags: Sequence[str]) -> bytes:
    """What the compiler makes of a file of ours."""
    with tempfile.TemporaryDirectory(prefix="tilewright-") as directory:
        source, output = Path(directory) / name, Path(directory) / "output.o"
        source.write_text(text)
        result = _driver(require_compiler().command, [*flags, "-o", str(output), str(source)])
        if result.returncode != 0 or not output.exists():
            raise TileCompilerExecutionError(f"the host part of the program has no code:\n{result.stderr.strip()}")
        return output.read_bytes()


def merge(objects: Sequence[bytes]) -> bytes:
    """One object with all that is in ``objects``."""
    with tempfile.TemporaryDirectory(prefix="tilewright-") as directory:
        output = Path(directory) / "merged.o"
        inputs = _written(objects, directory)
        result = _driver(require_compiler().command, ["-r", "-nostdlib", "-o", str(output), *inputs])
        if result.returncode != 0:
            raise TileCompilerExecutionError(f"objects cannot be joined:\n{result.stderr.strip()}")
        return output.read_bytes()


def _written(objects: Sequence[bytes], directory: str) -> list[str]:
    """Files in ``directory`` that hold ``objects``."""
    paths = [Path(directory) / f"{number}.o" for number in range(len(objects))]
    for path, content in zip(paths, objects):
        path.write_bytes(content)
    return list(map(str, paths))


def link(
    objects: Sequence[bytes], files: Sequence[str], options: Sequence[str], *, library: bool, kind: Linked
) -> bytes:
    """What ``objects`` and the objects and archives ``files`` are linked to, with the C++ standard library if asked
    for. TileUnsupportedFeatureError, at the first use, for a name that nothing defines."""
    compiler = require_compiler()
    command = compiler.command if library or len(compiler.command) == 1 else (compiler.command[0], "cc")
    with tempfile.TemporaryDirectory(prefix="tilewright-") as directory:
        output, inputs = Path(directory) / "program", _written(objects, directory)
        result = _driver(command, [*_LINK_FLAGS, *kind.value, "-o", str(output), *inputs, *files, *options])
        if result.returncode != 0 or not output.exists():
            raise link_error(result.stderr, COMPILATION_DIR, options) or TileCompilerExecutionError(
                f"the program cannot be linked:\n{result.stderr.strip()}"
            )
        if library:
            _library_mark().parent.mkdir(parents=True, exist_ok=True)
            _library_mark().touch()
        return output.read_bytes()


def _driver(command: Sequence[str], arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, check=False, env=_environment(), errors="replace"
    )


def library_is_built() -> bool:
    """Whether the C++ standard library is there already: zig builds it from source when it links the first program."""
    return len(require_compiler().command) == 1 or _library_mark().exists()


def _library_mark() -> Path:
    return Path(_environment()["ZIG_GLOBAL_CACHE_DIR"]) / f"tilewright-library-built-{_digest(compiler_identity())}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"')
