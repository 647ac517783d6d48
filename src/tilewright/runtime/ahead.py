"""Compiling where a kernel is not launched: in another process or on another machine."""

from __future__ import annotations

from typing import Any, NamedTuple

from tilewright.backends.base import Grid, Machine
from tilewright.backends.registry import get_backend
from tilewright.ir.errors import TileError
from tilewright.runtime.backend_choice import compiling_for
from tilewright.runtime.compiling import cache_entry, compiled
from tilewright.runtime.launchable import Launchable

CacheEntry = tuple[str, bytes, str]  # of the disk cache: its key, what it holds, and its label


class LaunchTarget(NamedTuple):
    """Where kernels are launched: the backend, and what it is that other machines compile for, on a GPU."""

    backend: str
    machine: Machine | None


def launch_target(kernel: Launchable, args: tuple[Any, ...]) -> LaunchTarget:
    """Where a launch with these arguments runs."""
    _, backend = kernel.described(args, None)
    describe, for_target = backend.capabilities.machine, backend.capabilities.for_target
    if describe is None or for_target is None:
        return LaunchTarget(backend.name, None)
    return LaunchTarget(backend.name, describe())


def compile_at(kernel: Launchable, args: tuple[Any, ...], grid: Grid, target: LaunchTarget) -> list[CacheEntry]:
    """Compile ``kernel`` for such arguments, of which arrays are abstract, and this grid: entries for the disk cache.

    There are none where nothing is stored, or where the kernel is wrong, which its launch will say. No GPU is needed,
    and none that is here is asked: each process that does takes memory of it, and time.
    """
    machine = target.machine
    backend = get_backend(target.backend) if machine is None else compiling_for(machine.target, target.backend)
    options = kernel.options.get(backend.name, {})
    try:
        signature, _ = kernel.regions(args)
        found = kernel.specialize(signature, backend)
        entries = [cache_entry(found.function, backend, options)]
        if machine is not None and backend.capabilities.variants:
            first: Any = found.executable
            variant = first.variant_for(grid, machine.processors)
            if variant is not None:
                compiled(found.function, backend, options, variant)
                entries.append(cache_entry(found.function, backend, options, variant))
        return [entry for entry in entries if entry is not None]
    except TileError:
        return []
