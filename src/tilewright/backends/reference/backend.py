"""The backend object and its executables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.backends.base import Backend, Executable
from tilewright.backends.launch_arguments import LaunchArguments
from tilewright.backends.reference.interpreter import BlockInterpreter, Index, Observer
from tilewright.backends.reference.memory import Memory
from tilewright.backends.reference.scheduler import run_blocks
from tilewright.backends.schedule import Schedule
from tilewright.ir.core import Function, Value
from tilewright.ir.printer import print_function
from tilewright.ir.semantics import constant_array
from tilewright.ir.types import TileType


def bound_arguments(function: Function, memory: Memory, arguments: LaunchArguments) -> dict[Value, Any]:
    """The run-time values of the arguments of ``function``."""
    values: dict[Value, Any] = {}
    for param, arg, number in zip(function.params, function.body.args, arguments.values):
        assert isinstance(arg.type, TileType)
        if arg.type.is_pointer:
            values[arg] = memory.pointer(param.argument, int(number))
        else:
            values[arg] = constant_array(number, arg.type.dtype, ())
    return values


def run_grid(
    function: Function,
    grid: tuple[int, int, int],
    arguments: LaunchArguments,
    interpreter: Callable[[Index, Memory, dict[Value, Any]], BlockInterpreter],
) -> None:
    """Run every block of ``grid``, the first axis fastest, each in an ``interpreter`` of its own."""
    memory = Memory(arguments.buffers)
    values = bound_arguments(function, memory, arguments)
    blocks = ((index, interpreter(index, memory, values).run_all(function.body)) for index in Schedule().indices(grid))
    run_blocks(blocks, memory)


class ReferenceExecutable(Executable):
    """A function ready to be interpreted. It keeps no state between launches."""

    def __init__(self, function: Function) -> None:
        self.function = function

    def launch(self, grid: tuple[int, int, int], arguments: LaunchArguments, observer: Observer | None = None) -> None:
        """Run every block of ``grid``, the first axis fastest. TileError for failed assertions, accesses outside the
        buffers or to read-only ones, broken in-bounds promises, and deadlock."""
        run_grid(
            self.function,
            grid,
            arguments,
            lambda index, memory, values: BlockInterpreter(index, grid, memory, values, observer),
        )

    def stages(self) -> Mapping[str, str]:
        return {"Tile IR": print_function(self.function)}


class NumpyBackend(Backend):
    """Shared by backends that interpret IR with NumPy."""

    device = "cpu"

    def target(self) -> str:
        return f"numpy-{np.__version__}"


class ReferenceBackend(NumpyBackend):
    """Interprets the IR as the front end delivers it, so that no pass can change what a program means here."""

    name = "reference"

    def compile(self, function: Function, options: Mapping[str, Any], variant: Any = None) -> ReferenceExecutable:
        return ReferenceExecutable(function)


BACKEND: Backend = ReferenceBackend()
