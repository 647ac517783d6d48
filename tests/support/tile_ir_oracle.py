"""Compares what the backends make of one kernel, each as it is and by way of CUDA Tile IR:

    python -m support.tile_ir_oracle FILE::KERNEL --grid 4 --arg f32[64] --arg f32[64] --arg 16

The reference says what is right. Without a GPU the others are the CPU, and both of them after the kernel was exported and
imported again; with one, Triton and NVIDIA's compiler, too. Random kernels: see ``support.random_runs --on``.
"""

from __future__ import annotations

import argparse
import copy
import functools
from typing import Any

import numpy as np
from support.gpu import HostBackend
from support.tile_ir_round_trip import through_bytecode

from tilewright.backends import registry
from tilewright.backends.tileir import BACKEND as TILEIR
from tilewright.backends.triton import BACKEND as TRITON
from tilewright.cli.arguments import filled, parse_argument
from tilewright.cli.cpp import find_kernel as find_cpp_kernel
from tilewright.cli.grids import parse_index
from tilewright.cli.inspect import load_kernel
from tilewright.cli.tileir import arguments_for, is_tileir
from tilewright.cli.tileir import find_kernel as find_tileir_kernel
from tilewright.gpu_runtime import driver
from tilewright.ir.dtypes import float64
from tilewright.ir.errors import TileError
from tilewright.ir.semantics import evaluate
from tilewright.language.dtypes import to_dtype
from tilewright.runtime.launch import launch

_GPU = {"triton on a GPU": TRITON, "tileiras on a GPU": TILEIR}  # for arrays in host memory


def sides() -> list[tuple[str, bool]]:
    """Backends, and whether the kernel goes through Tile IR before; the reference comes first."""
    found = [("reference", False), ("reference", True), ("cpu", False), ("cpu", True)]
    if driver.load() is None:
        return found
    for name, inner in _GPU.items():
        registry.register_backend(name, functools.partial(HostBackend, inner))
    return [*found, *((name, False) for name in _GPU)]


def outcome(target: str, given: list[str], grid: str, backend: str, imported: bool) -> list[np.ndarray[Any, Any]]:
    """The arrays among the arguments after a launch, as numbers of float64 where they are floats."""
    args: tuple[Any, ...] = tuple(filled(parse_argument(text)) for text in given)
    if is_tileir(target):
        kernel: Any = find_tileir_kernel(target)
        args = arguments_for(kernel, list(args))
    else:
        options = argparse.Namespace(std=None, define=[], include=[])
        kernel = copy.copy(find_cpp_kernel(target, options) or load_kernel(target)).replace_options("reference")
    if imported:
        trace = kernel.trace
        kernel.trace = lambda signature: through_bytecode(trace(signature))
    launch(None, parse_index(grid, "grid", 1), kernel, args, backend=backend)
    return [_numbers(a) for a in args if isinstance(a, np.ndarray)]


def _numbers(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    dtype = to_dtype(array.dtype)
    floating = dtype is not None and dtype.is_floating
    return evaluate("cast", dtype, {"dtype": float64}, [array]) if dtype is not None and floating else array


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel", metavar="FILE::KERNEL")
    parser.add_argument("--arg", action="append", default=[])
    parser.add_argument("--grid", default="1")
    parser.add_argument("--tolerance", type=float, default=0.0, help="relative, of floats")
    options = parser.parse_args()
    wanted: list[np.ndarray[Any, Any]] | None = None
    wrong = 0
    for backend, imported in sides():
        name = f"{backend}{' through Tile IR' if imported else ''}"
        try:
            found = outcome(options.kernel, options.arg, options.grid, backend, imported)
        except TileError as e:
            print(f"{name:28} {e}")
            wrong += 1
            continue
        if wanted is None:
            wanted = found
        same = [np.allclose(f, w, options.tolerance, 0, equal_nan=True) for f, w in zip(found, wanted)]
        wrong += not all(same)
        print(f"{name:28} {'agrees' if all(same) else f'differs in arrays {[i for i, s in enumerate(same) if not s]}'}")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
