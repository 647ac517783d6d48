"""The backend object."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilewright.analysis.gpu.target import GpuTarget, parse_target, resolved
from tilewright.analysis.manager import AnalysisManager
from tilewright.backends.triton import resources
from tilewright.backends.triton.fallbacks import CompileResult, compile_with_fallbacks
from tilewright.backends.triton.heuristics import SHALLOW, choose, depths_of_few_blocks
from tilewright.backends.triton.requirements import compiler_missing, version, version_text
from tilewright.backends.triton.resource_usage import resource_usage
from tilewright.backends.triton.ttir.kernel import lower
from tilewright.gpu_runtime import driver
from tilewright.gpu_runtime.abi import formats_of
from tilewright.gpu_runtime.artifact import Artifact
from tilewright.gpu_runtime.backend import DriverBackend
from tilewright.gpu_runtime.constraints import Constraints, compile_under, render_reasons
from tilewright.ir.core import Function, Op
from tilewright.ir.errors import TileError
from tilewright.ir.gpu_parameters import table_parameters
from tilewright.ir.ops.memory import Load, LoadView, Store, StoreView
from tilewright.ir.printer import print_function
from tilewright.ir.report_buffer import sites
from tilewright.transforms.base import Pass
from tilewright.transforms.expand_views import ExpandViews
from tilewright.transforms.gpu.fma_contraction import ContractFma
from tilewright.transforms.gpu.lower_reports import LowerReports, local_bytes
from tilewright.transforms.gpu.sink_loads import SinkLoads
from tilewright.transforms.gpu.tile_splitting import SplitTiles, cluster_size
from tilewright.transforms.lower_mma_scaled import LowerMmaScaled
from tilewright.transforms.lower_packing import LowerPacking
from tilewright.transforms.pipelines import optimize, run_passes


class TritonBackend(DriverBackend[GpuTarget]):
    """Compiles kernels with the Triton compiler, for GPU ``index`` of this machine or for another ``target``."""

    name = "triton"

    def unavailable(self) -> str | None:
        return compiler_missing() or (driver.why_not() if self._target is None else None)

    def target(self) -> str:
        return f"triton {version_text()} {self.gpu().name}"

    def gpu(self) -> GpuTarget:
        """The architecture that kernels are compiled for. TileError when that is not possible."""
        return self._target or _gpu_of_this_machine(self._index)

    def architecture(self) -> str:
        return self.gpu().name

    @classmethod
    def for_target(cls, target: str | None) -> TritonBackend:
        return cls(None if target is None else parse_target(target))

    def artifact(self, function: Function, options: Mapping[str, Any], variant: Constraints) -> Artifact:
        return compile_for(function, self.gpu(), options, variant)

    def reporting(self, function: Function) -> Sequence[Op]:
        return sites(optimize(function))


@functools.cache
def _gpu_of_this_machine(index: int) -> GpuTarget:
    try:
        return parse_target(f"sm_{driver.device(index).capability}")
    except ValueError as e:
        raise TileError(f"GPU {index} of this machine cannot run kernels: {e}; use the cpu backend") from e


def compile_for(
    function: Function, target: GpuTarget, options: Mapping[str, Any], constraints: Constraints | None = None
) -> Artifact:
    """``function`` compiled for ``target``, which need not be in this machine, under ``Constraints``: those given at
    first, others where the kernel does not fit under them, the compiler fails, or they turn out to be worse."""
    return compile_under(constraints or Constraints(), functools.partial(_attempt, function, target, options))


def _attempt(
    function: Function, target: GpuTarget, options: Mapping[str, Any], how: Constraints, reasons: Sequence[str]
) -> Artifact:
    """``function`` compiled as ``how`` says; ``reasons`` are why it was not compiled otherwise."""
    descriptors, stages = how.descriptors, how.stages
    # First: all that follows depends on the sizes of tiles. Without descriptors others launch it.
    part = run_passes(optimize(function), (SplitTiles(target, unasked=descriptors),))
    blocks = AnalysisManager(part).get(cluster_size)
    optimized = run_passes(part, passes_to_ttir(target, sink_loads=how.sink_loads))
    chosen = choose(optimized, target, options)
    chosen = replace(chosen, num_ctas=blocks, num_stages=stages or chosen.num_stages)
    kernel = lower(optimized, target, version(), how)
    try:
        resources.check_registers(optimized, target, chosen.num_warps)
        resources.check_shared(optimized, target)
        resources.check_length(optimized)
        made = compile_with_fallbacks(kernel, target, chosen, options)
    except resources.OutOfRegisters as e:
        raise _of_part(resources.too_many_registers(optimized, chosen.num_warps, chosen.maxnreg, e), blocks) from e
    except resources.OutOfSharedMemory as e:
        if not how.sink_loads:
            why = f"the tiles need {e.needed} bytes of shared memory, so loads wait for their use"
            raise how.but(why, sink_loads=True) from e
        raise _of_part(resources.too_much_shared(optimized, e.needed, target.shared_memory), blocks) from e
    except TileError as e:
        if isinstance(e, resources.AnalysisFailure) and not how.hide_divisibility:
            raise how.but(
                "an analysis of Triton fails on indices, so it knows less about them", hide_divisibility=True
            ) from e
        _of_part(e, blocks)
        raise
    binary = made.binary
    if made.failed and target.has_tensor_memory:
        slower = "It compiles without tensor memory, whose MMA ops are slower."
        warnings.warn(f"{function.name}(): {made.failed}. {slower}", RuntimeWarning, stacklevel=3)
    deeper = (0, 0)
    if not (stages or "num_stages" in options):
        deeper = depths_of_few_blocks(optimized, target, made.options.num_stages, binary.shared_bytes)
        if made.options.num_stages == SHALLOW and deeper[0] and 2 * binary.shared_bytes > target.shared_memory:
            why = f"no second block fits beside one, so loads are pipelined in {deeper[0]} stages"
            raise how.but(why, stages=deeper[0])
    decisions = _decisions(made, function, target, deeper) + render_reasons(reasons)
    return _artifact(part, optimized, made, decisions, target, deeper)


def passes_to_ttir(target: GpuTarget, *, sink_loads: bool) -> tuple[Pass, ...]:
    """The passes that do not depend on the number of warps, and why in this order."""
    return (
        LowerReports(),  # after the split, which leaves alone what reports; it makes accesses like others
        LowerMmaScaled(),
        LowerPacking(),
        ExpandViews(),  # so that no control flow of TTIR carries a view
        ContractFma(target),  # after the split, which looks for MMA ops; before what counts ops
        *([SinkLoads()] if sink_loads else []),  # last of those that move loads
    )


def _artifact(
    part: Function, optimized: Function, made: Any, decisions: str, target: GpuTarget, depths: tuple[int, ...]
) -> Artifact:
    """What launches need of a kernel, which each block runs a ``part`` of, and the texts of its stages."""
    kernel, binary = made.kernel, made.binary
    texts = {
        "optimized Tile IR": print_function(optimized),
        "TTIR": kernel.text,
        **{_TITLES[name]: text for name, text in binary.texts.items() if name in _TITLES},
        "compile decisions": decisions,
        "resources": "".join(f"{what}: {n}\n" for what, n in resource_usage(binary, target).items()),
    }
    binary = replace(binary, texts=texts, num_ctas=AnalysisManager(part).get(cluster_size))
    reports, local = bool(sites(part)), local_bytes(part)
    formats = (*formats_of(part), *["u64"] * (reports + (local > 0)))
    hidden = _hidden(binary.texts, len(formats) + len(kernel.descriptors))
    tables = tuple(table_parameters(optimized))
    return Artifact(binary, formats, kernel.descriptors, hidden, reports, local, tables, depths=depths)


def _of_part(error: TileError, blocks: int) -> TileError:
    """``error``, which is about a kernel of which ``blocks`` blocks have a part each."""
    if blocks > 1:
        error.message += f". Its tiles are parts of those of the kernel, divided among {blocks} blocks"
    return error


_WITH_LATENCY = (Load, LoadView, Store, StoreView)
_TITLES = {"ttgir": "TTGIR", "llir": "LLVM IR", "ptx": "PTX", "amdgcn": "assembly"}


def _hidden(texts: Mapping[str, str], declared: int) -> int:
    """How many parameters the compiler added to those ``declared``."""
    _, found, after = texts.get("PTX", "").partition(".entry ")
    return max(after.partition(")")[0].count(".param ") - declared, 0) if found else 2


def _decisions(made: CompileResult, function: Function, target: GpuTarget, deeper: tuple[int, int]) -> str:
    """What was decided for the kernel, and which hints had no effect."""
    options, kernel = made.options, made.kernel
    ignored = [
        f"{name} ({made.unmet})" if name == "occupancy" and made.unmet else name
        for name in _ignored(made, function, target)
    ]
    lines = [
        f"target: {target.name}",
        f"warps per block: {options.num_warps}",
        f"pipeline stages: {options.num_stages}",
        *[
            f"pipeline stages with no more than {count} per SM: {stages}"
            for count, stages in zip(("one block", "two blocks"), deeper)
            if stages
        ],
        f"CTAs per cluster: {options.num_ctas}",
        f"registers per thread, at most: {options.maxnreg or 'no limit'}",
        *[f"MMA ops: by mma.sync, as {made.failed}"] * bool(made.failed),
        f"tensor descriptors: {len(kernel.descriptors)}",
        f"TMA descriptors on re-aligned copies: {sum(d.needs_realign for d in kernel.descriptors)}",
        f"ignored hints: {', '.join(ignored) or 'none'}",
    ]
    return "\n".join(lines) + "\n"


def _ignored(made: CompileResult, function: Function, target: GpuTarget) -> list[str]:
    """The hints that had no effect. Those that ask for what holds anyway are not among them."""
    options, kernel = made.options, made.kernel
    hints = {name: resolved(value, target) for name, value in function.hints.items()}
    ignored = {
        "opt_level": "opt_level" in hints,
        "num_ctas": hints.get("num_ctas") not in (None, options.num_ctas),
        "num_worker_warps": hints.get("num_worker_warps") not in (None, options.num_warps),
        "occupancy": (hints.get("occupancy") or 1) > 1 and options.maxnreg is None,
        "latency": any(isinstance(op, _WITH_LATENCY) and op.latency is not None for op in function.walk()),
        "allow_tma": not kernel.descriptors
        and any(
            isinstance(op, (LoadView, StoreView)) and resolved(op.allow_tma, target) is True for op in function.walk()
        ),
    }
    return [name for name, found in ignored.items() if found]


BACKEND = TritonBackend()
