"""Running the Triton compiler on TTIR."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import triton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget, Language
from triton.compiler import ASTSource

from tilewright.analysis.gpu.target import GpuTarget
from tilewright.backends.cancellation import Cancelled, until_cancelled
from tilewright.backends.triton import known_faults, settings
from tilewright.backends.triton.options import Options
from tilewright.backends.triton.requirements import version
from tilewright.backends.triton.resources import AnalysisFailure, CompilerFailure, OutOfRegisters, OutOfSharedMemory
from tilewright.backends.triton.ttir.kernel import TtirKernel
from tilewright.gpu_runtime.artifact import GpuBinary
from tilewright.ir.errors import TileError, TileUnsupportedFeatureError

_ANALYSES = ("AxisInfo.h", "TritonGPUCoalesce")  # of indices: what Triton says where it fails in one


class _Source(ASTSource):  # type: ignore[misc]
    """A TTIR module, for ``triton.compile`` to take through all of its stages."""

    def __init__(self, kernel: TtirKernel, tensor_memory: bool) -> None:
        self.text = kernel.text
        self.tensor_memory = tensor_memory  # how it is compiled, beyond the options of Triton
        self.name = kernel.name
        self.ext = "ttir"
        self.language = Language.TRITON
        self.signature = {f"arg{i}": t for i, t in enumerate(kernel.parameters)}
        self.constants: dict[Any, Any] = {}
        self.attrs: dict[Any, Any] = {}
        self.fn = None

    def hash(self) -> str:
        return hashlib.sha256(f"tensor memory: {self.tensor_memory} {self.text}".encode()).hexdigest()

    def make_ir(self, *args: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "kernel.mlir")
            path.write_text(self.text)
            module = ir.parse_mlir_module(str(path), args[-1])
        module.context = args[-1]
        return module

    def parse_options(self) -> dict[str, Any]:
        return {}


def _options(options: Options, target: GpuTarget) -> dict[str, Any]:
    """As Triton takes them. No contraction of a * b + c and no flushing: the language rounds every operation."""
    given: dict[str, Any] = {"num_warps": options.num_warps, "num_stages": options.num_stages}
    given |= {"enable_fp_fusion": False, "sanitize_overflow": False}
    if target.is_cuda:
        given["enable_reflect_ftz"] = False
        if options.maxnreg is not None:
            given["maxnreg"] = options.maxnreg
    return given


def triton_target(target: GpuTarget) -> GPUTarget:
    if target.is_cuda:
        return GPUTarget("cuda", target.capability, target.warp_size)
    return GPUTarget("hip", target.name, target.warp_size)


def compile_ttir(kernel: TtirKernel, target: GpuTarget, options: Options) -> GpuBinary:
    """Machine code for ``kernel``.

    OutOfSharedMemory where the tiles do not fit; TileError, naming the file with the details, when the compiler fails.
    """
    source = _Source(kernel, options.tensor_memory)
    with tempfile.TemporaryFile("w+") as noise:
        try:
            with until_cancelled(
                settings.output_to(noise),
                settings.known_by_fingerprint(),
                settings.mma_ops(tensor_memory=options.tensor_memory),
                settings.without_buffer_atomics(),
            ):
                compiled = triton.compile(source, target=triton_target(target), options=_options(options, target))
        except Cancelled:
            raise
        except Exception as e:  # whatever the compiler throws: its report goes to a file
            noise.seek(0)
            raise _failure(kernel, target, options, e, noise.read()) from e
    m = compiled.metadata
    if m.shared > target.shared_memory:
        raise OutOfSharedMemory(m.shared)
    if target.is_cuda:
        _refuse_faults(compiled.asm, target)
    binary = compiled.asm["cubin" if target.is_cuda else "hsaco"]
    texts = {name: text for name, text in compiled.asm.items() if isinstance(text, str)}
    return GpuBinary(
        code=binary,
        symbol=m.name,
        threads=target.warp_size * getattr(m, "num_warps", options.num_warps),
        num_ctas=1,
        shared_bytes=m.shared,
        descriptors=(),
        texts=texts,
    )


def _refuse_faults(texts: Mapping[str, Any], target: GpuTarget) -> None:
    """TileUnsupportedFeatureError for integers that would be compiled wrongly."""
    if (wrong := known_faults.in_integers(texts, target, version())) is not None:
        raise TileUnsupportedFeatureError(
            f"Triton makes {wrong} of this kernel, which is compiled wrongly for {target.name}; use the backend 'gpu'"
        )


def _failure(kernel: TtirKernel, target: GpuTarget, options: Options, error: Exception, noise: str) -> TileError:
    """Everything about a failure in a file, from which Triton can repeat it."""
    handle, path = tempfile.mkstemp(prefix="tilewright-gpu-", suffix=".ttir")
    said = f"{type(error).__name__}: {error}\n{noise}"
    head = [
        f"Triton {settings.TRITON_VERSION} failed on this kernel. To repeat that:",
        f"triton.compile({path!r}, target={triton_target(target)}, options={_options(options, target)})",
        "",
        *said.splitlines(),
    ]
    with os.fdopen(handle, "w") as f:
        f.write("".join(f"// {line}\n" for line in head) + "\n" + kernel.text)
    if "Register allocation failed" in said or "Insufficient registers" in said:
        return OutOfRegisters(f"the report of the compiler is in {path}")
    kind = AnalysisFailure if any(name in noise for name in _ANALYSES) else CompilerFailure
    return kind(f"the GPU compiler failed on this kernel for {target.name}; its report is in {path}")
