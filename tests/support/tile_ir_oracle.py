"""Compares what the backends make of one kernel, each as it is and by way of CUDA Tile IR:

    python -m support.tile_ir_oracle FILE::KERNEL --grid 4 --arg f32[64] --arg f32[64] --arg 16
    python -m support.tile_ir_oracle kernels:17                          # kernel 17 of those of the random generator
    python -m support.random_runs kernels products --on oracle --seeds 0:300            # many of them

The reference says what is right. Without a GPU the others are the CPU, and both of them after the kernel was exported and
imported again; with one, both backends for GPUs and NVIDIA's compiler, too.
"""

from __future__ import annotations

import argparse
import copy
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from support import kernel_runs, tile_ir_round_trip
from support.gpu import HostBackend
from support.kernel_generator import GeneratedKernel, KernelGenerator
from support.kernel_runs import assert_same
from support.product_generator import ProductGenerator
from support.tile_ir_round_trip import through_bytecode

from tilewright.backends import registry
from tilewright.backends.gpu import BACKEND as OWN
from tilewright.backends.tileir import BACKEND as TILEIR
from tilewright.backends.triton import BACKEND as TRITON
from tilewright.cli.arguments import filled, parse_argument, parse_index
from tilewright.cli.cpp import add_options
from tilewright.cli.errors import UsageError
from tilewright.cli.kernels import add_kernel, find
from tilewright.cli.tileir import arguments_for
from tilewright.gpu_runtime import driver
from tilewright.ir.dtypes import float64
from tilewright.ir.errors import TileError
from tilewright.ir.semantics import evaluate
from tilewright.language.dtypes import to_dtype
from tilewright.runtime.launch import launch
from tilewright.tileir.kernels import Kernel

_GPU = {"our own on a GPU": OWN, "triton on a GPU": TRITON, "tileiras on a GPU": TILEIR}  # for arrays in host memory
_GENERATORS = {"kernels": KernelGenerator, "products": ProductGenerator}


@functools.cache
def sides() -> tuple[tuple[str, bool], ...]:
    """Backends, and whether the kernel goes through Tile IR before; the reference comes first."""
    found = (("reference", False), ("reference", True), ("cpu", False), ("cpu", True))
    if driver.load() is None:
        return found
    there = {name: backend for name, backend in _GPU.items() if backend.unavailable() is None}
    for name, inner in there.items():
        registry.register_backend(name, functools.partial(HostBackend, inner))
    return (*found, *((name, False) for name in there))


def _called(backend: str, imported: bool) -> str:
    return f"{backend}{' through Tile IR' if imported else ''}"


def judgements(kernel: GeneratedKernel) -> Iterator[tuple[str, str | None]]:
    """Each side in turn, and how it differs from the reference on a random kernel, or what it refuses; None for
    neither."""
    wanted = kernel_runs.outcome(kernel, "reference")
    for backend, imported in sides()[1:]:
        said = None
        try:
            made = (tile_ir_round_trip if imported else kernel_runs).outcome(kernel, backend)
            assert_same(made, wanted)
        except (TileError, AssertionError) as error:
            if isinstance(error, driver.CudaError) and error.code in driver.LOST:
                raise  # nothing that this process tries after it would work
            said = str(error).splitlines()[0]
        yield _called(backend, imported), said


def differences(kernel: GeneratedKernel) -> list[str]:
    """How the sides differ from the reference on a random kernel, and what they refuse, a line each."""
    return [f"{side}: {said}" for side, said in judgements(kernel) if said is not None]


def outcome(options: argparse.Namespace, backend: str, imported: bool) -> list[np.ndarray[Any, Any]]:
    """The arrays among the arguments after a launch, as numbers of float64 where they are floats."""
    args: tuple[Any, ...] = tuple(filled(parse_argument(text)) for text in options.arg)
    kernel: Any = find(options)
    if isinstance(kernel, Kernel):
        args = arguments_for(kernel, list(args))
    if imported:
        kernel = copy.copy(kernel).replace_options("reference")
        trace = kernel.trace
        kernel.trace = lambda signature: through_bytecode(trace(signature))
    launch(None, parse_index(options.grid, "grid", 1), kernel, args, backend=backend)
    return [_numbers(a) for a in args if isinstance(a, np.ndarray)]


def _numbers(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    dtype = to_dtype(array.dtype)
    floating = dtype is not None and dtype.is_floating
    return evaluate("cast", dtype, {"dtype": float64}, [array]) if dtype is not None and floating else array


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_kernel(parser)
    add_options(parser)
    parser.add_argument("--grid", default="1")
    parser.add_argument("--tolerance", type=float, default=0.0, help="relative, of floats")
    options = parser.parse_args(arguments)
    generator, _, seed = options.kernel.partition(":")
    if generator in _GENERATORS and seed.isdigit():
        found = []
        for name, said in judgements(_GENERATORS[generator](int(seed)).make()):
            print(f"{name:28} {said or 'agrees'}", flush=True)
            found.append(said)
        return int(any(found))
    wanted: list[np.ndarray[Any, Any]] | None = None
    wrong = 0
    for backend, imported in sides():
        name = _called(backend, imported)
        try:
            found = outcome(options, backend, imported)
        except (TileError, UsageError) as e:
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
