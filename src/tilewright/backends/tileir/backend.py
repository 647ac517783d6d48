"""The backend object: our kernels through CUDA Tile IR and NVIDIA's assembler, launched as those of Triton are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilewright.backends.base import NeedsVariant
from tilewright.backends.launch_arguments import LaunchArguments
from tilewright.backends.tileir import assembler
from tilewright.gpu_runtime import driver
from tilewright.gpu_runtime.abi import formats_of
from tilewright.gpu_runtime.artifact import Artifact, GpuBinary
from tilewright.gpu_runtime.backend import DriverBackend
from tilewright.gpu_runtime.constraints import CompileAgain, Constraints, compile_under
from tilewright.gpu_runtime.executable import GpuExecutable
from tilewright.ir.core import Function, Op
from tilewright.ir.errors import TileError
from tilewright.ir.gpu_parameters import table_parameters
from tilewright.ir.hints import ByTarget
from tilewright.ir.ops import control, linear, memory, shape
from tilewright.tileir.bytecode import read
from tilewright.tileir.export import Kernel, entry_name, export, moves_through_memory
from tilewright.tileir.text import print_module

UNUSUAL_ARRAYS = "negative strides, or arrays without elements"
_OLDEST_DRIVER = 13000  # which knows tile kernels: it launches them with the threads that their code is for


class TileIRBackend(DriverBackend[str]):
    """Compiles kernels with ``tileiras``, for GPU ``index`` of this machine or for another ``target``."""

    name = "tileir"

    def unavailable(self) -> str | None:
        reason = assembler.missing()
        if reason is not None or self._target is not None:
            return reason
        return driver.why_not() or _old_driver()

    def target(self) -> str:
        return f"tileiras {assembler.version()} {self.architecture()}"

    def architecture(self) -> str:
        if self._target is not None:
            return self._target
        found = f"sm_{driver.device(self._index).capability}"
        if found not in assembler.targets():
            raise TileError(f"tileiras {assembler.version()} does not compile for GPU {self._index}, {found}")
        return found

    @classmethod
    def for_target(cls, target: str | None) -> TileIRBackend:
        known = assembler.targets()
        if target is not None and known and target not in known:
            raise ValueError(f"{target} is not supported: tileiras {assembler.version()} knows {', '.join(known)}")
        return cls(target)

    def artifact(self, function: Function, options: Mapping[str, Any], variant: Any) -> Artifact:
        """``function`` assembled; as the variant ``UNUSUAL_ARRAYS`` for arrays that have some. No options."""
        if options:
            raise ValueError(f"the backend tileir has no option {next(iter(options))!r}; it has none")
        code, fallback = self._assembled(function, variant)
        binary = GpuBinary(
            code=code, symbol=entry_name(function), threads=1, num_ctas=1, shared_bytes=0, descriptors=()
        )
        tables = tuple(table_parameters(function))
        return Artifact(binary, formats_of(function), (), 0, tables=tables, fallback=fallback)

    def executable(
        self, function: Function, artifact: Artifact, options: Mapping[str, Any], variant: Any
    ) -> GpuExecutable:
        return TileIRExecutable(function, artifact, variant)

    def _assembled(self, function: Function, variant: Any) -> tuple[bytes, tuple[str, ...]]:
        """Machine code, and the first of the fallbacks that the assembler takes. TileError, as it refuses the kernel
        itself, when it takes none."""
        left = list(_fallbacks(function, self.architecture()))
        refused: list[TileError] = []

        def attempt(fallback: tuple[str, ...], _: Sequence[str]) -> tuple[bytes, tuple[str, ...]]:
            left.remove(fallback)
            kernel = _kernel(function, variant, fallback)
            data = export([kernel])
            optimized = _NOT_OPTIMIZED not in fallback
            last = not optimized or _MORE_WARPS in fallback
            try:
                code = assembler.assemble(data, self.architecture(), function.name, optimized=optimized, last=last)
                if not _waits(code, kernel.function, self.architecture()):
                    return code, fallback
                left[:] = [form for form in left if _WITHOUT_HINTS in form]
                raise TileError(f"with its occupancy, the kernel {function.name} would wait for registers forever")
            except TileError as error:
                refused.append(error)
                if isinstance(error, assembler.Unfinished):  # the other forms take as long
                    left[:] = sorted(filter(_may_end, left), key=_MAY_END_SOON.__contains__, reverse=True)
                if not left:
                    raise refused[0] from None
                raise CompileAgain(left[0], error.message) from error

        return compile_under(left[0], attempt)


_IN_ORDER, _WITHOUT_TMA, _WITHOUT_DIVISORS = "memory ops in program order", "no TMA", "no promises of divisibility"
_KEPT_LOADS, _NOT_OPTIMIZED = "loads that are not repeated", "no optimization"
_AHEAD = "operands loaded ahead of stores"  # where barriers may be missing: some kernels are taken so only
_WITHOUT_HINTS, _ONE_CTA, _USUAL_WARPS = "no hints", "one CTA", "the usual number of worker warps"
_MORE_WARPS = "8 worker warps"  # where code is too long for ptxas with as many elements in each thread
_HINTS = ("num_ctas", "occupancy", "num_worker_warps")  # the assembler ends without a word where it cannot keep them


# Ops that move elements of a tile to other indices: between the CTAs of a cluster, tileiras 13.5 loses some.
_MOVES: frozenset[type[Op]] = frozenset(
    (shape.Extract, shape.Insert, shape.Cat, shape.Permute, linear.Reduce, linear.Scan)
)


def _fallbacks(function: Function, architecture: str) -> Sequence[tuple[str, ...]]:
    """How to compile a kernel, and then, where the assembler refuses or does not end, with less freedom."""
    found: Sequence[tuple[str, ...]] = ((), (_IN_ORDER,), (_WITHOUT_TMA,), (_WITHOUT_DIVISORS,), (_KEPT_LOADS,))
    found = [*found, (_NOT_OPTIMIZED,), (_NOT_OPTIMIZED, _IN_ORDER), (_AHEAD,)]
    on_hopper = architecture.startswith("sm_90")
    wide = [] if on_hopper and _needs_usual_warps(function) else [(_MORE_WARPS,)]
    if not any(hint in function.hints for hint in _HINTS):
        return *found, *wide
    kept = _kept_hints(function, on_hopper=on_hopper)
    return *[(*kept, *fallback) for fallback in found], *[(_WITHOUT_HINTS, *fallback) for fallback in (*found, *wide)]


_MAY_END_SOON = ((_WITHOUT_HINTS,), (_MORE_WARPS,), (_WITHOUT_HINTS, _MORE_WARPS))


def _may_end(form: tuple[str, ...]) -> bool:
    """Whether the assembler may end with a form of a kernel where it did not with another."""
    return form in _MAY_END_SOON or _IN_ORDER in form or _NOT_OPTIMIZED in form


_WORKERS, _HELPERS = 4, 4  # warps that work on tiles, and for which tileiras leaves registers, in any case


def _waits(code: bytes, function: Function, architecture: str) -> bool:
    """Whether warps of ``code`` ask for registers that others never give back: with an occupancy, ``tileiras`` 13.5
    shares out those that four warps beside the workers leave, also where there are more."""
    if "occupancy" not in function.hints:
        return False
    hint = function.hints.get("num_worker_warps")
    warps = hint.resolve(architecture) if isinstance(hint, ByTarget) else hint
    return assembler.threads_of_few_registers(code) > 32 * ((warps or _WORKERS) + _HELPERS)


def _kept_hints(function: Function, *, on_hopper: bool) -> tuple[str, ...]:
    """What a kernel needs instead of its hints: with several CTAs ``tileiras`` 13.5 loses elements that move, also
    through memory, and has no end where a product is used in a ``loop``."""
    kinds = set(map(type, function.walk()))
    one = control.Loop in kinds and linear.Mma in kinds
    one = one or (on_hopper and (bool(kinds & _MOVES) or moves_through_memory(function)))
    usual = "num_worker_warps" in function.hints and on_hopper and _needs_usual_warps(function)
    return (*((_ONE_CTA,) if one and "num_ctas" in function.hints else ()), *((_USUAL_WARPS,) if usual else ()))


def _needs_usual_warps(function: Function) -> bool:
    """With 8 worker warps ``tileiras`` 13.5 masks two rows of accesses beside products alike, and loses elements that
    move through memory."""
    ops = list(function.walk())
    masks = [op.mask for op in ops if isinstance(op, (memory.Load, memory.Store))]
    product = any(isinstance(op, (linear.Mma, linear.MmaScaled)) for op in ops)
    return (product and any(m is not None and m.tile.rank > 1 for m in masks)) or moves_through_memory(function)


def _kernel(function: Function, variant: Any, fallback: Sequence[str]) -> Kernel:
    """What is exported as a variant and a fallback."""
    some = {"num_ctas": _ONE_CTA, "num_worker_warps": _USUAL_WARPS}
    dropped = _HINTS if _WITHOUT_HINTS in fallback else [name for name, form in some.items() if form in fallback]
    if dropped:
        hints = {name: value for name, value in function.hints.items() if name not in dropped}
        function = replace(function, hints=hints)
    if _MORE_WARPS in fallback:
        function = replace(function, hints={**function.hints, "num_worker_warps": 8})
    return Kernel(
        function,
        negative_strides=variant == UNUSUAL_ARRAYS,
        program_order=_IN_ORDER in fallback,
        tma=_WITHOUT_TMA not in fallback,
        divisors=_WITHOUT_DIVISORS not in fallback,
        keep_loads=_KEPT_LOADS in fallback,
        ahead=_AHEAD in fallback,
    )


class TileIRExecutable(GpuExecutable):
    """A kernel that the assembler compiled. A stride below 0 and an extent of 0 need the variant ``UNUSUAL_ARRAYS``:
    the assembler takes strides of 32 bits for numbers without a sign, and loads through the TMA unit, which takes
    neither, what lies in multiples of 16 bytes."""

    def __init__(self, function: Function, artifact: Artifact, variant: Any) -> None:
        def texts() -> Mapping[str, str]:
            needed = f"tileiras compiles it with: {', '.join(artifact.fallback) or 'all that it may'}\n"
            return {"compile decisions": needed, "CUDA Tile IR": print_module(read(export([kernel])))}

        kernel = _kernel(function, variant, artifact.fallback)
        super().__init__(function, artifact, Constraints(descriptors=False, realign=False), texts)
        if not kernel.negative_strides:
            least = {"stride": 0, "shape": 1}
            self.least = [(i, least[p.role]) for i, p in enumerate(function.params) if p.role in least]

    def _require(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> None:
        if any(arguments.values[i] < bound for i, bound in self.least):
            raise NeedsVariant(UNUSUAL_ARRAYS)
        super()._require(grid, arguments)


def _old_driver() -> str | None:
    found = driver.version()
    if found < _OLDEST_DRIVER:
        return (
            f"it needs a driver for CUDA 13.0 or later, which knows tile kernels, and this one is for CUDA "
            f"{found // 1000}.{found % 1000 // 10}"
        )
    return None


BACKEND = TileIRBackend()
