"""What commands do with files of CUDA Tile IR: a kernel of one is run on arrays that the command line describes."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from tilewright.cli.arguments import filled, parse_argument, parse_index
from tilewright.cli.errors import UsageError, misused
from tilewright.cli.output import say
from tilewright.cli.tileir_names import split
from tilewright.ir.dtypes import float64
from tilewright.ir.semantics import evaluate
from tilewright.language.dtypes import to_dtype
from tilewright.runtime.launch import launch
from tilewright.tileir.kernels import Kernel, Module, flattened, load

_SHOWN = 64  # elements of an array that ``run`` prints in full


def find_module(target: str) -> tuple[Module, str | None]:
    """The file that ``FILE`` or ``FILE::KERNEL`` names, and the name of the kernel. UsageError where there is none."""
    found = split(target)
    assert found is not None
    path, name = found
    with misused(OSError):
        module = load(path)
    if name is not None and name not in module.kernels:
        known = ", ".join(module.kernels) or "none"
        raise UsageError(f"{path} has no kernel {name}; it has: {known}; write FILE::KERNEL")
    return module, name


def find_kernel(target: str) -> Kernel:
    """The kernel that ``FILE::KERNEL`` names, or the only one of ``FILE``. UsageError when there is none."""
    module, name = find_module(target)
    try:
        return module.kernel(name)
    except KeyError as e:
        raise UsageError(f"{e.args[0]}; write FILE::KERNEL") from None


def arguments_for(kernel: Kernel, given: list[Any]) -> tuple[Any, ...]:
    """``given`` as the kernel takes it: arrays may stand for a pointer, extents and strides. UsageError for another
    number of arguments."""
    spread = flattened(*given)
    if kernel.own_parameters not in (len(given), len(spread)):
        raise UsageError(
            f"{kernel!r} has {kernel.own_parameters} parameters, for which there are {len(given)} arguments: "
            "pass one for each, such as --arg f32[64] --arg 64, or one for each array where it takes their pointers, "
            "extents and strides"
        )
    return spread if len(given) != kernel.own_parameters else tuple(given)


def run(options: argparse.Namespace) -> int:
    """``tilewright run`` for a kernel of such a file."""
    parser = argparse.ArgumentParser(prog=f"tilewright run {options.program}", add_help=False)
    parser.add_argument("--arg", action="append", default=[])
    parser.add_argument("--grid", default="1")
    parser.add_argument("--backend")
    given, unknown = parser.parse_known_args(options.arguments)
    if unknown:
        raise UsageError(
            f"unknown argument {unknown[0]!r} for a kernel of CUDA Tile IR, which takes --arg, --grid and --backend; "
            "options of the command come before the file"
        )
    arguments = [filled(parse_argument(text)) for text in given.arg]
    launch_on(find_kernel(options.program), arguments, given.grid, given.backend)
    for text, argument in zip(given.arg, arguments):
        if isinstance(argument, np.ndarray):
            say(f"{text}: {_shown(argument)}")
    return 0


def launch_on(kernel: Kernel, arguments: list[Any], grid: str, backend: str | None) -> None:
    """Launch ``kernel``. UsageError for arguments that it does not take."""
    spread = arguments_for(kernel, arguments)
    with misused(TypeError, ValueError, OverflowError):
        launch(None, parse_index(grid, "grid", 1), kernel, spread, backend=backend)


def _shown(array: np.ndarray[Any, Any]) -> str:
    """Elements, and the sum of those of a large array."""
    dtype = to_dtype(array.dtype)
    numbers = evaluate("cast", dtype, {"dtype": float64}, [array]) if dtype is not None and dtype.is_floating else array
    text = np.array2string(numbers, threshold=_SHOWN, separator=", ")
    return text if array.size <= _SHOWN else f"{text}, sum {numbers.sum(dtype=None)}"
