"""Launching kernels."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tilewright.runtime.arguments import describe
from tilewright.runtime.arrays import Flat
from tilewright.runtime.backend_choice import requested
from tilewright.runtime.specialize import Launchable, Prepared, Specialization

MAX_GRID = (1 << 24) - 1


def launch(
    stream: Any,
    grid: tuple[int, ...],
    kernel: Any,
    kernel_args: tuple[Any, ...],
    /,
    *,
    programmatic_dependent_launch: bool = False,
    backend: str | None = None,
    check_overlap: bool | None = None,
) -> None:
    """Run ``kernel`` once for every block of ``grid``, and return when all blocks have ended.

    ``stream`` is None for the CPU, where a stream of another library is accepted and not used. ``grid`` holds up to
    three numbers of blocks. ``kernel_args`` is a tuple with one entry for every parameter: arrays (NumPy, torch,
    anything with ``__array_interface__`` or DLPack; they are not copied), numbers, tuples, lists of arrays.

    ``backend`` names the engine; otherwise ``use_backend``, the environment variable TILEWRIGHT_BACKEND and the device
    of the arrays decide, in this order. With ``check_overlap``, or TILEWRIGHT_CHECK_OVERLAP=1, a written argument that
    shares memory with another one is refused. ``programmatic_dependent_launch`` has no effect on a CPU.

    Everything that is wrong with a launch is said before any block runs: TypeError for wrong kinds of arguments,
    ValueError and OverflowError for wrong values, TileError for mistakes in the kernel. Source: guide 2.4.2.
    """
    if not isinstance(kernel, Launchable):
        raise TypeError(_not_a_kernel(kernel))
    if type(programmatic_dependent_launch) is not bool:
        raise TypeError(f"programmatic_dependent_launch is {programmatic_dependent_launch!r}; it must be True or False")
    if isinstance(stream, _NO_STREAMS):
        raise TypeError(
            f"the first argument of ct.launch is the stream, not {stream!r}: ct.launch(None, grid, kernel, (...))"
        )
    blocks = _checked_grid(grid)
    flat = Flat()
    prepared = _prepared(kernel, kernel_args, backend, flat)
    if check_overlap is None:
        check_overlap = os.environ.get("TILEWRIGHT_CHECK_OVERLAP") == "1"
    prepared.run(blocks, flat, check=check_overlap)


_NO_STREAMS = (tuple, list, str, float, np.ndarray, Launchable)


def specialization(kernel: Launchable, kernel_args: tuple[Any, ...], backend: str | None = None) -> Specialization:
    """``kernel`` compiled as a launch with these arguments would compile it."""
    return _prepared(kernel, kernel_args, backend, Flat()).specialization


def _prepared(kernel: Launchable, args: Any, backend: str | None, flat: Flat) -> Prepared:
    parameters = kernel.parameters
    if type(args) is not tuple or len(args) != len(parameters):
        raise TypeError(_wrong_arguments(kernel, args))
    engine = requested(backend)
    parts = [describe(rule, argument, flat) for (_, rule), argument in zip(parameters, args)]
    key = engine, *parts
    prepared = kernel.prepared.get(key)
    if prepared is None:
        prepared = kernel.prepare(engine, parts)
        kernel.remember(key, prepared)
    return prepared


def _checked_grid(grid: Any) -> tuple[int, int, int]:
    """``grid`` with three entries."""
    if type(grid) is not tuple:
        raise TypeError(f"the grid is {grid!r}; it must be a tuple of up to three numbers of blocks, such as (n, 1, 1)")
    if len(grid) > 3:
        raise ValueError(
            f"the grid {grid} has {len(grid)} dimensions; there are at most three. Fold some into one, and take the "
            "block index apart with // and % in the kernel"
        )
    for axis, n in enumerate(grid):
        if type(n) is not int and not isinstance(n, np.integer):
            raise TypeError(f"entry {axis} of the grid {grid} is no integer; numbers of blocks come from ct.cdiv or //")
        if not 1 <= n <= MAX_GRID:
            _refuse_extent(grid, axis)
    x, y, z = (*map(int, grid), 1, 1, 1)[:3]
    return x, y, z


def _refuse_extent(grid: tuple[int, ...], axis: int) -> None:
    entry = f"entry {axis} of the grid {grid}"
    if grid[axis] < 0:
        raise OverflowError(f"{entry} is negative")
    if grid[axis] == 0:
        raise ValueError(f"{entry} is 0: there is no block to run. Skip the launch for empty arrays")
    raise ValueError(f"{entry} is more than {MAX_GRID} blocks; use a second axis, or larger tiles")


def _not_a_kernel(kernel: Any) -> str:
    name = getattr(kernel, "__name__", None)
    if name is not None and callable(kernel):
        return f"{name} is not a kernel; decorate it with @ct.kernel"
    return f"the third argument of ct.launch must be a kernel, not {kernel!r}"


def _wrong_arguments(kernel: Launchable, args: Any) -> str:
    names = [place.argument for place, _ in kernel.parameters]
    if type(args) is not tuple:
        one = "; for one argument write (x,)" if len(names) == 1 else ""
        return f"the arguments of {kernel.name}() must be a tuple, not {type(args).__name__}{one}"
    return (
        f"{kernel.name}() takes {len(names)} argument{'s' * (len(names) != 1)} ({', '.join(names)}), but {len(args)} "
        f"{'was' if len(args) == 1 else 'were'} given; parameters with defaults must be given too"
    )
