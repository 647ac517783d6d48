"""The interpreter as a backend, for tests: kernels go through the passes of the gpu backend and run on any machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from support.gpu_stage.cluster import Cluster, cluster_of, in_clusters, run_cluster
from support.gpu_stage.cta import SHARED_BYTES, CtaInterpreter

from tilewright.analysis.gpu.target import GpuTarget
from tilewright.analysis.manager import AnalysisManager
from tilewright.backends.base import Executable
from tilewright.backends.gpu.pipeline import optimized_for
from tilewright.backends.launch_arguments import LaunchArguments
from tilewright.backends.reference.backend import NumpyBackend, bound_arguments, run_grid
from tilewright.backends.reference.memory import Memory
from tilewright.backends.reference.scheduler import run_blocks
from tilewright.backends.schedule import Schedule
from tilewright.ir.core import Function
from tilewright.ir.gpu_parameters import grid_extent
from tilewright.ir.gpu_stage import BLOCKS_OF_CTA, CTAS_OF_BLOCK, GRID_EXTENT, num_warps, verify_gpu
from tilewright.ir.ops.gpu.memory import SharedAlloc
from tilewright.ir.printer import print_function
from tilewright.transforms.gpu.divide_rows import DivideRows
from tilewright.transforms.gpu.expand_grid_stride_loops import ExpandGridStrideLoops
from tilewright.transforms.gpu.lowering import lower_to_gpu, with_merged_blocks
from tilewright.transforms.gpu.split_blocks import SplitBlocks
from tilewright.transforms.gpu.split_mma import SplitMma
from tilewright.transforms.gpu.split_steps import SplitSteps
from tilewright.transforms.gpu.tile_splitting import cluster_size
from tilewright.transforms.pipelines import optimize, run_passes


class InterpreterExecutable(Executable):
    """A function of the gpu stage, ready to be interpreted: ``num_ctas`` CTAs run each block of a grid, or a CTA
    several blocks, if the kernel can and there are ``many``."""

    def __init__(self, function: Function, num_ctas: int = 1, *, many: bool = True) -> None:
        verify_gpu(function)
        self.function = function
        self._num_ctas = num_ctas
        self._many = many
        self._shared = _shared_bytes(function)

    def launch(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> None:
        """Run every CTA of ``grid``. Fault for what a GPU would do wrong; TileError as on the reference backend."""
        warps = num_warps(self.function)
        ctas = self.function.hints.get(CTAS_OF_BLOCK, 1)
        assert isinstance(ctas, int)
        if GRID_EXTENT in self.function.hints:
            grid = (grid_extent(self.function.hints[GRID_EXTENT], arguments.values), *grid[1:])
        grid = (grid[0] * self._num_ctas * ctas, *grid[1:])
        blocks = self.function.hints.get(BLOCKS_OF_CTA)
        if isinstance(blocks, int):
            arguments = arguments._replace(values=(*arguments.values, grid[0]))
            grid = (-(-grid[0] // (blocks if self._many else 1)), *grid[1:])
        size = cluster_of(self.function, grid, self._num_ctas)
        if size > 1:
            self._launch_clusters(grid, arguments, warps, size)
            return
        run_grid(
            self.function,
            grid,
            arguments,
            lambda index, memory, values: CtaInterpreter(index, grid, memory, values, warps, None, self._shared),
        )

    def _launch_clusters(self, grid: tuple[int, int, int], arguments: LaunchArguments, warps: int, size: int) -> None:
        memory = Memory(arguments.buffers)
        values = bound_arguments(self.function, memory, arguments)

        def maker(index: tuple[int, int, int]) -> Callable[[Cluster], CtaInterpreter]:
            return lambda cluster: CtaInterpreter(index, grid, memory, values, warps, cluster, self._shared)

        clusters = in_clusters(((index, maker(index)) for index in Schedule().indices(grid)), size)
        run_blocks(((index, run_cluster(ctas, self.function.body)) for index, ctas in clusters), memory)

    def stages(self) -> Mapping[str, str]:
        return {"GPU dialect": print_function(self.function)}


def _shared_bytes(function: Function) -> int:
    """The shared memory that the allocations of ``function`` reach, as far as a CTA has so much."""
    allocations = function.ops_of(SharedAlloc)
    placed = (op.offset + op.type.bytes for op in allocations if op.offset is not None)
    others = sum(op.type.bytes + op.alignment for op in allocations if op.offset is None)
    return min(max([others, *placed]), SHARED_BYTES)


class InterpreterBackend(NumpyBackend):
    """Lowers kernels to the gpu stage with ``num_warps`` warps a CTA and ``num_stages``, and interprets them.

    For ``target``, if there is one: without, nothing is used that only some architectures have; and for a grid that
    puts no more than so many ``blocks`` on an SM (0: many).
    """

    name = "gpu-interpreter"

    def __init__(
        self, num_warps: int | None = 4, num_stages: int | None = 3, target: GpuTarget | None = None, blocks: int = 0
    ) -> None:
        self.num_warps = num_warps
        self.num_stages = num_stages
        self._target = target
        self._blocks = blocks

    def compile(self, function: Function, options: Mapping[str, Any], variant: Any = None) -> InterpreterExecutable:
        optimized = optimize(function) if self._target is None else optimized_for(function, self._target)
        if self._target is not None:
            spreads = (ExpandGridStrideLoops(),) if self.num_stages is None else ()
            splits = SplitMma(self._target), SplitSteps(), *spreads, SplitBlocks(), DivideRows(self._target)
            optimized = run_passes(optimized, splits)
        num_ctas = AnalysisManager(optimized).get(cluster_size)
        whole = with_merged_blocks(optimized) if self._target is not None and num_ctas == 1 else optimized
        lowered = lower_to_gpu(whole, self.num_warps, self.num_stages, self._target, blocks=self._blocks)
        return InterpreterExecutable(lowered, num_ctas, many=not self._blocks)
