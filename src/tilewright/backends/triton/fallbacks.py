"""Compiling a kernel with what was chosen for it, or with less where that does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilewright.analysis.gpu.target import GpuTarget
from tilewright.backends.triton.options import Options
from tilewright.backends.triton.resource_usage import spilled
from tilewright.backends.triton.resources import AnalysisFailure, CompilerFailure, OutOfRegisters, OutOfSharedMemory
from tilewright.backends.triton.ttir.kernel import TtirKernel
from tilewright.gpu_runtime.artifact import GpuBinary
from tilewright.system.forks import load


def compiler() -> Any:
    """The module that drives Triton; loading it loads Triton."""
    return load("tilewright.backends.triton.compiler")


@dataclass(frozen=True)
class CompileResult:
    """A kernel as it was compiled: the options, why its occupancy had no effect, or nothing, and how Triton ``failed``
    at it with tensor memory, or nothing."""

    kernel: TtirKernel
    binary: GpuBinary
    options: Options
    unmet: str
    failed: str


def compile_with_fallbacks(
    kernel: TtirKernel, target: GpuTarget, chosen: Options, given: Mapping[str, Any]
) -> CompileResult:
    """``kernel`` compiled with the options ``chosen``, or with less where its tiles do not fit and ``given`` is silent.

    The occupancy is a hint: its limit of registers goes where the kernel cannot be compiled with so few, or where fewer
    bytes are spilled without it; the first text says why. The second is of the failure where Triton fails at MMA ops
    in tensor memory or of warp groups, or ptxas would compile these wrongly, and they go without.
    """
    compile_ttir = compiler().compile_ttir
    unmet = failed = ""
    if kernel.across:
        chosen = replace(chosen, newest_mma=False)
    while True:
        try:
            binary = compile_ttir(kernel, target, chosen)
            break
        except OutOfSharedMemory as e:
            if chosen.num_stages == 1 or "num_stages" in given:
                raise
            room = chosen.num_stages * target.shared_memory // e.needed
            chosen = replace(chosen, num_stages=max(1, min(room, chosen.num_stages - 1)))
        except CompilerFailure as e:
            others = target.has_tensor_memory or target.has_wgmma
            if isinstance(e, AnalysisFailure) or not (others and chosen.newest_mma and kernel.has_mma):
                raise
            chosen, failed = replace(chosen, newest_mma=False), e.message
        except OutOfRegisters:
            if chosen.maxnreg is None or "maxnreg" in given:
                raise
            unmet = f"needs more than {chosen.maxnreg} registers per thread" if chosen.hinted else ""
            chosen = chosen.unlimited()
    if chosen.hinted and (limited := spilled(binary, target)):
        unlimited = compile_ttir(kernel, target, chosen.unlimited())
        if (left := spilled(unlimited, target)) < limited:
            unmet = f"spills {limited} bytes per thread with {chosen.maxnreg} registers and {left} without a limit"
            return CompileResult(kernel, unlimited, chosen.unlimited(), unmet, failed)
    return CompileResult(kernel, binary, chosen, unmet, failed)
