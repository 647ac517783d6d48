"""``tilewright debug``: a kernel in the Python debugger, block by block."""

from __future__ import annotations

import argparse
import ast
import os
import pdb
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tilewright.cli.arguments import SPECIFICATIONS, filled, parse_argument, parse_index
from tilewright.cli.errors import FINE, UsageError, misused
from tilewright.cli.files import check_program
from tilewright.cli.kernels import load_kernel, split_target
from tilewright.cli.parsers import add_command
from tilewright.cli.tileir_debugger import debug as debug_tileir
from tilewright.cli.tileir_names import is_tileir
from tilewright.compat import run_program
from tilewright.eager.backend import DebugDriver, debugged_by
from tilewright.runtime.backend_choice import use_backend
from tilewright.runtime.grid import checked_grid
from tilewright.runtime.launch import launch
from tilewright.runtime.launchable import Launchable

Index = tuple[int, int, int]

_EPILOG = f"""\
Without --arg the file runs as a program, and the debugger stops at the first line of the kernel whenever the program
launches it. With --arg the kernel alone is launched, on arrays that hold 0, 1, 2, ...; nothing else of the file runs
then.

{SPECIFICATIONS}
examples:
  tilewright debug examples/softmax.py::softmax_rows
  tilewright debug examples/vector_add.py::vector_add --grid 4 --block 3 \\
      --arg f32[64] --arg f32[64] --arg f32[64] --arg 16
  tilewright debug kernels.tilebc::add --arg f32[64] --arg f32[64]      CUDA Tile IR, op by op
"""


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "debug", "step through a kernel in the Python debugger", run, _EPILOG)
    parser.add_argument("kernel", metavar="FILE::KERNEL", help="a kernel at the top level of a Python file")
    parser.add_argument("arguments", nargs="*", help="arguments of the program; after -- if they are options")
    parser.add_argument("--block", metavar="X,Y,Z", help="run this block only (default: all, one after the other)")
    parser.add_argument("--arg", action="append", default=[], metavar="SPEC", help="an argument, in order")
    parser.add_argument("--grid", metavar="X,Y,Z", help="the grid of the launch with --arg (default: 1)")


def run(options: argparse.Namespace) -> int:
    if is_tileir(options.kernel):
        return debug_tileir(options)
    path, name = split_target(options.kernel)
    if options.grid is not None and not options.arg:
        raise UsageError("--grid is the grid of a launch with --arg; without, the program launches the kernel")
    if options.arguments and options.arg:
        raise UsageError(f"{options.arguments[0]!r} is for the program, which does not run with --arg")
    check_program(path)
    _check_kernel(path, name)
    block = None if options.block is None else parse_index(options.block, "block", 0)
    debugger = _Debugger(os.path.abspath(path), name, block)
    kernel = load_kernel(options.kernel) if options.arg else None
    try:
        with use_backend("python"), debugged_by(debugger):
            if kernel is not None:
                _launch(kernel, options)
            else:
                run_program(str(path), options.arguments)
    except _Quit:
        return FINE
    except SystemExit:
        if debugger.entered:
            raise
    if not debugger.entered:
        raise UsageError(f"{path} ended without launching {name}; with --arg it can be launched alone")
    return FINE


def _check_kernel(path: Path, name: str) -> None:
    """UsageError where the file has no function of that name, which the program might run for long without calling."""
    tree = ast.parse(path.read_bytes())
    names = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    if name not in names:
        raise UsageError(f"{path} defines no function {name}; it defines: {', '.join(dict.fromkeys(names)) or 'none'}")


def _launch(kernel: Launchable, options: argparse.Namespace) -> None:
    grid = (1,) if options.grid is None else parse_index(options.grid, "grid", 1)
    arguments = tuple(map(filled, map(parse_argument, options.arg)))
    with misused(TypeError, ValueError, OverflowError):
        launch(None, checked_grid(grid), kernel, arguments)


class _Quit(BaseException):
    """The person at the debugger wants no more; no Exception, which a program might handle."""


class _Pdb(pdb.Pdb):
    """Knows whether it was left, by ``q`` or the end of its input, which ``runcall`` does not tell."""

    left = False

    def set_quit(self) -> None:
        self.left = True
        super().set_quit()


class _Debugger(DebugDriver):
    """Stops at the first line of one kernel."""

    def __init__(self, path: str, name: str, block: Index | None) -> None:
        self._path = path
        self._name = name
        self._block = block
        self._pdb = _Pdb(skip=["tilewright.*"])
        self.entered = False

    def _concerns(self, function: types.FunctionType) -> bool:
        return function.__name__ == self._name and os.path.abspath(function.__code__.co_filename) == self._path

    def blocks(self, function: types.FunctionType, grid: Index) -> Iterable[Index]:
        if self._block is None or not self._concerns(function):
            return super().blocks(function, grid)
        if not all(i < n for i, n in zip(self._block, grid)):
            raise UsageError(f"there is no block {self._block} in the grid {grid} of {self._name}()")
        return [self._block]

    def call(self, function: types.FunctionType, code: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if not self._concerns(function):
            return super().call(function, code, arguments)
        self.entered = True
        result = None if self._pdb.left else self._pdb.runcall(code, *arguments)
        if self._pdb.left:  # the program would go on with what the kernel has left undone
            raise _Quit
        return result
