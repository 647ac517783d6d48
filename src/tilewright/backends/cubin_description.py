"""What a program without Python has to know of the kernels of a cubin: the JSON file beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.backends.export import Export
from tilewright.ir import report_buffer
from tilewright.ir.core import Function
from tilewright.ir.ops.memory import Assert, Print


def output_symbol(export: Export) -> str:
    """The variable of the cubin that has what the kernel prints."""
    return f"{export.symbol}_output"


def described(threads: int, shared_bytes: int, cluster_size: int) -> dict[str, Any]:
    """How a kernel is launched."""
    return {"threads_per_block": threads, "dynamic_shared_bytes": shared_bytes, "cluster_size": cluster_size}


def described_output(export: Export, optimized: Function) -> dict[str, Any]:
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
        "symbol": output_symbol(export),
        "words": report_buffer.WORDS,
        "header_words": report_buffer.HEADER,
        "sites": sites,
    }


def write_description(launches: Mapping[str, Any], cubin: Path) -> None:
    """Write the ``launches``, by symbol, to the file that stands beside ``cubin``."""
    cubin.with_suffix(".json").write_text(json.dumps(launches, indent=2) + "\n")
