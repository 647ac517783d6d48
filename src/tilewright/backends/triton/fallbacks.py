"""Compiling a kernel with what was chosen for it, or with less where that does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilewright.analysis.gpu.target import GpuTarget
from tilewright.backends.triton.options import Options
from tilewright.backends.triton.resources import AnalysisFailure, CompilerFailure, OutOfSharedMemory
from tilewright.backends.triton.ttir.kernel import TtirKernel
from tilewright.gpu_runtime.artifact import GpuBinary
from tilewright.system.forks import load


def compiler() -> Any:
    """The module that drives Triton; loading it loads Triton."""
    return load("tilewright.backends.triton.compiler")


@dataclass(frozen=True)
class CompileResult:
    """A kernel as it was compiled: the options, and how Triton ``failed`` at it with tensor memory, or nothing."""

    binary: GpuBinary
    options: Options
    failed: str


def compile_with_fallbacks(
    kernel: TtirKernel, target: GpuTarget, chosen: Options, given: Mapping[str, Any]
) -> CompileResult:
    """``kernel`` compiled with the options ``chosen``, or with less where its tiles do not fit and ``given`` is silent;
    without tensor memory where Triton fails at MMA ops there."""
    compile_ttir = compiler().compile_ttir
    failed = ""
    while True:
        try:
            return CompileResult(compile_ttir(kernel, target, chosen), chosen, failed)
        except OutOfSharedMemory as e:
            if chosen.num_stages == 1 or "num_stages" in given:
                raise
            room = chosen.num_stages * target.shared_memory // e.needed
            chosen = replace(chosen, num_stages=max(1, min(room, chosen.num_stages - 1)))
        except CompilerFailure as e:
            others = target.has_tensor_memory and chosen.tensor_memory and kernel.has_mma
            if isinstance(e, AnalysisFailure) or not others:
                raise
            chosen, failed = replace(chosen, tensor_memory=False), e.message
