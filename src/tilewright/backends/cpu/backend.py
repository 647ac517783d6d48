"""The CPU backend: Tile IR to machine code of this processor, through LLVM."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.backends.base import Capabilities, Serialization
from tilewright.backends.cpu.compiled import CompiledKernel
from tilewright.backends.cpu.executable import CpuExecutable
from tilewright.backends.cpu.identity import target_key
from tilewright.backends.cpu.on_demand import host, module
from tilewright.backends.cpu.options import Options
from tilewright.backends.export import Export
from tilewright.ir.core import Function


class CpuBackend:
    """Compiles kernels for the processor that this process runs on."""

    name = "cpu"
    device = "cpu"

    def unavailable(self) -> str | None:
        """llvmlite may be missing."""
        if importlib.util.find_spec("llvmlite"):
            return None
        return "it needs LLVM: pip install llvmlite; the backend 'reference' does without, slowly"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            direct_launch=True,
            serialization=Serialization(lambda executable: executable.compiled.to_bytes(), _from_bytes),
            work=CpuExecutable.work,
            embed=CpuExecutable.embedded,
            exports={"shared_library": _write_library},
        )

    def target(self) -> str:
        """Processor, its features, and the versions of LLVM's wrapper and of the generated code."""
        return target_key()

    def compile(self, function: Function, options: Mapping[str, Any], variant: Any = None) -> CpuExecutable:
        """Compile ``function``; ``Options`` says what can be chosen."""
        chosen = Options.of(options)
        compiled, polls = module("compiler").compile_kernel(function)
        return CpuExecutable(function, compiled, chosen, polls)


def _from_bytes(function: Function, data: bytes, options: Mapping[str, Any], variant: Any) -> CpuExecutable:
    """Load machine code; nothing is compiled. ValueError for data that is none."""
    return CpuExecutable(function, CompiledKernel.from_bytes(data), Options.of(options))


def _write_library(kernels: Sequence[Export], path: Path, output_format: str, target: str | None) -> None:
    """Write a shared library for this kind of processor, and its C header."""
    if (reason := BACKEND.unavailable()) is not None:
        raise RuntimeError(f"the backend 'cpu' cannot be used here: {reason}")
    if target is not None:
        raise ValueError(f"gpu_code is {target!r}, but {output_format} is for the processor of this machine")
    module("library").write_library(kernels, path, host())


BACKEND = CpuBackend()
