"""What runs the blocks of a grid: the entry points of a kernel, and the functions that they and its blocks call.

They are the same for all kernels but for a few lines, and their text is in ``drivers.ll``.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from llvmlite import ir

from tilewright.backends.cpu.codegen.lanes import POINTER
from tilewright.backends.cpu.compiled import CALLER_SYMBOL, SERIAL_SYMBOL, TEAM_SYMBOL
from tilewright.backends.cpu.context import (
    BETWEEN_BLOCKS,
    ENDED,
    STUCK,
    STUCK_ITERATIONS,
    WAITS,
    WORKER_BYTES,
    Watch,
    named_words,
)
from tilewright.backends.native.templates import filled
from tilewright.backends.vector.types import I1, I64
from tilewright.records import NamedTuple

# In operations on elements, as ``block_work`` counts them: one takes 0.05 to 20 ns. Signals are to end a launch within
# 0.2 s (``benchmarks/soak.py interrupts`` prints how long they wait): with 20 ns, a budget and what is polled together
# take 21 ms and 0.2 ms, and what is not polled 1.3 ms.
BUDGET = 1 << 20  # between two looks at the clock
_LOOK_NS = 20_000_000  # signals wait so long at most, besides a budget
_UPTIME_RAW, _MONOTONIC = 8, 1  # clocks that ``time.monotonic_ns`` reads, on macOS and elsewhere
_SPINS = 1 << 12  # looks at threads that are about to end, before waiting lets others run: a few microseconds
_PATIENT = 256  # a loop that has waited for so many iterations sleeps between them, longer and longer
_SHORTEST_NAP_US, _LONGER_US, _LONGEST_NAP_US = 50, 2, 20000
# Blocks that change memory while they wait get more threads after so long. It is long, as loops are taken for waiting
# ones that work for as long and decide by what no atomic update of theirs gives them.
_WATCH_LOOP_NS = 250_000_000

_PROCESSORS = {("x86_64", "i686", "i386"): "x86", ("aarch64", "arm64"): "arm"}
_WINDOWS = {"sleep": "Sleep", "yield": "SwitchToThread", "nap": "1"}
_POSIX = {"sleep": "usleep", "yield": "sched_yield", "nap": "%microseconds"}


class Drivers(NamedTuple):
    """Text of LLVM IR that belongs to the module of a block."""

    run: str  # what calls the block
    others: str  # the rest, which takes little time


# What the module of a block, with ``run``, calls of the others, and what these call of it, where they lie in modules of
# their own.
CALLED = ("attend", "wait")
DECLARED = "declare i1 @attend(ptr, ptr, i64, i64)\ndeclare void @wait(i64)\n"
CALLING = ("block", "run")
CALLS = "declare i1 @run(ptr, ptr, ptr, ptr, i64, i64, i64)\n"


def called_driver(name: str) -> ir.Function:
    """The function ``attend`` or ``wait``, for calls."""
    type_ = (
        ir.FunctionType(I1, [POINTER, POINTER, I64, I64]) if name == "attend" else ir.FunctionType(ir.VoidType(), [I64])
    )
    return ir.Function(ir.Module(), type_, name)


def drivers(
    triple: str, symbol: str, forgets: Sequence[str], weight: int, *, only: bool, spins: bool, fences: bool
) -> Drivers:
    """What runs the blocks of a kernel, which do so much work each (``weight``). ``symbol`` names the entry point for
    threads that share them, which is the ``only`` one but for the watch, if blocks may wait for each other (``spins``).
    Instructions of their beginning: ``forgets``. ``fences``: blocks store past the caches."""
    run = _text("run", weight=min(weight, BUDGET), waited=_text("waited") if spins else "")
    return Drivers(f"{run}\n", _others(triple, symbol, tuple(forgets), only=only, spins=spins, fences=fences))


@functools.lru_cache(maxsize=16)
def _others(triple: str, symbol: str, forgets: tuple[str, ...], *, only: bool, spins: bool, fences: bool) -> str:
    """``Drivers.others``, which most kernels of a process have in common."""
    processor = next((name for names, name in _PROCESSORS.items() if triple.startswith(names)), "other")
    fence = [_text(f"fence {processor}")] if fences and processor == "x86" else []
    given = {
        "symbol": symbol,
        "begin": _text("begin", forget_panels=list(forgets), enter=_text(f"enter {processor}")),
        "end": _text("end", leave=[_text(f"leave {processor}"), *fence]),
        "clock": _UPTIME_RAW if "apple" in triple else _MONOTONIC,
        **(_WINDOWS if "windows" in triple else _POSIX),
    }
    clock = "clock of Windows" if "windows" in triple else "clock"
    names = [f"declare {processor}", clock, "save_thread", "restore_thread", "attend", "work", "kernel"]
    names += ["wait"] * (spins or not only) + ["watch"] * spins
    names += [] if only else [CALLER_SYMBOL, SERIAL_SYMBOL, TEAM_SYMBOL]
    return "\n".join([*(_text(name, **given) for name in names), ""])


def _text(section: str, **given: object) -> str:
    return filled(__file__, "drivers.ll", section, **_values(), **given)


@functools.cache
def _values() -> dict[str, object]:
    return {
        **named_words(),
        "watch_words": len(Watch),
        "worker_bytes": WORKER_BYTES,
        "between_blocks": BETWEEN_BLOCKS,
        "budget": BUDGET,
        "ended": ENDED,
        "look_ns": _LOOK_NS,
        "watch_loop_ns": _WATCH_LOOP_NS,
        "spins": _SPINS,
        "stuck": STUCK,
        "stuck_iterations": STUCK_ITERATIONS,
        "waits": WAITS,
        "patient": _PATIENT,
        "shortest_us": _SHORTEST_NAP_US,
        "longer_us": _LONGER_US,
        "longest_us": _LONGEST_NAP_US,
    }
