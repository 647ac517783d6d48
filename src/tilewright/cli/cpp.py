"""What commands do with files of Tile C++."""

from __future__ import annotations

import argparse
import re
from typing import Any

from tilewright.cli.errors import UsageError
from tilewright.cpp.module import Module, request_of
from tilewright.cpp.translation import Request
from tilewright.runtime.launchable import Launchable

_SUFFIX = r"\.(?:cu|cuh|cc|cpp|cxx|h|hpp)"
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


def is_cpp(path: str) -> bool:
    """Whether a file is C++, by its name."""
    return re.search(rf"{_SUFFIX}\Z", path) is not None


def requested(path: str, options: argparse.Namespace) -> Request:
    """The program in the file ``path``. UsageError when there is none, or for options that make no sense."""
    defines: dict[str, str | int | None] = {}
    for text in options.define:
        name, assigned, value = text.partition("=")
        defines[name] = value if assigned else 1
    try:
        return request_of(path, options.std or "c++20", defines, options.include)
    except (OSError, ValueError) as e:
        raise UsageError(str(e)) from None


def find_kernel(target: str, options: Any) -> Launchable | None:
    """The kernel that ``FILE.cu::KERNEL`` names; None when it names no file of C++."""
    match = _TARGET.fullmatch(target)
    if match is None:
        refuse_options(options)
        return None
    return Module(requested(match["path"], options)).kernel(match["kernel"])
