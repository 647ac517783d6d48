"""Kernels as a cubin, to be launched without Python.

Triton's machine code takes the parameters of the function and pointers of its own; the exported kernel takes what the
calling convention says, in its order. Beside the cubin stands a JSON file with what a launch has to know: the number of
threads per block and the bytes of dynamic shared memory of each symbol.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.analysis.gpu.target import GpuTarget
from tilewright.backends.base import Export, Parameter
from tilewright.backends.triton.artifact import Artifact
from tilewright.backends.triton.ttir.kernel import ENTRY
from tilewright.ir.errors import TileError, TileUnsupportedFeatureError

_ENTRY = re.compile(r"\.visible \.entry (\w+)\(\s*(.*?)\s*\)\s*(?=\.|\{)", re.DOTALL)
_WIDTHS = {8: "u8", 16: "u16", 32: "u32", 64: "u64"}


def write_cubin(kernels: Sequence[tuple[Export, Artifact]], path: Path, target: GpuTarget, ptxas: str) -> None:
    """Assemble ``kernels``, compiled without descriptors, into ``path``, and describe them in a JSON file beside it."""
    declarations: dict[str, None] = {}
    entries, launches = [], {}
    for export, artifact in kernels:
        head, entry = _exported(export, artifact)
        declarations.update(dict.fromkeys(head))
        entries.append(entry)
        launches[export.symbol] = _launch(artifact)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernels.ptx")
        source.write_text("\n".join([*declarations, *entries]) + "\n")
        suffix = "a" if target.capability >= 90 else ""
        command = [ptxas, f"-arch={target.name}{suffix}", str(source), "-o", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TileError(f"ptxas failed on the exported kernels: {done.stderr.strip().splitlines()[0]}")
    path.with_suffix(".json").write_text(json.dumps(launches, indent=2) + "\n")


def _launch(artifact: Artifact) -> dict[str, Any]:
    binary = artifact.binary
    return {
        "threads_per_block": binary.block_threads,
        "dynamic_shared_bytes": binary.shared_bytes,
        "cluster_size": binary.num_ctas,
    }


def _exported(export: Export, artifact: Artifact) -> tuple[list[str], str]:
    """The declarations of a PTX module, and its entry with the name and the parameters of ``export``."""
    if artifact.reports or artifact.local_bytes:
        raise TileUnsupportedFeatureError(
            "an exported GPU kernel cannot print, assert or have local arrays: nobody reads or allocates them",
            export.function.loc,
        )
    ptx = artifact.binary.texts["PTX"]
    found = _ENTRY.search(ptx)
    assert found is not None and found.group(1) == ENTRY
    declared = [line.strip().rstrip(",") for line in found.group(2).splitlines()]
    lines = _body(ptx[found.end() :]).splitlines()
    body = "\n".join(line for line in lines if not line.lstrip().startswith((".loc", ".file")))
    names = [line.split()[-1].split("[")[0] for line in declared]
    count = len(export.function.params)
    for name in names[count:]:
        if f"[{name}]" in body or f"[{name}+" in body:
            raise TileUnsupportedFeatureError("the compiled kernel needs memory that only Python allocates")
    parameters = [
        declared[p.position] if p.position is not None else f".param .{_WIDTHS[_bits(p)]} unused_{i}"
        for i, p in enumerate(export.parameters)
    ]
    head = [line for line in ptx[: found.start()].splitlines() if line.startswith(".")]
    return head, f".visible .entry {export.symbol}(\n  " + ",\n  ".join(parameters) + f"\n)\n{body}"


def _body(text: str) -> str:
    """``text`` up to the brace that closes its first block; inline assembly has blocks of its own."""
    depth = 0
    for brace in re.finditer("[{}]", text):
        depth += 1 if brace.group() == "{" else -1
        if not depth:
            return text[: brace.end()]
    raise AssertionError("the entry has no end")


def _bits(p: Parameter) -> int:
    return 64 if p.type.is_pointer else p.type.element.bitwidth
