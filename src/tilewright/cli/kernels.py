"""The kernels that commands are given: of a file in Python, C++ or CUDA Tile IR, found without running its program."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tilewright.cli.arguments import parse_argument
from tilewright.cli.cpp import find_kernel, is_cpp, refuse_options
from tilewright.cli.definitions import kernel_names, load_definition
from tilewright.cli.errors import UsageError
from tilewright.cli.tileir import find_kernel as find_tileir_kernel
from tilewright.cli.tileir_names import is_tileir
from tilewright.frontend.cpp.source import declared_kernels
from tilewright.runtime.launchable import Launchable
from tilewright.tune import AutotunedKernel


def add_kernel(parser: argparse.ArgumentParser) -> None:
    """The options that name a kernel and describe its arguments."""
    parser.add_argument("kernel", metavar="FILE::KERNEL", help="a kernel of a file, in Python, C++ or Tile IR")
    parser.add_argument("--arg", action="append", default=[], metavar="SPEC", help="an argument, in order")


def arguments_of(kernel: Launchable, options: argparse.Namespace) -> tuple[Any, ...]:
    """What the options ``--arg`` describe. UsageError where the kernel takes another number of arguments."""
    found = tuple(map(parse_argument, options.arg))
    names = [ref.argument for ref, _ in kernel.parameters]
    if not len(names) - len(kernel.defaults) <= len(found) <= len(names):
        raise UsageError(f"{kernel.name}() takes {len(names)} --arg ({', '.join(names)}), not {len(found)}")
    return found


def find(options: argparse.Namespace) -> Launchable:
    """The kernel that the command names. UsageError when there is none."""
    found = find_tunable(options)
    return found.kernel if isinstance(found, AutotunedKernel) else found


def find_tunable(options: argparse.Namespace) -> Launchable | AutotunedKernel:
    """The kernel that the command names, with its configurations where it has some. UsageError when there is none."""
    if is_tileir(options.kernel):
        refuse_options(options)
        return find_tileir_kernel(options.kernel)
    return find_kernel(options.kernel, options) or load_object(options.kernel)


def kernels_in(path: str) -> list[str]:
    """The kernels of a file in Python or C++ by its text; none of one that cannot be read, or that is half written."""
    try:
        return declared_kernels(Path(path).read_text("utf-8")) if is_cpp(path) else kernel_names(Path(path))
    except (OSError, ValueError, SyntaxError):
        return []


def split_target(target: str) -> tuple[Path, str]:
    """The file and the name of ``FILE::KERNEL``. UsageError for other text."""
    path, separator, name = target.rpartition("::")
    if not separator:
        known = kernels_in(target)
        such = f"{target}::{known[0]}" if known else "kernels.py::add"
        missing = f"there is no file {target}; " if Path(target).suffix and not Path(target).exists() else ""
        raise UsageError(f"{missing}write FILE::KERNEL, such as {such}, not {target}")
    return Path(path), name


def load_object(target: str) -> Launchable | AutotunedKernel:
    """What ``FILE::NAME`` names, a kernel or one that tunes itself. UsageError when it is something else."""
    path, name = split_target(target)
    found = load_definition(path, name)
    if isinstance(found, (Launchable, AutotunedKernel)):
        return found
    known = ", ".join(kernel_names(path))
    raise UsageError(f"{path} has no kernel {name} at its top level; it has: {known or 'none'}")


def load_kernel(target: str) -> Launchable:
    """The kernel that ``FILE::KERNEL`` names. UsageError when there is none."""
    found = load_object(target)
    return found.kernel if isinstance(found, AutotunedKernel) else found
