"""The gpu backend's PTX as a backend of a machine without a GPU: kernels run in the interpreter of PTX."""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from support.aligned_arrays import AlignedArrays, Geometry
from support.ptx.arithmetic import Fault
from support.ptx.hopper import Map
from support.ptx.machine import Cta, run_cluster
from support.ptx.parser import parse

from tilewright.backends import registry
from tilewright.backends.base import Capabilities
from tilewright.backends.gpu.compiler import Compiled, compile_to_ptx
from tilewright.backends.launch_arguments import Buffer, LaunchArguments
from tilewright.backends.reference.memory import Memory
from tilewright.gpu_runtime import realign
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.gpu_runtime.device_printf import deliver
from tilewright.gpu_runtime.executable import EIGHTHS, kept_steps
from tilewright.ir.core import Function
from tilewright.ir.dtypes import int64, uint8, uint16, uint32, uint64
from tilewright.ir.gpu_parameters import MAP_BYTES, TableParameter, grid_extent
from tilewright.ir.gpu_stage import BLOCKS_OF_CTA, CTAS_OF_BLOCK, GRID_EXTENT
from tilewright.ir.ops.gpu.tma import ListedMap
from tilewright.ir.report_buffer import HEADER, WORDS, sites
from tilewright.ir.semantics import constant_array

_WORDS = {1: uint8, 2: uint16, 4: uint32, 8: uint64}


class PtxExecutable:
    """PTX of a kernel, ready to be interpreted."""

    def __init__(self, function: Function, compiled: Compiled, backend: PtxBackend) -> None:
        self.compiled = compiled
        self._backend = backend
        self._function = function
        self._entry = parse(compiled.ptx)[compiled.name]
        self._variants: dict[Constraints, PtxExecutable] = {}

    def launch(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> None:
        """Run every CTA or cluster of ``grid``, one after the other. Fault for what a GPU would do wrong."""
        if (variant := self._variant(arguments)) is not None:
            variant.launch(grid, arguments)
            return
        parameters = [
            constant_array(number, arg.tile.dtype, ()).tobytes()
            for arg, number in zip(self._function.body.args, arguments.values)
        ]
        made = self.compiled
        blocks, ctas = (made.distributed.hints.get(name, 1) for name in (BLOCKS_OF_CTA, CTAS_OF_BLOCK))
        assert isinstance(blocks, int) and isinstance(ctas, int)
        if GRID_EXTENT in made.distributed.hints:
            grid = (grid_extent(made.distributed.hints[GRID_EXTENT], arguments.values), *grid[1:])
        grid = (grid[0] * made.num_ctas * ctas, *grid[1:])
        if blocks > 1:
            parameters.append(np.int32(grid[0]).tobytes())
            grid = (-(-grid[0] // blocks), *grid[1:])
        listed, copied = [], {}
        for t in made.tables:
            table = next(b for b in arguments.buffers if b.address == arguments.values[t.index])
            rows = np.frombuffer(ctypes.string_at(table.low, table.high - table.low), np.int64).reshape(-1, t.width)
            room = made.capacity if t.by_value else len(rows)
            assert len(rows) <= room
            copy = np.zeros(room * t.entry_bytes // 8, np.int64)
            first = room * t.map_bytes
            copy[first // 8 :][: rows.size] = rows.ravel()
            if t.by_value:
                parameters[t.index] = copy.tobytes()
            else:
                copied[f"the table {t.index}"] = copy
                parameters[t.index] = np.uint64(copy.ctypes.data + first).tobytes()
            listed += self._listed(t, rows, first if t.by_value else 0)
        added = {"report": np.zeros(WORDS, np.int64)} if made.reports else {}
        if made.local_bytes:
            added["local"] = np.zeros(made.local_bytes * math.prod(grid) // 8, np.int64)
        parameters += [np.uint64(array.ctypes.data).tobytes() for array in added.values()]
        arrays = self._arrays(arguments, added)
        maps = [Map(op, array, len(parameters) + k) for k, (op, array) in enumerate(zip(made.maps, arrays))]
        parameters += [bytes(128)] * len(maps)
        maps += listed
        made_here = {**added, **copied}
        memory = Memory([*arguments.buffers, *(_buffer(name, array) for name, array in made_here.items())])
        size = 2 if grid[0] % 2 == 0 and any(op.pairs for op in made.maps) else made.num_ctas
        for z, y, x in itertools.product(range(grid[2]), range(grid[1]), range(0, grid[0], size)):
            run_cluster(
                [
                    Cta(self._entry, parameters, memory, made.threads, made.shared_bytes, (x + i, y, z), grid, maps)
                    for i in range(size)
                ]
            )
        if made.reports:
            found, room = added["report"], WORDS - HEADER
            deliver(sites(made.optimized), found[:HEADER], found[HEADER : HEADER + min(int(found[0]), room)])

    def _variant(self, arguments: LaunchArguments) -> PtxExecutable | None:
        """That which a launch takes for rows that are shorter than their tile, or have so many pieces."""
        size, *lengths = self.compiled.short_rows or (0,)
        shorter = [size * n // 8 for n in EIGHTHS if all(arguments.values[i] <= size * n // 8 for i in lengths)]
        length, elements, most = self.compiled.kept_rows or (0, 1, 0)
        steps = -(-arguments.values[length] // elements) if most else 0
        if lengths and shorter:
            how = replace(self._backend.constraints, rows=(shorter[0], *lengths))
        elif 0 < steps <= most:
            how = replace(self._backend.constraints, steps=min(n for n in kept_steps(most) if n >= steps))
        else:
            return None
        if how not in self._variants:
            made = compile_to_ptx(self._function, self.compiled.target.name, self._backend.num_warps, how=how)
            self._variants[how] = PtxExecutable(self._function, made, self._backend)
        return self._variants[how]

    def _listed(self, t: TableParameter, rows: np.ndarray[Any, Any], first: int) -> Iterator[Map]:
        """The maps in front of the ``rows`` of a table, which begin at byte ``first``."""
        ops = {op.descriptor: op for op in self.compiled.distributed.walk() if isinstance(op, ListedMap)}
        for i, row in enumerate(rows.tolist()):
            for k, d in enumerate(t.descriptors):
                geometry = row[0], *d.extents(row)
                yield Map(ops[d], geometry, t.index, first - MAP_BYTES * (i * len(t.descriptors) + k + 1))

    def _arrays(self, arguments: LaunchArguments, added: dict[str, np.ndarray[Any, Any]]) -> list[Geometry]:
        """Those that the tensor maps describe. Copies that have to be made go to memory that is ``added``."""
        descriptors = [op.descriptor for op in self.compiled.maps]
        metas = [{"elem_size": op.dtype.bytes} for op in self.compiled.maps]
        layout = AlignedArrays(descriptors, metas, dict(enumerate(arguments.values)))
        room = np.zeros(layout.size // 8 + 16, np.int64)
        start = room.ctypes.data + -room.ctypes.data % 128
        for copy, offset in layout.copies.items():
            source = next(b for b in arguments.buffers if b.low <= copy.source < b.high)
            buffers = [replace(source, name="source", dtype=_WORDS[copy.item]), _buffer("copy", room)]
            writer = self._backend.compile(realign.kernel(copy.kind), realign.OPTIONS)
            writer.launch(copy.grid, LaunchArguments(copy.numbers(start + offset), buffers))
        if layout.copies:
            added["copies"] = room
        return layout.arrays(start)

    def bind(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> Callable[[], None]:
        return functools.partial(self.launch, grid, arguments)

    def stages(self) -> Mapping[str, str]:
        return self.compiled.texts()


def _buffer(name: str, array: np.ndarray[Any, Any]) -> Buffer:
    start = array.ctypes.data
    return Buffer(name, start, start, start + array.nbytes, int64, True)


class PtxBackend:
    """Compiles for ``target`` with ``num_warps`` warps a CTA, or as many as suit a kernel; what it ``made`` so far."""

    name = "ptx-interpreter"
    device = "cpu"

    def __init__(
        self,
        num_warps: int | None,
        target: str,
        capacity: int = 0,
        realign: bool = False,
        blocks: int = 0,
    ) -> None:
        self.num_warps, self._target, self.capacity, self.realign = num_warps, target, capacity, realign
        self.blocks = blocks
        self.made: list[PtxExecutable] = []

    def unavailable(self) -> str | None:
        return None

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    def target(self) -> str:
        return f"numpy-{np.__version__}"

    @property
    def constraints(self) -> Constraints:
        """What kernels are compiled with."""
        return Constraints(realign=self.realign, capacity=self.capacity, blocks=self.blocks)

    def compile(self, function: Function, options: Mapping[str, Any], variant: Any = None) -> PtxExecutable:
        warps = options.get("num_warps", self.num_warps)
        made = compile_to_ptx(function, self._target, warps, how=self.constraints)
        self.made.append(PtxExecutable(function, made, self))
        return self.made[-1]


@contextmanager
def ptx_backend(
    num_warps: int | None,
    target: str = "sm_80",
    *,
    realign: bool = False,
    capacity: int = 0,
    blocks: int = 0,
) -> Iterator[str]:
    """The name of a backend that interprets the PTX of kernels, registered meanwhile. With ``realign`` launches copy
    arrays that the TMA unit cannot read, or that an instruction reads in another order. An SM has so many ``blocks``."""
    backend = PtxBackend(num_warps, target, capacity, realign, blocks)
    name = f"{backend.name}-{num_warps}"
    registry.register_backend(name, lambda: backend)
    try:
        yield name
    finally:
        del registry._loaders[name]


__all__ = ["Fault", "PtxBackend", "ptx_backend"]
