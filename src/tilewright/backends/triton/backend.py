"""The backend object."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilewright.analysis.gpu.target import GpuTarget, parse_target, resolved
from tilewright.backends.triton import resources
from tilewright.backends.triton.fallbacks import CompileResult, compile_with_fallbacks
from tilewright.backends.triton.options import Options, choose
from tilewright.backends.triton.requirements import compiler_missing, version, version_text
from tilewright.backends.triton.resource_usage import resource_usage
from tilewright.backends.triton.ttir.kernel import TtirKernel, lower
from tilewright.gpu_runtime import driver
from tilewright.gpu_runtime.abi import formats_of
from tilewright.gpu_runtime.artifact import Artifact, GpuBinary
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
    tile_ir = optimize(function)
    optimized = run_passes(tile_ir, passes_to_ttir(target, sink_loads=how.sink_loads))
    chosen = choose(optimized, target, options)
    kernel = lower(optimized, target, version(), hide_divisibility=how.hide_divisibility)
    try:
        resources.check_registers(optimized, target, chosen.num_warps)
        resources.check_shared(optimized, target)
        resources.check_length(optimized)
        made = compile_with_fallbacks(kernel, target, chosen, options)
    except resources.OutOfRegisters as e:
        raise resources.too_many_registers(optimized, chosen.num_warps, chosen.maxnreg, e) from e
    except resources.OutOfSharedMemory as e:
        if not how.sink_loads:
            why = f"the tiles need {e.needed} bytes of shared memory, so loads wait for their use"
            raise how.but(why, sink_loads=True) from e
        raise resources.too_much_shared(optimized, e.needed, target.shared_memory) from e
    except resources.AnalysisFailure as e:
        if how.hide_divisibility:
            raise
        why = "an analysis of Triton fails on indices, so it knows less about them"
        raise how.but(why, hide_divisibility=True) from e
    if made.failed:
        slower = "It compiles without tensor memory, whose MMA ops are slower."
        warnings.warn(f"{function.name}(): {made.failed}. {slower}", RuntimeWarning, stacklevel=3)
    decisions = _decisions(made, function, target) + render_reasons(reasons)
    return _artifact(tile_ir, optimized, kernel, made.binary, decisions, target)


def passes_to_ttir(target: GpuTarget, *, sink_loads: bool) -> tuple[Pass, ...]:
    """The passes that do not depend on the number of warps, and why in this order."""
    return (
        LowerReports(),
        LowerMmaScaled(),
        LowerPacking(),
        ExpandViews(),  # so that no control flow carries a view
        ContractFma(target),
        *([SinkLoads()] if sink_loads else []),  # last of those that move loads
    )


def _artifact(
    tile_ir: Function, optimized: Function, kernel: TtirKernel, binary: GpuBinary, decisions: str, target: GpuTarget
) -> Artifact:
    """What launches need of a kernel, and the texts of its stages."""
    texts = {
        "optimized Tile IR": print_function(optimized),
        "TTIR": kernel.text,
        **{_TITLES[name]: text for name, text in binary.texts.items() if name in _TITLES},
        "compile decisions": decisions,
        "resources": "".join(f"{what}: {n}\n" for what, n in resource_usage(binary, target).items()),
    }
    reports, local = bool(sites(tile_ir)), local_bytes(tile_ir)
    formats = (*formats_of(tile_ir), *["u64"] * (reports + (local > 0)))
    hidden = _hidden(texts, len(formats))
    tables = tuple(table_parameters(optimized))
    return Artifact(replace(binary, texts=texts), formats, (), hidden, reports, local, tables)


_WITH_LATENCY = (Load, LoadView, Store, StoreView)
_TITLES = {"ttgir": "TTGIR", "llir": "LLVM IR", "ptx": "PTX", "amdgcn": "assembly"}


def _hidden(texts: Mapping[str, str], declared: int) -> int:
    """How many parameters the compiler added to those ``declared``."""
    _, found, after = texts.get("PTX", "").partition(".entry ")
    return max(after.partition(")")[0].count(".param ") - declared, 0) if found else 2


def _decisions(made: CompileResult, function: Function, target: GpuTarget) -> str:
    """What was decided for the kernel, and which hints had no effect."""
    options = made.options
    lines = [
        f"target: {target.name}",
        f"warps per block: {options.num_warps}",
        f"pipeline stages: {options.num_stages}",
        f"registers per thread, at most: {options.maxnreg or 'no limit'}",
        *[f"MMA ops: by mma.sync, as {made.failed}"] * bool(made.failed),
        f"ignored hints: {', '.join(_ignored(options, function, target)) or 'none'}",
    ]
    return "\n".join(lines) + "\n"


def _ignored(options: Options, function: Function, target: GpuTarget) -> list[str]:
    """The hints that had no effect. Those that ask for what holds anyway are not among them."""
    hints = {name: resolved(value, target) for name, value in function.hints.items()}
    ignored = {
        "opt_level": "opt_level" in hints,
        "num_ctas": hints.get("num_ctas") not in (None, 1),
        "num_worker_warps": hints.get("num_worker_warps") not in (None, options.num_warps),
        "occupancy": (hints.get("occupancy") or 1) > 1,
        "latency": any(isinstance(op, _WITH_LATENCY) and op.latency is not None for op in function.walk()),
        "allow_tma": any(
            isinstance(op, (LoadView, StoreView)) and resolved(op.allow_tma, target) is True for op in function.walk()
        ),
    }
    return [name for name, found in ignored.items() if found]


BACKEND = TritonBackend()
