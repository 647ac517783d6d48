"""What commands do with files of Tile C++."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.cli.errors import UsageError, misused
from tilewright.cpp.host.build import Libraries
from tilewright.cpp.module import Module, request_of
from tilewright.cpp.translation import Request
from tilewright.ir.errors import TileError
from tilewright.runtime.launchable import Launchable

_SUFFIX = r"\.(?:cu|cuh|cc|cpp|cxx|h|hpp)"
_OPTION = re.compile(r"(?P<name>-I|-isystem|-D|-l|-L|-std|--std)=?(?P<value>.*)", re.DOTALL)
_TARGET = re.compile(rf"(?P<path>.*?{_SUFFIX})::(?P<kernel>.+)", re.DOTALL)


def add_options(parser: argparse.ArgumentParser) -> None:
    """How to compile a file of C++."""
    group = parser.add_argument_group("files of Tile C++")
    group.add_argument("--std", help="the standard (default: c++20)")
    group.add_argument("-D", dest="define", action="append", default=[], metavar="NAME[=VALUE]", help="define a macro")
    group.add_argument("-I", dest="include", action="append", default=[], metavar="FOLDER", help="search for headers")


def refuse_options(options: argparse.Namespace) -> None:
    """UsageError where an option for C++ is given with what is no C++: it would change nothing."""
    for option, given in (("--std", options.std), ("-D", options.define), ("-I", options.include)):
        if given:
            raise UsageError(f"{option} is for files of Tile C++ only; leave it out, or write it after the program")


@dataclass(frozen=True)
class CppProgram:
    """The files of a program, and what it is linked with."""

    requests: list[Request]
    libraries: Libraries


def program_of(options: argparse.Namespace) -> tuple[CppProgram, list[str]]:
    """The program of a command line, and the arguments for its ``main``.

    After the first file may come more of them, and options for the compiler and the linker; the first word that is
    neither, or what follows ``--``, is for the program. UsageError for a file that there is not.
    """
    sources, files, linker = [options.program], [], []
    words = list(options.arguments)
    while words and not options.separated:
        option = _OPTION.fullmatch(words[0])
        if option is not None:
            value = option["value"] or (words.pop(1) if len(words) > 1 else "")
            if not value:
                raise UsageError(f"{words[0]} needs a value")
            name = option["name"]
            if name in ("-I", "-isystem"):
                options.include.append(value)
            elif name == "-D":
                options.define.append(value)
            elif name in ("-std", "--std"):
                options.std = value
            else:
                linker.append(f"{name}{value}")
        elif is_cpp(words[0]):
            sources.append(words[0])
        elif re.search(r"\.(?:o|a|so)\Z", words[0]):
            if not Path(words[0]).is_file():
                raise UsageError(f"there is no file {words[0]}")
            files.append(words[0])
        else:
            break
        words.pop(0)
    if words[:1] == ["--"]:
        words.pop(0)
    libraries = Libraries(tuple(files), tuple(linker))
    return CppProgram([requested(source, options) for source in sources], libraries), words


def is_cpp(path: str) -> bool:
    """Whether a file is C++, by its name."""
    return re.search(rf"{_SUFFIX}\Z", path) is not None


def requested(path: str, options: argparse.Namespace) -> Request:
    """The program in the file ``path``. UsageError when there is none, or for options that make no sense."""
    return checked_request(path, options.std or "c++20", macros(options.define), options.include)


def macros(given: Sequence[str]) -> dict[str, str | int | None]:
    """What ``-D`` defines."""
    parts = (text.partition("=") for text in given)
    return {name: value if assigned else 1 for name, assigned, value in parts}


def checked_request(
    path: str | Path, std: str, defines: dict[str, str | int | None], include: Sequence[str]
) -> Request:
    """``request_of`` with a UsageError for what it refuses."""
    with misused(OSError, ValueError):
        return request_of(path, std, defines, include)


def find_kernel(target: str, options: Any) -> Launchable | None:
    """The kernel that ``FILE.cu::KERNEL`` names; None when it names no file of C++."""
    match = _TARGET.fullmatch(target)
    if match is None:
        refuse_options(options)
        return None
    try:
        return Module(requested(match["path"], options)).kernel(match["kernel"])
    except TileError as e:
        if e.loc is None:  # the name is wrong, not the program
            raise UsageError(str(e)) from None
        raise
