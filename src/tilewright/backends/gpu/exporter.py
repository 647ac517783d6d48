"""Kernels as a cubin, to be launched without Python. No GPU is needed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.export import Export
from tilewright.backends.gpu import assemble
from tilewright.backends.gpu.hints import with_resolved_hints
from tilewright.backends.gpu.lowering.function import Signature, add_kernel, module_of
from tilewright.backends.gpu.resources import check_registers
from tilewright.backends.gpu.target import Architecture, architecture, emit_ptx
from tilewright.backends.native.text_builder import text_of
from tilewright.ir import report_buffer
from tilewright.ir.core import Function
from tilewright.ir.errors import TileUnsupportedFeatureError
from tilewright.ir.ops.memory import Assert, Print
from tilewright.transforms.gpu.lower_reports import LowerReports, local_bytes
from tilewright.transforms.gpu.lowering import lower_to_gpu
from tilewright.transforms.pipelines import optimize, run_passes


def write_cubin(kernels: Sequence[Export], path: Path, output_format: str, target: str | None) -> None:
    """Write ``kernels`` as a cubin for the architecture ``target``, with a JSON file beside it.

    Their parameters are those of the calling convention, in its order. TileUnsupportedFeatureError without ptxas, for
    an unknown architecture, and for local arrays, which nobody would allocate.
    """
    if (reason := assemble.missing()) is not None:
        raise TileUnsupportedFeatureError(f"no {output_format} can be written here: {reason}")
    chosen = architecture(target or "")
    module = module_of("kernels")
    launches = {k.symbol: _add(module, k, chosen) for k in kernels}
    names = ", ".join(k.function.name for k in kernels)
    path.write_bytes(assemble.assemble(emit_ptx(text_of(module), chosen), chosen.name, names).cubin)
    path.with_suffix(".json").write_text(json.dumps(launches, indent=2) + "\n")


def _add(module: Any, export: Export, target: Architecture) -> dict[str, Any]:
    """Add a kernel to the module; how it is launched. Tensor maps are left to launches from Python."""
    processor = parse_target(target.name.removesuffix("a"))
    optimized = with_resolved_hints(optimize(export.function), processor)
    if local_bytes(optimized):
        raise TileUnsupportedFeatureError(
            "an exported GPU kernel cannot have local arrays: nobody allocates them", export.function.loc
        )
    hinted = optimized.hints.get("num_worker_warps")
    prepared = run_passes(optimized, (LowerReports(),))
    distributed = lower_to_gpu(prepared, hinted, shared_bytes=processor.shared_memory)
    check_registers(distributed)
    reports = bool(report_buffer.sites(optimized))
    output = (_output_symbol(export), 8 * report_buffer.WORDS) if reports else None
    parameters = tuple((p.type, p.position) for p in export.parameters)
    made = add_kernel(module, distributed, target, Signature(export.symbol, parameters, output))
    launch: dict[str, Any] = {
        "threads_per_block": made.threads,
        "dynamic_shared_bytes": made.shared_bytes,
        "cluster_size": 1,
    }
    if reports:
        launch["output"] = _described_output(export, optimized)
    return launch


def _output_symbol(export: Export) -> str:
    """The variable of the cubin that has what the kernel prints."""
    return f"{export.symbol}_output"


def _described_output(export: Export, optimized: Function) -> dict[str, Any]:
    """How to read what the kernel has printed from the variable that holds it (see ``ir.report_buffer``)."""
    sites: list[dict[str, Any]] = []
    for op in report_buffer.sites(optimized):
        values = [{"dtype": str(v.tile.dtype), "shape": v.tile.shape} for v in op.operands]
        if isinstance(op, Print):
            words = report_buffer.record_words(op)
            sites.append({"parts": op.parts, "formats": op.formats, "values": values, "words": words})
        else:
            assert isinstance(op, Assert)
            sites.append({"assert": op.message, "condition": values[0], "values": values[1:]})
    return {
        "symbol": _output_symbol(export),
        "words": report_buffer.WORDS,
        "header_words": report_buffer.HEADER,
        "sites": sites,
    }
