"""The hints of a kernel for one architecture, and which of them had no effect."""

from __future__ import annotations

from dataclasses import replace

from tilewright.analysis.gpu.target import GpuTarget, resolved
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.core import Function
from tilewright.ir.gpu_stage import num_warps
from tilewright.ir.ops.gpu.tma import TmaLoad, TmaStore
from tilewright.ir.ops.memory import Load, LoadView, Store, StoreView


def with_resolved_hints(function: Function, target: GpuTarget) -> Function:
    """``function`` with the values that its hints have for ``target``."""
    return AnalysisManager(function).get(_resolve_hints, target) if function.hints else function


def _resolve_hints(function: Function, target: GpuTarget) -> Function:
    return replace(function, hints={name: resolved(hint, target) for name, hint in function.hints.items()})


def ignored_hints(optimized: Function, distributed: Function, target: GpuTarget, num_ctas: int = 1) -> list[str]:
    """The hints of ``optimized`` without effect on ``distributed``, a CTA of ``num_ctas`` that run a block. Those that
    ask for what holds anyway are not among them."""
    hints = optimized.hints
    accesses = [op for op in optimized.walk() if isinstance(op, (LoadView, StoreView, Load, Store))]
    wanted = any(isinstance(op, (LoadView, StoreView)) and resolved(op.allow_tma, target) is True for op in accesses)
    copies = distributed.ops_of((TmaLoad, TmaStore))
    pairs = any(isinstance(op, TmaLoad) and op.both is not None for op in copies)
    found = {
        "opt_level": hints.get("opt_level") is not None,
        "num_ctas": hints.get("num_ctas") not in (None, 1, 2 if pairs else num_ctas),
        "num_worker_warps": hints.get("num_worker_warps") not in (None, num_warps(distributed)),
        "occupancy": (hints.get("occupancy") or 1) > (distributed.hints.get("occupancy") or 1),
        "latency": any(op.latency is not None for op in accesses),
        "allow_tma": wanted and not copies,
    }
    return [name for name, ignored in found.items() if ignored]
