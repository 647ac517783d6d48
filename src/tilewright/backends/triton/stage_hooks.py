"""What is changed between the stages of Triton's compiler, through its hook for that."""

from __future__ import annotations

import functools
import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from triton._C.libtriton import ir

from tilewright.analysis.gpu.target import GpuTarget
from tilewright.backends.triton import ptx
from tilewright.backends.triton.resources import OutOfSharedMemory
from tilewright.backends.triton.ttir.kernel import TtirKernel

Stage = Callable[[Any, Any], Any]  # a stage of Triton's takes the module and the metadata


@functools.cache
def sources() -> str:
    """The fingerprint of this package, which changes what Triton's stages give: part of the keys of Triton's cache."""
    found = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


def parse_mlir(text: str, context: Any) -> Any:
    """The MLIR module ``text``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.mlir")
        path.write_text(text)
        module = ir.parse_mlir_module(str(path), context)
    module.context = context
    return module


def stage_hook(kernel: TtirKernel, target: GpuTarget) -> Callable[..., tuple[str, str] | None]:
    """Triton's hook for the stages of a compilation. Without arguments it asks for a key and a hash for its cache."""
    by_value_parameters = kernel.by_value_parameters
    version = f"{sources()} {sorted(by_value_parameters.items())}"

    def change(
        backend: Any = None, stages: Any = None, options: Any = None, language: Any = None, capability: Any = None
    ) -> tuple[str, str] | None:
        if stages is None:
            return version, version
        stages["llir"] = _check_shared_memory(stages["llir"], target.shared_memory)
        if by_value_parameters:
            stages["ptx"] = _then(stages["ptx"], lambda text: ptx.with_by_value_parameters(text, by_value_parameters))
        return None

    return change


def _then(stage: Stage, change: Callable[[Any], Any]) -> Stage:
    """``stage`` with ``change`` of its result."""
    return lambda source, metadata: change(stage(source, metadata))


def _check_shared_memory(make_llir: Stage, available: int) -> Stage:
    """OutOfSharedMemory before the assembler, which takes long for large tiles."""

    def checked(source: Any, metadata: Any) -> Any:
        module = make_llir(source, metadata)
        if metadata["shared"] > available:
            raise OutOfSharedMemory(metadata["shared"])
        return module

    return checked
