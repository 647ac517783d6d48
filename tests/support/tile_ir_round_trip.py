"""Kernels that go through CUDA Tile IR bytecode and back before they are compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.kernel_generator import GeneratedKernel
from support.kernel_runs import arguments

import tilewright as ct
from tilewright.ir.core import Function
from tilewright.tileir.bytecode import read, write
from tilewright.tileir.export import Kernel, export_module
from tilewright.tileir.importer import import_entry


def through_bytecode(function: Function) -> Function:
    """``function`` written as bytecode, read, and imported, with the parameters that it had."""
    module = read(write(export_module([Kernel(function)])))
    found = import_entry(module, module.entries[0], [value.tile for value in function.body.args]).function
    return Function(found.name, found.body, list(function.params), found.loc, found.hints, function.may_alias)


def outcome(kernel: GeneratedKernel, backend: str) -> dict[str, np.ndarray[Any, Any]]:
    """The memory of all arrays after a launch of the kernel that came back."""
    values, memory = arguments(kernel)
    launched = kernel.kernel()
    trace = launched.trace
    launched.trace = lambda signature: through_bytecode(trace(signature))
    ct.launch(None, kernel.grid, launched, values, backend=backend)
    return memory
