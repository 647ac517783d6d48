"""What the language leaves to the compiler: warps, depth of pipelines, registers; guessed where nobody asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilewright.analysis.gpu.target import GpuTarget, resolved
from tilewright.backends.triton.resources import enough_warps, register_words
from tilewright.ir.core import Block, Function
from tilewright.ir.ops.linear import MmaOp

NAMES = ("num_warps", "num_stages", "maxnreg")


@dataclass(frozen=True)
class Options:
    """``num_stages`` is how many iterations of a loop have their loads in flight, ``maxnreg`` a limit of registers;
    with ``tensor_memory`` MMA ops have their accumulators there, where there is any."""

    num_warps: int = 4
    num_stages: int = 3
    maxnreg: int | None = None
    tensor_memory: bool = True

    def checked(self) -> Options:
        """ValueError for what no GPU has."""
        if self.num_warps not in (1, 2, 4, 8, 16, 32):
            raise ValueError(f"num_warps is {self.num_warps}; it must be 1, 2, 4, 8, 16 or 32")
        if not 1 <= self.num_stages <= 8:
            raise ValueError(f"num_stages is {self.num_stages}; it must be from 1 to 8")
        if self.maxnreg is not None and not 24 <= self.maxnreg <= 255:
            raise ValueError(f"maxnreg is {self.maxnreg}; it must be from 24 to 255")
        return self


def choose(function: Function, target: GpuTarget, given: Mapping[str, Any]) -> Options:
    """Options for ``function``: what ``given`` and the hints of the kernel say; the rest is guessed by its tiles."""
    unknown = [name for name in given if name not in NAMES]
    if unknown:
        raise ValueError(f"the triton backend has no option {unknown[0]!r}; its options are {', '.join(NAMES)}")
    options = guess(function)
    hints = {name: resolved(value, target) for name, value in function.hints.items()}
    if hints.get("num_worker_warps"):
        options = replace(options, num_warps=hints["num_worker_warps"])
    elif "num_warps" not in given:
        options = replace(options, num_warps=enough_warps(function, target, options.num_warps))
    options = replace(options, num_warps=min(options.num_warps, target.most_warps))
    options = replace(options, **dict(given)).checked()
    if options.num_warps > target.most_warps:
        raise ValueError(f"num_warps is {options.num_warps}; a block of {target.name} has at most {target.most_warps}")
    return options if target.is_cuda else replace(options, maxnreg=None)  # AMD's compiler has no such limit


# Words are 32-bit registers. The numbers were chosen for the kernels of benchmarks/gpu.py; what others give is in
# benchmarks/results/gpu_constants.md.
_WORDS = 16  # of the largest tile, per thread
_MMA_WORDS = 128  # of the results of the MMA ops of a block, per thread


def guess(function: Function) -> Options:
    """Few warps while tiles, or the results of MMA ops, fit their registers."""
    results: Counter[Block | None] = Counter()
    for op in function.ops_of(MmaOp):
        results[op.block] += op.results[0].tile.size
    if results:
        return Options(num_warps=4 if max(results.values()) <= 4 * 32 * _MMA_WORDS else 8)
    largest = max((register_words(op) for op in function.walk()), default=0)
    warps = 4
    while warps < 32 and largest > warps * 32 * _WORDS:
        warps *= 2
    return Options(num_warps=warps)
