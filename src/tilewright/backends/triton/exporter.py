"""Kernels as a cubin, to be launched without Python.

Triton's machine code takes the parameters of the function and pointers of its own; the exported kernel takes what the
calling convention says, in its order. Beside the cubin stands a JSON file with what a launch has to know: the number of
threads per block and the bytes of dynamic shared memory of each symbol. What a kernel prints, and which assert failed,
is in a variable of the cubin, which the JSON file describes.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tilewright.analysis.gpu.target import GpuTarget
from tilewright.backends.cubin_description import described, described_output, output_symbol, write_description
from tilewright.backends.export import Export, Parameter
from tilewright.gpu_runtime.artifact import Artifact
from tilewright.ir import report_buffer
from tilewright.ir.errors import TileError, TileUnsupportedFeatureError
from tilewright.transforms.pipelines import optimize

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
        binary = artifact.binary
        launches[export.symbol] = described(binary.block_threads, binary.shared_bytes, binary.num_ctas)
        if artifact.reports:
            launches[export.symbol]["output"] = described_output(export, optimize(export.function))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernels.ptx")
        source.write_text("\n".join([*declarations, *entries]) + "\n")
        suffix = "a" if target.capability >= 90 else ""
        command = [ptxas, f"-arch={target.name}{suffix}", str(source), "-o", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TileError(f"ptxas failed on the exported kernels: {done.stderr.strip().splitlines()[0]}")
    write_description(launches, path)


def _exported(export: Export, artifact: Artifact) -> tuple[list[str], str]:
    """The declarations of a PTX module, and its entry with the name and the parameters of ``export``."""
    if artifact.local_bytes:
        raise TileUnsupportedFeatureError(
            "an exported GPU kernel cannot have local arrays: nobody allocates them", export.function.loc
        )
    ptx = artifact.binary.texts["PTX"]
    found = _ENTRY.search(ptx)
    assert found is not None
    declared = [line.strip().rstrip(",") for line in found.group(2).splitlines()]
    lines = _body(ptx[found.end() :]).splitlines()
    body = "\n".join(line for line in lines if not line.lstrip().startswith((".loc", ".file")))
    names = [line.split()[-1].split("[")[0] for line in declared]
    count = len(export.function.params)
    head = [line for line in ptx[: found.start()].splitlines() if line.startswith(".")]
    if artifact.reports:
        head.append(f".visible .global .align 8 .b64 {output_symbol(export)}[{report_buffer.WORDS}];")
        load = re.compile(rf"ld\.param\.[bu]64(\s+%\w+), \[{names[count]}\];")
        body = load.sub(rf"mov.b64\1, {output_symbol(export)};", body)
    for name in names[count:]:
        if f"[{name}]" in body or f"[{name}+" in body:
            raise TileUnsupportedFeatureError("the compiled kernel needs memory that only Python allocates")
    parameters = [
        declared[p.position] if p.position is not None else f".param .{_WIDTHS[_bits(p)]} unused_{i}"
        for i, p in enumerate(export.parameters)
    ]
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
