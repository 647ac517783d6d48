"""Options for a kernel where nobody asked for any: by its tiles, its loops and the memory of the GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tilewright.analysis import mma_graph
from tilewright.analysis.gpu.target import SM_REGISTERS, GpuTarget, resolved
from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.trip_counts import max_trip_count
from tilewright.backends.triton.options import Options
from tilewright.backends.triton.resources import enough_warps, register_words
from tilewright.ir.core import Function
from tilewright.ir.dtypes import float32
from tilewright.ir.ops.linear import MmaOp

NAMES = ("num_warps", "num_stages", "maxnreg")


def choose(function: Function, target: GpuTarget, given: Mapping[str, Any]) -> Options:
    """Options for ``function``: what ``given`` and the hints of the kernel say; the rest is guessed by its tiles."""
    unknown = [name for name in given if name not in NAMES]
    if unknown:
        raise ValueError(f"the triton backend has no option {unknown[0]!r}; its options are {', '.join(NAMES)}")
    options = guess(function, target)
    hints = {name: resolved(value, target) for name, value in function.hints.items()}
    if hints.get("num_worker_warps"):
        options = replace(options, num_warps=hints["num_worker_warps"])
    elif "num_warps" not in given:
        options = replace(options, num_warps=enough_warps(function, target, options.num_warps))
    options = replace(options, num_warps=min(options.num_warps, target.most_warps))
    options = replace(options, **dict(given)).checked()
    if options.num_warps > target.most_warps:
        raise ValueError(f"num_warps is {options.num_warps}; a block of {target.name} has at most {target.most_warps}")
    if not target.is_cuda:
        return replace(options, maxnreg=None)  # AMD's compiler has no such limit
    occupancy = hints.get("occupancy")
    if occupancy and options.maxnreg is None and occupancy > 1:
        limit = SM_REGISTERS // (occupancy * 32 * options.num_warps) // 8 * 8
        options = replace(options, maxnreg=min(255, max(24, limit)), hinted=True)
    return options


def guess(function: Function, target: GpuTarget) -> Options:
    found = [op for op in function.walk() if isinstance(op, MmaOp)]
    if found:
        return _guess_mma(function, found, target)
    largest = max((register_words(op) for op in function.walk()), default=0)
    warps = 4
    while warps < 32 and largest > warps * 32 * _WORDS:
        warps *= 2
    return Options(num_warps=warps)


# Words are 32-bit registers. The numbers were chosen for the kernels of benchmarks/gpu.py; what others give is in
# benchmarks/results/gpu_constants.md.
_WORDS = 16  # of the largest tile, per thread
_MMA_WORDS = 192  # of all results of MMA ops, per thread
_RECURRENT_WORDS = 224  # where one block is all that an SM has
_WIDE_WORDS, _NARROW_WORDS = 96, 128  # where a loop has one MMA op, of elements of 32 and of 16 bits
_FEW_RESULTS = 128 * 128
_THIN = 32  # rows or columns of a result that needs few MMA ops for what it loads
_FEW_STAGES, SHALLOW, _MOST_STAGES, _DEEPEST = 2, 3, 4, 8
_RESERVED = 1024  # bytes of shared memory of each block that CUDA takes: NVIDIA Hopper Tuning Guide, shared memory


def _guess_mma(function: Function, found: list[MmaOp], target: GpuTarget) -> Options:
    """Few warps while the results fit their registers. An MMA loop whose ops do not wait for each other hides its
    loads by a deep pipeline, one with others, such as attention, by several blocks per SM."""
    loops = mma_graph.mma_loops(function)
    groups = [mma_graph.mma_ops(loop) for loop in loops] or [found]
    results = max(map(mma_graph.live_accumulators, loops)) if loops else sum(op.results[0].tile.size for op in found)
    wide = any(op.x.tile.element.bitwidth > 16 for op in found)
    recurrent = any(map(mma_graph.is_recurrent, loops))
    if all(len(group) == 1 for group in groups):
        limit = _WIDE_WORDS if wide else _NARROW_WORDS
    else:
        limit = _RECURRENT_WORDS if recurrent else _MMA_WORDS
    warps = 4 if results <= 4 * 32 * limit else 8
    loaded = max([1, *map(mma_graph.loaded_bytes, loops)])
    apart = mma_graph.are_independent(groups)
    most, room = _MOST_STAGES, target.shared_memory
    if apart and min(found[0].results[0].tile.shape[-2:]) <= _THIN:
        most, room = _DEEPEST, room // 2  # what limits such MMA ops is memory
    elif apart and results <= _FEW_RESULTS and 2 * SHALLOW * loaded <= room:
        most = SHALLOW  # another block fits
    elif not apart and any(op.x.tile.element is float32 for op in found):
        most = _FEW_STAGES  # threads multiply, for which few warps suffice if loads do not wait
    elif not (apart or recurrent) and warps == 4:
        room = room // 2 - mma_graph.loaded_before(function)
    return Options(num_warps=warps, num_stages=max(1, min(most, room // loaded)))


def depths_of_few_blocks(function: Function, target: GpuTarget, stages: int, shared: int) -> tuple[int, int]:
    """How many stages there is room for where no more than one or two blocks are on an SM, which then load
    ahead too little to keep the memory busy; 0 where that is not more than the ``stages``, which need ``shared`` bytes
    with all else."""
    loops = mma_graph.mma_loops(function)
    loaded = max(map(mma_graph.loaded_bytes, loops), default=0)
    # Bytes: fewer than none where tiles go through registers, with a stage less, or where loads are not pipelined.
    others = shared - stages * loaded
    if (
        not (loaded and target.has_wgmma and mma_graph.are_independent([mma_graph.mma_ops(loop) for loop in loops]))
        or others <= -loaded
    ):
        return 0, 0
    if any(map(mma_graph.is_recurrent, loops)):
        return 0, 0
    facts = AnalysisManager(function).get(IntegerRanges)
    most = min(_DEEPEST, max(max_trip_count(facts, loop) for loop in loops))
    room = [(target.shared_memory + _RESERVED) // blocks - _RESERVED for blocks in (1, 2)]
    one, two = (min(most, (available - others) // loaded) for available in room)
    return one if one > stages else 0, two if two > stages else 0
