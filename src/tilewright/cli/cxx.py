"""``tilewright c++``: a compiler for programs with kernels, which then need no Python, as build systems call one."""

from __future__ import annotations

import argparse
import functools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.cli.cpp import checked_request, is_cpp, macros
from tilewright.cli.errors import UsageError, writing
from tilewright.cpp.host import crashes, modules
from tilewright.cpp.host.build import TOOLCHAIN, Libraries, build_object, link_objects
from tilewright.cpp.library import write_library
from tilewright.cpp.module import Module
from tilewright.cpp.translation import Request, included_files
from tilewright.frontend.cpp.toolchain import Linked, compile_table, compiler_command
from tilewright.ir.errors import TileError

_USAGE = "tilewright c++ [-c] [-o FILE] [-I...] [-D...] [-std=...] [-shared] [-l...] [-L...] FILE..."
_DESCRIPTION = "compile a C++ program to one that needs no Python: tilewright c++ a.cu b.cpp -o prog"
_EPILOG = """\
For CMake projects of CUDA: cmake -DCMAKE_TOOLCHAIN_FILE=$(tilewright c++ -print-toolchain)
For others, find_package(tilewright): cmake -Dtilewright_DIR=$(tilewright c++ -print-cmake)"""
# What help and completion tell of: the option, what its value is, and what it does.
_OPTIONS = (
    ("-c", None, "compile to objects, and do not link"),
    ("-o", "FILE", "write this file"),
    ("-I", "FOLDER", "search for headers"),
    ("-isystem", "FOLDER", "search for headers of others"),
    ("-D", "NAME[=VALUE]", "define a macro"),
    ("-std", "STD", "the standard (default: c++20)"),
    ("--keep", None, "with -c, write the code of the tile kernels, too, for cuModuleLoadData: FILE.tile.cubin"),
    ("--keep-dir", "FOLDER", "write it there"),
    ("-shared", None, "make a shared library"),
    ("-kernel", "SYMBOL=NAME", "make a shared library of this kernel, with a C header; may be repeated"),
    ("-l", "NAME", "link a library"),
    ("-L", "FOLDER", "search for libraries"),
    ("-MD", None, "with -c, write what the object depends on, for make"),
    ("-MF", "FILE", "the file for that"),
    ("-MT", "NAME", "what that file calls the object"),
    ("-print-toolchain", None, "print the file for CMake projects of CUDA"),
    ("-print-cmake", None, "print the folder of the CMake package"),
    ("--help", None, "show this message"),
)
# Options with a value, in the same word or in the next.
_WITH_VALUE = (*(option for option, value, _ in _OPTIONS if value), "-MQ", "-x", "--std", "-U", "-Xlinker")
_FLAGS = {"-c": "compile_only", "-keep": "keep", "--keep": "keep", "-shared": "shared", "--shared": "shared"}
_FLAGS |= dict.fromkeys(("-dlink", "--device-link"), "device_link")
# Where the value goes: what there is one of, and what there may be more of.
_SINGLE = {"-std": "std", "--std": "std", "-o": "output", "--keep-dir": "keep_folder", "-MF": "depends"}
_SINGLE |= dict.fromkeys(("-MT", "-MQ"), "target")
_REPEATED = {"-I": "includes", "-isystem": "includes", "-kernel": "kernels"}
# How nvcc calls options of ours.
_LONG = {"--define-macro": "-D", "--undefine-macro": "-U", "--include-path": "-I", "--system-include": "-isystem"}
_LONG |= {"--library-path": "-L", "--library": "-l", "--output-file": "-o", "--linker-options": "-Xlinker"}
_LONG |= {"--dependency-output": "-MF", "--dependency-target-name": "-MT", "--x": "-x"}
_LONG |= dict.fromkeys(("--compile", "--device-c", "--device-w", "-dc", "-dw"), "-c")
_LONG |= {f"--generate-{kind}dependencies-with-compile": "-MD" for kind in ("", "nonsystem-")}
_TO_COMPILER = ("-Xcompiler", "--compiler-options")
_MEANT = ("-D", "-U", "-I", "-isystem", "-std")  # what counts of the options for the host's compiler
# What nvcc and other compilers are told that changes nothing here: debug information, optimization and warnings, GPU
# architectures. The words of the second group have a value in the next word, unless it follows a =.
_IGNORED = re.compile(
    r"-[OgWfm].*|-w|-G|-p|-s|-MP|-t\d+|-v|-pg|-pipe|-pthread|-c?cudart=?.*|-Qunused-arguments|-noeh|-time|-keep-.*"
    r"|--?(lineinfo|generate-line-info|enable-tile|rdc.*|relocatable-device-code=.*|expt-.*|extended-lambda|restrict"
    r"|use_fast_math|forward-unknown-.*|allow-unsupported-compiler|src-in-ptx|source-in-ptx|extra-device-vectorization"
    r"|(device-)?debug|profile|verbose|(resource|res)-usage|objdir-as-tempdir|disable-warnings|pedantic|no-exceptions)"
)
_IGNORED_PAIRS = re.compile(
    r"(--?(Xptxas|ptxas-options|Xnvlink|nvlink-options|Xcudafe|Xnvvm|arch|gencode"
    r"|gpu-architecture|generate-code|code|gpu-code|ccbin|compiler-bindir|t|threads|diag-(suppress|warn|error)|cudart"
    r"|maxrregcount|default-stream|ftz|fmad|prec-(div|sqrt)|optimize|machine|relocatable-device-code|split-compile|dopt"
    r"|std-lib))(?P<value>=.*)?"
)
_KIND_OF_ERRORS = re.compile(r"all-warnings|cross-execution-.*|reorder|(default-stream|missing)-launch.*|ext-.*")
_PRINTED: dict[str, Callable[[], object]] = {
    "-print-toolchain": lambda: TOOLCHAIN,
    "-print-cmake": lambda: TOOLCHAIN.parent,
    "-print-tileiras": lambda: TOOLCHAIN.with_name("tileiras"),
    "-print-compiler": lambda: ";".join(compiler_command()),
}
_ASKS = re.compile(r"--version|-dumpversion|-dumpmachine|-print-.*|-E|-dM|-###")


@dataclass
class _Job:
    """What a command line asks for."""

    sources: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)  # objects and archives
    includes: list[str] = field(default_factory=list)
    defines: dict[str, str | int | None] = field(default_factory=dict)
    linker: list[str] = field(default_factory=list)
    std: str = "c++20"
    output: str | None = None
    depends: str | None = None  # the file for the dependencies of make
    target: str | None = None  # what that file calls the output
    kernels: list[str] = field(default_factory=list)  # of a library with a C header
    keep: bool = False
    keep_folder: str = "."
    compile_only: bool = False
    shared: bool = False
    device_link: bool = False

    def request(self, source: str) -> Request:
        return checked_request(Path(source), self.std, self.defines, self.includes)


def add_parser(commands: Any) -> None:
    summary = "compile a C++ program to one that needs no Python"
    texts = {"help": summary, "usage": _USAGE, "description": _DESCRIPTION, "epilog": _EPILOG}
    raw = argparse.RawDescriptionHelpFormatter
    parser = commands.add_parser("c++", **texts, formatter_class=raw, prefix_chars="\0", add_help=False)
    parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    described = argparse.ArgumentParser(
        usage=_USAGE, description=_DESCRIPTION, epilog=_EPILOG, formatter_class=raw, add_help=False
    )
    for option, value, text in _OPTIONS:
        kind: dict[str, Any] = {"metavar": value} if value else {"action": "store_true"}
        described.add_argument(option, help=text, **kind)
    parser.set_defaults(run=functools.partial(run, described), described=described)


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    words: list[str] = options.words
    if len(words) == 1 and words[0] in _PRINTED:
        print(_PRINTED[words[0]]())
        return 0
    if words[:1] == ["-module"]:
        return _module(words[1:])
    if words[:1] == ["-crash"]:
        crashes.tell(*words[1:])
        return 0
    if words[:1] == ["-place"]:
        sys.stdout.write(crashes.location(Path(words[1]), int(words[2])))
        return 0
    if any(_ASKS.fullmatch(word) for word in words):
        return subprocess.run([*compiler_command(), *words], check=False).returncode
    if not words or words == ["--help"]:
        parser.print_help()
        return 0 if words else 2
    job = _parsed(words)
    if job.kernels:
        return _library(job)
    if job.device_link:  # code for devices is linked with that of the host
        _write(job.output or "a_dlink.o", compile_table(""))
        return 0
    if job.compile_only:
        if len(job.sources) > 1 and job.output is not None:
            raise UsageError("-c and -o with several files: compile one at a time, or leave -o out")
        for source in job.sources:
            request = job.request(source)
            output = job.output or f"{Path(source).stem}.o"
            _write(output, build_object(request))
            if job.keep:  # as nvcc names it
                kept = Path(job.keep_folder, f"{Path(source).stem}.tile.cubin")
                _write(str(kept), modules.image(request))
            if job.depends is not None:
                _write(job.depends, _rule(job.target or output, source, request, "host unit").encode())
        return 0
    objects = [build_object(job.request(source)) for source in job.sources]
    libraries = Libraries(tuple(job.files), tuple(job.linker))
    output = job.output or "a.out"
    words = [sys.executable, "-m", "tilewright", "c++"]
    kind = Linked.LIBRARY if job.shared else Linked.PROGRAM
    _write(output, link_objects(objects, libraries, kind, compiler_words=words))
    os.chmod(output, 0o777 & ~_umask())
    return 0


def _library(job: _Job) -> int:
    """Make a library of kernels of one file, and its header."""
    if len(job.sources) != 1 or job.files or job.compile_only or job.output is None:
        raise UsageError("-kernel takes one source file and -o: -kernel 'scale_f32=scale<float, 64>' a.cu -o liba.so")
    request = job.request(job.sources[0])
    pairs = [text.partition("=") for text in job.kernels]
    if not all(symbol.isidentifier() and name for symbol, _, name in pairs):
        raise UsageError("-kernel takes SYMBOL=NAME, such as 'scale_f32=scale<float, 64>'")
    module = Module(request)
    with writing(job.output):
        write_library([(symbol, module.kernel(name)) for symbol, _, name in pairs], Path(job.output))
    if job.depends is not None:
        _write(job.depends, _rule(job.target or job.output, job.sources[0], request, "names").encode())
    return 0


def _module(words: Sequence[str]) -> int:
    """Compile kernels for a program that runs, which calls this: the status is that of ``nvrtcCompileProgram``."""
    text, name, image, log, *rest = words
    first = rest.index("--")
    second = rest.index("--", first + 1)
    headers, expressions, options = rest[:first], rest[first + 1 : second], rest[second + 1 :]
    try:
        request = modules.requested(Path(text).read_text(), name, options, [Path(file).read_text() for file in headers])
        Path(image).write_bytes(modules.code(request, expressions))
    except (TileError, ValueError) as e:
        Path(log).write_text(modules.told(e))
        return modules.INVALID_OPTION if isinstance(e, modules.OptionError) else modules.FAILED
    return 0


def _parsed(words: Sequence[str]) -> _Job:
    job, rest = _Job(), list(words)
    any_file = False  # as one of a language that the command line names
    while rest:
        if (file := _responses(rest)) is not None:
            rest[:0] = shlex.split(Path(file).read_text())
            continue
        word, joint, value = rest.pop(0).partition("=")
        if word.startswith("-"):
            word = _LONG.get(word, word)
        word += joint + value
        name = next((n for n in sorted(_WITH_VALUE, key=len, reverse=True) if word.startswith(n)), None)
        if word.split("=")[0] in _TO_COMPILER:
            given = value or (rest.pop(0) if rest else "")
            rest[:0] = [each for each in re.split("[, ]+", given) if each.startswith(_MEANT)]
        elif word in _FLAGS:
            setattr(job, _FLAGS[word], True)
        elif word in ("-lib", "--lib"):
            raise UsageError(f"tilewright c++ has no option {word}; make an archive by ar, of the objects of -c")
        elif word in ("-MD", "-MMD"):
            job.depends = job.depends or ""
        elif word.startswith("-Wl,"):
            job.linker.append(word)
        elif (pair := _IGNORED_PAIRS.fullmatch(word)) is not None:
            value = pair["value"] or "=" + "".join(rest[:1])
            del rest[: pair["value"] is None]
            if (word.lstrip("-").split("=")[0], value) == ("default-stream", "=per-thread"):
                job.defines["CUDA_API_PER_THREAD_DEFAULT_STREAM"] = 1
        elif word in ("-Werror", "--Werror"):
            del rest[: bool(rest and _KIND_OF_ERRORS.fullmatch(rest[0]))]
        elif name is not None and not _IGNORED.fullmatch(word):
            value = word[len(name) :].removeprefix("=") or (rest.pop(0) if rest else "")
            if not value:
                raise UsageError(f"{name} needs a value")
            _set(job, name, value)
            any_file |= name == "-x"
        elif _IGNORED.fullmatch(word):
            continue
        elif word.startswith("-"):
            raise UsageError(f"tilewright c++ has no option {word}")
        elif is_cpp(word) or (any_file and Path(word).is_file()):
            job.sources.append(word)
        elif word.endswith(".c"):
            raise UsageError(f"{word} is C; compile it by a C compiler, and give the object: cc -c {word}")
        elif Path(word).is_file():
            job.files.append(word)
        else:
            raise UsageError(f"there is no file {word}")
    if not job.sources and (job.compile_only or not job.files):
        raise UsageError("no file to compile")
    if job.depends == "":
        job.depends = str(Path(job.output or job.sources[0]).with_suffix(".d"))
    return job


def _responses(words: list[str]) -> str | None:
    """The file with options that the next of ``words`` name, which are taken away then."""
    option, joint, value = words[0].partition("=")
    named = option in ("--options-file", "-optf")
    if not (named or words[0].startswith("@")):
        return None
    word = words.pop(0)
    file = (value if joint else words.pop(0) if words else "") if named else word[1:]
    if not Path(file).is_file():
        raise UsageError(f"there is no file {file}, whose options {word} asks for")
    return file


def _set(job: _Job, name: str, value: str) -> None:
    if name in _REPEATED:
        getattr(job, _REPEATED[name]).append(value)
    elif name in _SINGLE:
        setattr(job, _SINGLE[name], value)
    elif name == "-D":
        job.defines |= macros([value])
    elif name == "-U":
        job.defines.pop(value, None)
    elif name == "-Xlinker":
        job.linker.append(f"-Wl,{value}")
    elif name in ("-l", "-L"):
        job.linker.append(f"{name}{value}")
    elif value not in ("cu", "c++"):
        raise UsageError(f"-x {value}: tilewright c++ compiles cu and c++")


def _rule(target: str, source: str, request: Request, what: str) -> str:
    """What ``target`` depends on, as make reads it: what was included when ``what`` was made."""
    names = [name.replace(" ", "\\ ") for name in (source, *included_files(request, what))]
    return f"{target}: {' '.join(names)}\n"


def _write(path: str, content: bytes) -> None:
    with writing(path):
        Path(path).write_bytes(content)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
