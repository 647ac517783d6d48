"""What a kernel asks of an SM (registers, shared memory, clusters), and what is said where it lacks that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilewright.analysis.gpu.target import GpuTarget, most_registers
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.errors import TileError
from tilewright.ir.location import Loc
from tilewright.ir.opdef import Effect
from tilewright.ir.ops import arith, floats
from tilewright.ir.ops.linear import Mma, MmaScaled, Reduce, Scan
from tilewright.ir.ops.memory import AtomicCas, AtomicRmw, AtomicView, Load, LoadView, Store, StoreView
from tilewright.ir.ops.shape import Broadcast, Constant, Iota
from tilewright.ir.types import TileType, Type

# Words of a tile that a thread may have. What has no register is in memory. With twice as many, above all in long
# kernels, and with twice the accesses, compiling takes minutes: benchmarks/gpu_limits.py, results/constants.md there.
_MOST_WORDS = 1024
_MOST_WORDS_OF_MMA = 510
_MOST_WORDS_OF_LONG_KERNELS = 256
_MOST_ACCESSES = 320  # to memory, in the source of a kernel
_LONG = 17500  # instructions per thread

_MMA_OPS = (Mma, MmaScaled)
_ROWS = 64  # MMA ops of fewer rows have no accumulators in tensor memory: PTX ISA, shapes of tcgen05.mma

# Op -> instructions for each element, roughly; one for others. Loops count once.
_INSTRUCTIONS: dict[type[Op], int] = {
    **dict.fromkeys((Load, Store, LoadView, StoreView, floats.Exp, floats.Exp2, floats.Log, floats.Log2, Reduce), 3),
    **dict.fromkeys((arith.Div, arith.Rem, arith.Sqrt, floats.Rsqrt, floats.Tanh, AtomicRmw, AtomicCas, AtomicView), 8),
    **dict.fromkeys(
        (floats.Sin, floats.Cos, floats.Tan, floats.Pow, floats.Sinh, floats.Cosh, floats.Atan2, Scan, Mma, MmaScaled),
        30,
    ),
}


def register_words(op: Op) -> int:
    """Registers that the largest result of ``op`` takes."""
    return max(map(_value_words, op.results), default=0) if not isinstance(op, (Constant, Broadcast, Iota)) else 0


def _value_words(value: Value) -> int:
    t = value.type
    return t.size * (64 if t.is_pointer else t.element.bitwidth) // 32 if isinstance(t, TileType) else 0


def _largest_tile(function: Function) -> tuple[Type, Loc]:
    """The largest tile that an op computes, and where."""
    largest = max(function.walk(), key=lambda op: (register_words(op), not op.regions))
    return max(largest.results, key=_value_words).type, largest.loc


def enough_warps(function: Function, target: GpuTarget, num_warps: int) -> int:
    """``num_warps``, or the fewest more that have registers for every tile; ``num_warps`` where none have, or where a
    result of an MMA op has too few: with more warps it would have fewer in each thread."""
    warps = num_warps
    while found := list(_too_large(function, target, warps)):
        if warps >= target.most_warps or any(isinstance(op, _MMA_OPS) for op, _ in found):
            return num_warps
        warps *= 2
    return warps


def _too_large(function: Function, target: GpuTarget, num_warps: int) -> Iterator[tuple[Op, int]]:
    """The ops whose results take more registers of a thread than they may, and how many these may take."""
    threads = num_warps * target.warp_size
    long = sum(map(_instructions, function.walk())) > _LONG * threads
    for op in function.walk():
        most = _MOST_WORDS_OF_LONG_KERNELS if long else _MOST_WORDS
        if isinstance(op, _MMA_OPS):
            most = _MOST_WORDS_OF_MMA
        if register_words(op) > most * threads:
            yield op, most


def check_registers(function: Function, target: GpuTarget, num_warps: int) -> None:
    """TileError when a tile is too large for the registers of ``num_warps`` warps."""
    found = next(_too_large(function, target, num_warps), None)
    if found is None:
        return
    (op, most), threads = found, num_warps * target.warp_size
    tile = max(op.results, key=_value_words).type
    wider = register_words(op) <= most * target.most_warps * target.warp_size
    raise TileError(
        f"{function.name}(): the tile {tile} takes {register_words(op) // threads} registers of 32 bits "
        f"in each of the {threads} threads of a block, which have {most_registers(32 * num_warps)}; use smaller tiles"
        + (", or more threads (num_worker_warps)" if wider else ""),
        op.loc,
    )


def _instructions(op: Op) -> int:
    """How many instructions ``op`` takes in all threads of a block, roughly."""
    size = max((v.type.size for v in (*op.operands, *op.results) if isinstance(v.type, TileType)), default=0)
    fold = isinstance(op, Reduce) and not op.commutative  # it is a scan
    return size * (_INSTRUCTIONS[Scan] if fold else _INSTRUCTIONS.get(type(op), 1))


class CompilerFailure(TileError):
    """The compiler failed for no fault of the kernel."""


class AnalysisFailure(CompilerFailure):
    """The compiler failed as it found out more about indices than it can express."""


class OutOfRegisters(TileError):
    """The compiler found no room in the registers of a thread."""


def too_many_registers(function: Function, num_warps: int, limit: int | None, error: OutOfRegisters) -> TileError:
    """``error`` in the terms of the kernel, compiled with at most ``limit`` registers for a thread."""
    (largest, loc), registers = _largest_tile(function), most_registers(32 * num_warps)
    if limit is not None and limit < registers:
        needs, remedy = f"the {limit} registers of a thread that maxnreg or occupancy leave it", "a larger limit, "
    else:
        needs, remedy = f"the {registers} registers of a thread", ""
    return TileError(
        f"{function.name}() needs more than {needs}, with {num_warps} warps per block; its largest tile is "
        f"{largest}. Use {remedy}smaller tiles, or more warps (num_worker_warps); {error.message}",
        loc,
    )


def check_length(function: Function) -> None:
    """TileError when there are so many accesses that the compiler, which compares each with all, takes minutes."""
    accesses = [op for op in function.walk() if op.spec.effect & (Effect.READ | Effect.WRITE)]
    if len(accesses) > _MOST_ACCESSES:
        raise TileError(
            f"{function.name}() has {len(accesses)} loads, stores and atomics, and the GPU compiler takes minutes for "
            f"more than {_MOST_ACCESSES}; loop over range(...) instead of unrolling, or use more kernels",
            accesses[_MOST_ACCESSES].loc,
        )


class OutOfSharedMemory(Exception):
    """A block needs ``needed`` bytes, which is more than there are."""

    def __init__(self, needed: int) -> None:
        super().__init__(needed)
        self.needed = needed


def check_shared(function: Function, target: GpuTarget) -> None:
    """TileError when an operand of an MMA op is too large for shared memory, or both are where the tensor cores read
    them there, without asking the compiler: it would take minutes for some."""
    mmas: list[Any] = [op for op in function.walk() if isinstance(op, _MMA_OPS)]
    for op in mmas:
        loaded = [v for v in (op.x, op.y) if isinstance(v.op, (Load, LoadView))]
        sizes = [v.tile.bytes for v in loaded]
        both = target.has_tensor_memory and op.x.tile.shape[-2] >= _ROWS
        needed = sum(sizes) if both else max(sizes, default=0)
        if needed > target.shared_memory:
            raise TileError(
                f"{function.name}(): the operands {op.x.type} and {op.y.type} of an MMA op need {needed} bytes of "
                f"shared memory, and this GPU has {target.shared_memory} per block; use smaller tiles",
                op.loc,
            )


def too_much_shared(function: Function, needed: int, available: int) -> TileError:
    largest, loc = _largest_tile(function)
    return TileError(
        f"{function.name}() needs {needed} bytes of shared memory per block, and this GPU has {available}; its largest "
        f"tile is {largest}. Use smaller tiles, above all those that mma reads and those that are transposed, reshaped "
        "or gathered; where a loop loads, fewer num_stages may do",
        loc,
    )
