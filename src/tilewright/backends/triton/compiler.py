"""Running the Triton compiler on TTIR."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import triton
from triton._C import libtriton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget, Language
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource
from triton.runtime import cache

from tilewright.analysis.gpu.target import GpuTarget
from tilewright.backends.cancellation import Cancelled, until_cancelled
from tilewright.backends.triton import (
    barrier_elimination,
    epilogue_buffering,
    invariant_operands,
    llir,
    ptx,
    ptxas_workarounds,
    tma_prefetch,
    ttgir,
    wait_sinking,
    wgmma_merging,
)
from tilewright.backends.triton.options import Options
from tilewright.backends.triton.resources import AnalysisFailure, CompilerFailure, OutOfRegisters, OutOfSharedMemory
from tilewright.backends.triton.tma_boxes import boxes
from tilewright.backends.triton.ttir.kernel import ENTRY, TtirKernel
from tilewright.gpu_runtime.binary import GpuBinary
from tilewright.ir.errors import TileError

TRITON_VERSION: str = triton.__version__
_NO_TENSOR_MEMORY = "DISABLE_MMA_V5"  # a variable of the environment that Triton reads
_ANALYSES = ("AxisInfo.h", "TritonGPUCoalesce")  # of indices: what Triton says where it fails in one
Stage = Callable[[Any, Any], Any]  # a stage of Triton's takes the module and the metadata


@functools.cache
def _sources() -> str:
    """The fingerprint of this package, which changes Triton's forms: part of the keys of Triton's cache."""
    found = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


class _Source(ASTSource):  # type: ignore[misc]
    """A TTIR module, for ``triton.compile`` to take through all of its stages."""

    def __init__(self, text: str, parameters: tuple[str, ...], how: str) -> None:
        self.text = text
        self.how = how  # it is compiled, beyond the options of Triton
        self.name = ENTRY
        self.ext = "ttir"
        self.language = Language.TRITON
        self.signature = {f"arg{i}": t for i, t in enumerate(parameters)}
        self.constants: dict[Any, Any] = {}
        self.attrs: dict[Any, Any] = {}
        self.fn = None

    def hash(self) -> str:
        return hashlib.sha256(f"{_sources()} {self.how} {self.text}".encode()).hexdigest()

    def make_ir(self, *args: Any) -> Any:
        return _parsed(self.text, args[-1])

    def parse_options(self) -> dict[str, Any]:
        return {}


def _parsed(text: str, context: Any) -> Any:
    """The MLIR module ``text``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.mlir")
        path.write_text(text)
        module = ir.parse_mlir_module(str(path), context)
    module.context = context
    return module


def _changed_stages(
    kernel: TtirKernel, target: GpuTarget, ahead: bool, roomy: bool
) -> Callable[..., tuple[str, str] | None]:
    """Triton's hook for the stages of a compilation. Without arguments it asks for a key and a hash for its cache.
    ``ahead`` lets loads run ahead, and ``roomy`` results have places of their own."""
    maps, blobs = kernel.shared_maps, kernel.blobs
    version = f"{_sources()} {sorted(maps)} {sorted(blobs.items())} {ahead} {roomy}"

    def change(
        backend: Any = None, stages: Any = None, options: Any = None, language: Any = None, capability: Any = None
    ) -> tuple[str, str] | None:
        if stages is None:
            return version, version
        if target.has_wgmma:
            stages["ttgir"] = _mended(stages["ttgir"], ahead, target.shared_memory if roomy else 0)
        stages["llir"] = _fitting(stages["llir"], target.shared_memory)
        if target.is_cuda:
            stages["llir"] = _sound(stages["llir"])
            stages["ptx"] = _repaired(stages["ptx"])
        if maps:
            stages["ptx"] = _shared(stages["ptx"], maps)
        if target.has_wgmma:
            stages["ptx"] = _polished(stages["ptx"])
        if blobs:
            stages["ptx"] = _by_value(stages["ptx"], blobs)
        return None

    return change


def _mended(make_ttgir: Stage, ahead: bool, room: int) -> Stage:
    def mended(source: Any, metadata: Any) -> Any:
        module = make_ttgir(source, metadata)
        text = str(module)
        pipelined = tma_prefetch.prefetch(wait_sinking.sink_waits(text)) if ahead else text
        better = ttgir.mended(invariant_operands.keep_in_shared_memory(pipelined))
        apart = epilogue_buffering.buffer_epilogues(better, room)
        metadata["roomy"] = apart != better
        return module if apart == text else _parsed(apart, module.context)

    return mended


def _sound(make_llir: Stage) -> Stage:
    return lambda source, metadata: llir.without_promises(make_llir(source, metadata))


def _repaired(make_ptx: Stage) -> Stage:
    return lambda source, metadata: ptxas_workarounds.repair(ptx.wrapping(make_ptx(source, metadata)))


def _shared(make_ptx: Stage, maps: Collection[int]) -> Stage:
    return lambda source, metadata: ptx.share_loads(make_ptx(source, metadata), maps)


def _polished(make_ptx: Stage) -> Stage:
    def polished(source: Any, metadata: Any) -> str:
        merged = wgmma_merging.merge(barrier_elimination.eliminate(make_ptx(source, metadata)))
        return ptxas_workarounds.repair_products(ptx.fetch_maps(merged))

    return polished


def _by_value(make_ptx: Stage, blobs: Mapping[int, int]) -> Stage:
    return lambda source, metadata: ptx.pass_by_value(make_ptx(source, metadata), blobs)


def _fitting(make_llir: Stage, available: int) -> Stage:
    """OutOfSharedMemory before the assembler, which takes long for large tiles."""

    def fitting(source: Any, metadata: Any) -> Any:
        module = make_llir(source, metadata)
        if metadata["shared"] > available:
            raise OutOfSharedMemory(metadata["shared"], roomy=metadata.get("roomy", False))
        return module

    return fitting


def _options(options: Options, target: GpuTarget) -> dict[str, Any]:
    """As Triton takes them. No contraction of a * b + c and no flushing: the language rounds every operation."""
    given: dict[str, Any] = {"num_warps": options.num_warps, "num_stages": options.num_stages}
    given |= {"enable_fp_fusion": False, "sanitize_overflow": False}
    if target.is_cuda:
        given["enable_reflect_ftz"] = False
        if options.maxnreg is not None:
            given["maxnreg"] = options.maxnreg
    return given


def assembler(target: GpuTarget) -> str:
    """The path of the PTX assembler that comes with Triton and that it uses for ``target``."""
    return str(get_ptxas(target.capability).path)


def triton_target(target: GpuTarget) -> GPUTarget:
    if target.is_cuda:
        return GPUTarget("cuda", target.capability, target.warp_size)
    return GPUTarget("hip", target.name, target.warp_size)


def compile_ttir(
    kernel: TtirKernel, target: GpuTarget, options: Options, *, ahead: bool = False, roomy: bool = True
) -> GpuBinary:
    """Machine code for ``kernel``, whose loads run ahead where ``ahead`` lets them, and whose results have places of
    their own where ``roomy`` lets them, and where they fit.

    OutOfSharedMemory where the tiles do not fit; UnknownForm where its blocks cannot share loads; TileError, naming the
    file with the details, when the compiler fails.
    """
    ahead = ahead and not kernel.shared_maps
    how = f"{ahead} {roomy} {options.tensor_memory} {sorted(kernel.blobs.items())}"
    source = _Source(kernel.text, kernel.parameters, how)
    with tempfile.TemporaryFile("w+") as noise:
        try:
            with until_cancelled(
                _output_to(noise),
                _known_by_fingerprint(),
                _tensor_memory(options.tensor_memory),
                _knobs(_changed_stages(kernel, target, ahead, roomy)),
            ):
                compiled = triton.compile(source, target=triton_target(target), options=_options(options, target))
        except OutOfSharedMemory as e:
            if not e.roomy:
                raise
            return compile_ttir(kernel, target, options, ahead=ahead, roomy=False)
        except (ptx.UnknownForm, Cancelled):
            raise
        except Exception as e:  # whatever the compiler throws: its report goes to a file
            noise.seek(0)
            raise _failure(kernel, target, options, e, noise.read()) from e
    m = compiled.metadata
    binary = compiled.asm["cubin" if target.is_cuda else "hsaco"]
    texts = {name: text for name, text in compiled.asm.items() if isinstance(text, str)}
    return GpuBinary(
        code=binary,
        symbol=m.name,
        num_warps=getattr(m, "num_warps", options.num_warps),
        num_ctas=getattr(m, "num_ctas", 1),
        shared_bytes=m.shared,
        scratch_bytes=getattr(m, "global_scratch_size", 0) or 0,
        scratch_align=getattr(m, "global_scratch_align", 1) or 1,
        descriptors=tuple(dict(d) for d in getattr(m, "tensordesc_meta", None) or ()),
        boxes=boxes(texts.get("ttgir", "")),
        texts=texts,
    )


@functools.cache
def _fingerprint() -> str:
    library = Path(libtriton.__file__)
    found = library.stat()
    return f"{TRITON_VERSION} {library} {found.st_size} {found.st_mtime_ns}"


@contextlib.contextmanager
def _known_by_fingerprint() -> Iterator[None]:
    """Within this context, Triton's cache knows Triton by when it was installed.

    Reading all of its hundreds of megabytes, as it does otherwise, takes most of the time of a first compilation.
    """
    kept = cache.triton_key
    cache.triton_key = _fingerprint
    try:
        yield
    finally:
        cache.triton_key = kept


@contextlib.contextmanager
def _output_to(file: IO[str]) -> Iterator[None]:
    """What the compiler prints, and what its native code writes to the standard error, goes to ``file`` instead."""
    sys.stderr.flush()
    kept, stdout = os.dup(2), sys.stdout
    os.dup2(file.fileno(), 2)
    sys.stdout = file
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        sys.stdout = stdout


@contextlib.contextmanager
def _tensor_memory(used: bool) -> Iterator[None]:
    """Within this context, Triton keeps sums of products in tensor memory only where that is ``used``."""
    kept = os.environ.get(_NO_TENSOR_MEMORY)
    if not used:
        os.environ[_NO_TENSOR_MEMORY] = "1"
    try:
        yield
    finally:
        if kept is not None:
            os.environ[_NO_TENSOR_MEMORY] = kept
        elif not used:
            del os.environ[_NO_TENSOR_MEMORY]


@contextlib.contextmanager
def _knobs(hook: Callable[..., Any]) -> Iterator[None]:
    """Within this context, ``hook`` changes the stages of Triton."""
    with triton.knobs.amd.scope(), triton.knobs.runtime.scope():
        triton.knobs.amd.use_buffer_atomics = False  # LLVM lacks some of them
        triton.knobs.runtime.add_stages_inspection_hook = hook
        yield


def _failure(kernel: TtirKernel, target: GpuTarget, options: Options, error: Exception, noise: str) -> TileError:
    """Everything about a failure in a file, from which Triton can repeat it."""
    handle, path = tempfile.mkstemp(prefix="tilewright-gpu-", suffix=".ttir")
    said = f"{type(error).__name__}: {error}\n{noise}"
    head = [
        f"Triton {TRITON_VERSION} failed on this kernel. To repeat that:",
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
