"""The backend object: kernels through the gpu dialect and LLVM to PTX, assembled by ptxas or by the driver."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import llvmlite

from tilewright.analysis.gpu.target import THREAD_REGISTERS, GpuTarget, parse_target, resolved
from tilewright.backends.base import Exporter
from tilewright.backends.cuda_tools import tool_version
from tilewright.backends.gpu import assemble
from tilewright.backends.gpu.compiler import Compiled, blocks_to_join, compile_to_ptx
from tilewright.backends.gpu.exporter import write_cubin
from tilewright.backends.gpu.tables import box_of
from tilewright.backends.gpu.target import architecture
from tilewright.gpu_runtime import driver
from tilewright.gpu_runtime.abi import formats_of
from tilewright.gpu_runtime.artifact import APART, Artifact, GpuBinary
from tilewright.gpu_runtime.backend import DriverBackend
from tilewright.gpu_runtime.constraints import Constraints, compile_under, render_reasons
from tilewright.ir.core import Function, Op
from tilewright.ir.errors import TileUnsupportedFeatureError
from tilewright.ir.gpu_stage import (
    BLOCKS_OF_CTA,
    CTAS_OF_BLOCK,
    CTAS_OF_SM,
    DEEPER,
    GRID_EXTENT,
    MAX_WARPS,
    MOST_CTAS,
)
from tilewright.ir.ops.gpu.tensor_memory import Tcgen05Mma
from tilewright.ir.report_buffer import sites
from tilewright.transforms.gpu.lower_gathers import exchange_in_loops
from tilewright.transforms.pipelines import optimize

_OPTIONS = ("num_warps", "num_stages")
_UNTESTED = (
    "{}: its MMA ops add in tensor memory, which interpreters have tested and no GPU; compare the results, for example "
    "with TILEWRIGHT_BACKEND=triton"
)
_FEW_CTAS = 2  # on an SM, with which warps that load for themselves have registers for what they would spill
_FEW_SPILLED = 64  # bytes of a thread that are no reason to compile again: benchmarks/results/gpu_constants.md


class GpuBackend(DriverBackend[str]):
    """Compiles kernels for GPU ``index`` of this machine or for another ``target``, such as ``sm_90``."""

    name = "gpu"

    def unavailable(self) -> str | None:
        return driver.why_not() if self._target is None else None

    def target(self) -> str:
        return f"llvmlite {llvmlite.__version__} ptxas {tool_version('ptxas')} {self.architecture()}"

    def architecture(self) -> str:
        """The architecture that kernels are compiled for. TileUnsupportedFeatureError for one without code."""
        return architecture(self._target or f"sm_{driver.device(self._index).capability}").name

    @classmethod
    def for_target(cls, target: str | None) -> GpuBackend:
        if target is not None:
            parse_target(target)
            try:
                architecture(target)
            except TileUnsupportedFeatureError as e:
                raise ValueError(e.message) from None
        return cls(target)

    def exports(self) -> Mapping[str, Exporter]:
        return {"cubin": write_cubin}

    def artifact(self, function: Function, options: Mapping[str, Any], variant: Constraints) -> Artifact:
        """``function`` as machine code, or as PTX where no ptxas is installed; under other constraints where registers
        do not suffice. TileUnsupportedFeatureError, at the op, for what has no code yet."""
        return compile_under(variant, functools.partial(self._attempt, function, options))

    def reporting(self, function: Function) -> Sequence[Op]:
        return sites(optimize(function))

    def _attempt(
        self, function: Function, options: Mapping[str, Any], how: Constraints, reasons: Sequence[str]
    ) -> Artifact:
        if not how.occupancy:
            function = replace(function, hints={**function.hints, "occupancy": 1})
        if how.ctas:
            function = replace(function, hints={**function.hints, MOST_CTAS: how.ctas})
        chosen = choose(function, options, parse_target(self.architecture().removesuffix("a")))
        warps, stages = chosen["num_warps"], chosen["num_stages"]
        joins, busy = blocks_to_join(function, self.architecture(), warps, how)
        if joins and how.join is None:
            without_code = GpuBinary(b"", function.name, 0, 1, 0, ())
            return Artifact(without_code, formats_of(function), (), 0, joinable=joins, busy=busy)
        compiled = compile_to_ptx(function, self.architecture(), warps, 1 if stages == 0 else stages, how)
        if (how.across > 1 or (how.steps and how.across != 1)) and exchange_in_loops(compiled.distributed):
            why = "without parts of rows, which CTAs would exchange in each step"
            raise how.but(why, across=1)
        if self._target is None and compiled.distributed.ops_of(Tcgen05Mma):
            warnings.warn(_UNTESTED.format(function.name), RuntimeWarning, stacklevel=2)
        why = render_reasons(reasons)
        if assemble.missing() is not None:
            return _artifact(function, compiled, compiled.ptx.encode() + b"\0", compiled.texts(why), how)
        several = compiled.distributed.hints.get("occupancy") not in (None, 1)
        try:
            assembled = assemble.assemble(compiled.ptx, compiled.target.name, function.name)
        except assemble.OutOfRegisters as error:
            if not how.occupancy:
                raise
            raise how.but(f"without the hint occupancy, for {error.message}", occupancy=False) from error
        spilled = assembled.resources.spilled
        if spilled > _FEW_SPILLED and several and assembled.resources.registers < THREAD_REGISTERS:
            if compiled.distributed.hints.get(CTAS_OF_SM, 0) > _FEW_CTAS:
                raise how.but(f"with two CTAs on an SM, as {spilled} bytes are spilled with more", ctas=_FEW_CTAS)
            raise how.but(f"without the hint occupancy, with which {spilled} bytes are spilled", occupancy=False)
        used = assembled.resources.render(compiled.shared_bytes)
        return _artifact(function, compiled, assembled.cubin, compiled.texts(why, resources=used), how)


def _artifact(
    function: Function, compiled: Compiled, code: bytes, texts: Mapping[str, str], how: Constraints
) -> Artifact:
    binary = GpuBinary(
        code=code,
        symbol=compiled.name,
        threads=compiled.threads,
        num_ctas=compiled.num_ctas,
        shared_bytes=compiled.shared_bytes,
        descriptors=tuple(map(box_of, compiled.maps)),
        texts=texts,
        dependent_launch=compiled.target.has_dependent_launch,
    )
    blocks, ctas = (compiled.distributed.hints.get(name, 1) for name in (BLOCKS_OF_CTA, CTAS_OF_BLOCK))
    assert isinstance(blocks, int) and isinstance(ctas, int)
    added = compiled.reports + (compiled.local_bytes > 0)
    return Artifact(
        binary,
        (*formats_of(function), *["u64"] * added, *["i32"] * (blocks > 1)),
        tuple(op.descriptor for op in compiled.maps),
        0,
        reports=compiled.reports,
        local_bytes=compiled.local_bytes,
        tables=compiled.tables,
        capacity=compiled.capacity,
        blocks_of_cta=blocks,
        ctas_of_block=ctas,
        joined=how.join or APART,
        divisions=tuple(compiled.divisions),
        depths=compiled.distributed.hints.get(DEEPER, ()),
        kept_rows=compiled.kept_rows,
        short_rows=compiled.short_rows,
        grid_extent=compiled.distributed.hints.get(GRID_EXTENT, ()),
    )


def choose(function: Function, options: Mapping[str, Any], target: GpuTarget) -> dict[str, int | None]:
    """How many warps a CTA has, and stages loops: as the options or the kernel's hints say. ValueError for others.

    No number of warps stands for as many as suit the kernel.
    """
    unknown = next((name for name in options if name not in _OPTIONS), None)
    if unknown is not None:
        raise ValueError(f"the backend gpu has no option {unknown!r}; it has {', '.join(_OPTIONS)}")
    hinted = resolved(function.hints.get("num_worker_warps"), target)
    warps = options.get("num_warps", hinted if isinstance(hinted, int) else None)
    if warps is not None and (not isinstance(warps, int) or not 0 < warps <= MAX_WARPS or warps & (warps - 1)):
        raise ValueError(f"num_warps is {warps!r}; it is a power of two up to {MAX_WARPS}")
    return {"num_warps": warps, "num_stages": options.get("num_stages")}


BACKEND = GpuBackend()
