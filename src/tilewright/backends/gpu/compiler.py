"""Kernels to PTX: the passes to the gpu stage, LLVM IR, and LLVM's NVPTX target. No GPU is needed."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.analysis.gpu.short_rows import lengths_of_rows
from tilewright.analysis.gpu.target import GpuTarget, parse_target
from tilewright.analysis.manager import AnalysisManager
from tilewright.backends.base import LazyTexts
from tilewright.backends.gpu.hints import ignored_hints
from tilewright.backends.gpu.lowering.function import add_kernel, module_of
from tilewright.backends.gpu.pipeline import optimized_for
from tilewright.backends.gpu.resources import check_registers
from tilewright.backends.gpu.schedule import schedule
from tilewright.backends.gpu.tables import OTHER_PARAMETERS, tables_of
from tilewright.backends.gpu.target import Architecture, architecture, emit_ptx, with_features
from tilewright.backends.native.text_builder import text_of
from tilewright.gpu_runtime.artifact import APART, BUSY
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.ir.core import Function
from tilewright.ir.dtypes import float8_e4m3fn, float8_e5m2
from tilewright.ir.gpu_parameters import TableParameter
from tilewright.ir.ops.gpu.cluster import ClusterStore
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.tma import ParameterMap
from tilewright.ir.ops.memory import AtomicRmw
from tilewright.ir.printer import print_function
from tilewright.ir.report_buffer import sites
from tilewright.system import collector
from tilewright.transforms.base import Pass
from tilewright.transforms.bound_parameters import BoundParameters
from tilewright.transforms.gpu.divide_rows import MOST_CTAS, DivideRows, divisions, may_divide
from tilewright.transforms.gpu.expand_grid_stride_loops import ExpandGridStrideLoops
from tilewright.transforms.gpu.flatten_loops import FlattenLoops
from tilewright.transforms.gpu.join_blocks import Blocks, JoinBlocks, is_sufficient, joinable
from tilewright.transforms.gpu.join_steps import JoinSteps, StepRows, rows_in_steps
from tilewright.transforms.gpu.lower_reports import LowerReports, local_bytes
from tilewright.transforms.gpu.lowering import lower_to_gpu, with_merged_blocks
from tilewright.transforms.gpu.repeat_blocks import repetitions
from tilewright.transforms.gpu.split_blocks import SplitBlocks
from tilewright.transforms.gpu.split_mma import SplitMma
from tilewright.transforms.gpu.split_rows import SplitRows
from tilewright.transforms.gpu.split_steps import SplitSteps
from tilewright.transforms.gpu.tile_splitting import cluster_size
from tilewright.transforms.pipelines import optimize, run_passes

_IN_PLACE = Constraints(realign=False)
_MOST_STEPS = 64  # of rows that are one tile
_MOST_OF_ROW = 64 << 10  # bytes, which stay in the registers of a CTA: a fourth of those of an SM
_BUSY_REPEATING = 96  # per cent of SMs: what CTAs gain that run blocks in turn, a longer last round must not take


@dataclass(frozen=True)
class Compiled:
    """PTX of one kernel, what a launch needs to know of it, and the stages on the way.

    ``num_ctas`` of them, a cluster, run each block of the grid, or one neighbours that are ``joinable``; where there
    are few blocks, as many as in ``divisions`` have parts of rows. A kernel that ``reports`` takes the address of its
    buffer after the other parameters, and one whose CTAs need ``local_bytes`` each takes the address of those.
    ``optimized`` is the kernel after the tile passes, ``distributed`` that in the gpu stage; ``seconds`` says how long
    each step took.
    """

    name: str
    ptx: str
    threads: int
    shared_bytes: int
    num_ctas: int
    joinable: Sequence[Blocks]
    divisions: Sequence[int]
    reports: bool
    local_bytes: int
    maps: tuple[ParameterMap, ...]
    tables: tuple[TableParameter, ...]
    capacity: int
    target: Architecture
    ignored_hints: Sequence[str]
    llvm: str
    short_rows: tuple[int, ...]
    kept_rows: tuple[int, ...]
    optimized: Function
    distributed: Function
    seconds: Mapping[str, float]

    @property
    def schedule(self) -> str:
        """What was chosen."""
        joins = (
            f"blocks that a CTA of a variant for large grids runs: {'x'.join(map(str, each))}\n"
            for each in self.joinable
        )
        few = f"CTAs that divide rows in variants for small grids: {', '.join(map(str, self.divisions))}\n"
        decided = schedule(self.distributed, self.target.name, self.num_ctas, self.ignored_hints)
        return decided + "".join(joins) + few * bool(self.divisions)

    def texts(self, why: str = "", **others: str) -> Mapping[str, str]:
        """Every stage, by its title; ``why`` the kernel was compiled again is among the decisions."""
        stages: dict[str, Callable[[], str]] = {
            "optimized Tile IR": lambda: print_function(self.optimized),
            "GPU dialect": lambda: print_function(self.distributed),
            "LLVM IR": lambda: self.llvm,
            "PTX": lambda: self.ptx,
            "compile decisions": lambda: self.schedule + why,
        }
        return LazyTexts({**stages, **{title: functools.partial(str, text) for title, text in others.items()}})


def blocks_to_join(
    function: Function, target: str, num_warps: int | None, how: Constraints
) -> tuple[tuple[Blocks, ...], tuple[int, ...]]:
    """How many blocks of ``function`` a CTA of a variant may run, joined or in turn, the fewest first, and how many per
    cent of SMs these have to keep busy."""
    processor = parse_target(target.removesuffix("a"))
    if not how.descriptors or num_warps is not None or not processor.has_wgmma:
        return (), ()  # without descriptors, others launch it
    found = AnalysisManager(optimized_for(function, processor)).get(_blocks_of_variants, processor)
    return tuple(found), tuple(
        BUSY if isinstance(passes[-1], JoinBlocks) else _BUSY_REPEATING for passes in found.values()
    )


def _blocks_of_variants(whole: Function, target: GpuTarget) -> dict[Blocks, tuple[Pass, ...]]:
    """How many blocks a CTA of a variant may run, the fewest first, and the passes for that: CTAs that run several in
    turn join as many as can be joined."""
    joins = joinable(whole)
    alone = joins if joins and not is_sufficient(whole) else ()
    found: dict[Blocks, tuple[Pass, ...]] = {blocks: (JoinBlocks(blocks),) for blocks in alone}
    for each in repetitions(whole, target, joins[-1] if joins else APART):
        x, y, z = (a * b for a, b in zip(joins[-1] if joins else APART, each.blocks))
        found[x, y, z] = *(JoinBlocks(blocks) for blocks in joins[-1:]), each
    return found


def _kept(rows: StepRows, target: GpuTarget, *, free: bool) -> tuple[int, ...]:
    """Which parameter is the length of ``rows``, the elements of a step, and up to how many steps a variant keeps, if
    the compiler is ``free`` to divide them."""
    joined = optimize(run_passes(rows.function, (JoinSteps(2),)))
    ctas = MOST_CTAS if free and may_divide(joined, target) else 1
    return rows.parameter, rows.elements, min(_MOST_STEPS, _MOST_OF_ROW * ctas // rows.bytes)


@collector.paused()
def compile_to_ptx(
    function: Function, target: str, num_warps: int | None, num_stages: int | None = None, how: Constraints = _IN_PLACE
) -> Compiled:
    """``function`` for CTAs of ``num_warps`` warps of the architecture ``target``, such as ``sm_90``.

    Without ``num_warps`` as many as suit it. ``how`` says how many blocks an SM has.
    TileUnsupportedFeatureError for an unknown architecture and, at the op, for what the backend lacks.
    """
    chosen = architecture(target)
    times = [time.perf_counter()]
    processor = parse_target(chosen.name.removesuffix("a"))
    whole = optimized_for(function, processor)
    if how.rows:
        whole = run_passes(whole, (BoundParameters(how.rows[0], how.rows[1:]),))
    free = how.descriptors  # without, others launch it
    in_steps = free and num_stages != 1 and not how.blocks
    rows = AnalysisManager(whole).get(rows_in_steps) if in_steps else None
    if how.steps and rows is not None:
        whole = optimize(run_passes(rows.function, (JoinSteps(how.steps),)))
    joins: Sequence[Blocks] = ()
    if how.join not in (None, APART):
        whole = run_passes(whole, AnalysisManager(whole).get(_blocks_of_variants, processor)[how.join])
    else:
        joins, _ = blocks_to_join(function, target, num_warps, how)
    splits: list[Pass] = [SplitMma(processor), SplitSteps()]
    if num_stages is None and not (sites(whole) or local_bytes(whole)):
        splits.append(ExpandGridStrideLoops())  # before the tiles of blocks are divided
    if num_warps is None:
        splits += SplitBlocks(), DivideRows(processor, how.across)
    optimized = run_passes(whole, splits if free else ())
    num_ctas = AnalysisManager(optimized).get(cluster_size)
    alone = free and num_warps is None and num_ctas == 1
    if how.steps & how.steps - 1 and num_ctas == 1 and rows is not None:  # shorter than the tile
        optimized = run_passes(optimized, (BoundParameters(how.steps * rows.elements, (rows.parameter,)),))
    few = divisions(optimized, processor) if alone and not (how.across or how.blocks or how.steps) else ()
    optimized = run_passes(optimized, (SplitRows(), FlattenLoops()))
    reports, local = bool(sites(optimized)), local_bytes(optimized)
    prepared = run_passes(optimized, (LowerReports(),))
    if alone and not (reports or local):
        prepared = with_merged_blocks(prepared)
    times.append(time.perf_counter())
    units, room = processor if how.descriptors else None, processor.shared_memory
    distributed = lower_to_gpu(prepared, num_warps, num_stages, units, room, realign=how.realign, blocks=how.blocks)
    check_registers(distributed)
    times.append(time.perf_counter())
    tables, capacity = tables_of(distributed, how.capacity)
    module = module_of(distributed.name)
    kernel = add_kernel(module, distributed, chosen, tables=tables, capacity=capacity)
    text = text_of(module)
    times.append(time.perf_counter())
    by_value = capacity * sum(t.entry_bytes for t in tables if t.by_value)
    in_memory = any(t.descriptors and not t.by_value for t in tables)
    mmas = distributed.ops_of(GpuMma)
    fp8 = any(op.x.tile.element in (float8_e4m3fn, float8_e5m2) for op in mmas)
    vectors = any(op.vector > 1 for op in distributed.ops_of(AtomicRmw))
    size = by_value + OTHER_PARAMETERS
    features = {"fp8_mma": fp8, "vector_atomics": vectors, "gathers": bool(distributed.ops_of(ClusterStore))}
    version = with_features(chosen, size, maps_in_memory=in_memory, **features)
    ptx = emit_ptx(text, version)
    times.append(time.perf_counter())
    steps = ("tile passes", "gpu passes", "lowering", "LLVM")
    seconds = {step: b - a for step, a, b in zip(steps, times, times[1:])}
    return Compiled(
        name=kernel.name,
        ptx=ptx,
        threads=kernel.threads,
        shared_bytes=kernel.shared_bytes,
        num_ctas=num_ctas,
        reports=reports,
        local_bytes=local,
        maps=kernel.maps,
        tables=tables,
        capacity=capacity,
        target=chosen,
        ignored_hints=ignored_hints(whole, distributed, processor, num_ctas),
        llvm=text,
        joinable=joins,
        short_rows=lengths_of_rows(distributed) if alone and not (how.rows or how.steps) else (),
        kept_rows=() if rows is None or how.steps else _kept(rows, processor, free=num_warps is None),
        divisions=few,
        optimized=optimized,
        distributed=distributed,
        seconds=seconds,
    )
