"""Compiling where a kernel is not launched: in another process or on another machine."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from tilewright.backends.base import Grid, Machine
from tilewright.backends.registry import get_backend
from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.ir.types import TileType
from tilewright.records import NamedTuple
from tilewright.runtime.backend_choice import compiling_for
from tilewright.runtime.compiling import cache_entry, compiled

if TYPE_CHECKING:  # processes that only compile do without it
    from tilewright.runtime.launchable import Launchable

CacheEntry = tuple[str, bytes, str]  # of the disk cache: its key, what it holds, and its label


class CompileRequest(NamedTuple):
    """What a launch would compile, and for where. It can be pickled, and needs nothing of the kernel's own module."""

    function: str  # the text form, with locations
    backend: str
    machine: Machine | None  # what other machines have to know of a GPU
    options: Mapping[str, Any]
    grid: Grid
    elements: int  # of all tiles: about as long it takes


def compile_request(kernel: Launchable, args: tuple[Any, ...], grid: Grid) -> CompileRequest | None:
    """The compilation that a launch with these arguments needs; None where its backend stores none, or the disk cache
    has it.

    It raises what the launch does where the arguments or the kernel are wrong.
    """
    signature, backend = kernel.described(args, None)
    able = backend.capabilities
    if able.serialization is None:
        return None
    machine = able.machine() if able.machine is not None and able.for_target is not None else None
    function, options = kernel.to_compile(signature, backend), kernel.options.get(backend.name, {})
    if cache_entry(function, backend, options) is not None:
        return None
    results = (result.type for op in function.walk() for result in op.results)
    elements = sum(prod(type.shape) for type in results if isinstance(type, TileType))
    return CompileRequest(print_function(function, locations=True), backend.name, machine, options, grid, elements)


def compile_at(request: CompileRequest) -> list[CacheEntry]:
    """Do what was requested, in any process: entries for the disk cache, none where that is off. TileError where the
    backend refuses the kernel.

    No GPU is needed, and none that is here is asked: each process that does takes memory of it, and time.
    """
    function, options, machine = parse_function(request.function), request.options, request.machine
    backend = get_backend(request.backend) if machine is None else compiling_for(machine.target, request.backend)
    variants = machine is not None and backend.capabilities.variants
    variant, entries = None, []
    while True:
        made: Any = compiled(function, backend, options, variant)[0]
        entries.append(cache_entry(function, backend, options, variant))
        variant = made.variant_for(request.grid, machine.processors) if machine is not None and variants else None
        if variant is None:
            return [entry for entry in entries if entry is not None]
