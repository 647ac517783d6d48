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
    LOCK_WORDS,
    LOCKS,
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
_CALLS = {
    "attend": ir.FunctionType(I1, [POINTER, POINTER, I64, I64]),
    "wait": ir.FunctionType(ir.VoidType(), [I64]),
    "lock": ir.FunctionType(I1, [POINTER, POINTER, POINTER]),
    "unlock": ir.FunctionType(ir.VoidType(), [POINTER]),
}
DECLARED = "declare i1 @attend(ptr, ptr, i64, i64)\ndeclare void @wait(i64)\n"
CALLING = ("block", "run")
CALLS = "declare i1 @run(ptr, ptr, ptr, ptr, i64, i64, i64)\n"


def called_driver(name: str) -> ir.Function:
    """A function of ``drivers.ll`` that a block calls."""
    return ir.Function(ir.Module(), _CALLS[name], name)


class Updates(NamedTuple):
    """How blocks update memory that others update, too."""

    swaps: bool = False  # by atomic instructions
    locks: bool = False  # by what is none, under a lock


def drivers(
    triple: str,
    symbol: str,
    forgets: Sequence[str],
    weight: int,
    *,
    only: bool,
    spins: bool,
    fences: bool,
    updates: Updates,
) -> Drivers:
    """What runs the blocks of a kernel, which do so much work each (``weight``). ``symbol`` names the entry point for
    threads that share them, which is the ``only`` one but for the watch, if blocks may wait for each other (``spins``).
    Instructions of their beginning: ``forgets``. ``fences``: blocks store past the caches."""
    run = _text("run", weight=min(weight, BUDGET), waited=_text("waited") if spins else "")
    run += _text("lock") if updates.locks else ""
    kind = "swapping" if updates.swaps else "locking" if updates.locks else None
    others = _others(triple, symbol, tuple(forgets), only=only, spins=spins, fences=fences, counted=kind)
    return Drivers(f"{run}\n", others)


@functools.lru_cache(maxsize=16)
def _others(
    triple: str, symbol: str, forgets: tuple[str, ...], *, only: bool, spins: bool, fences: bool, counted: str | None
) -> str:
    """``Drivers.others``, which most kernels of a process have in common; workers are ``counted`` as so updating."""
    processor = next((name for names, name in _PROCESSORS.items() if triple.startswith(names)), "other")
    fence = [_text(f"fence {processor}")] if fences and processor == "x86" else []
    join, part = (_text(name) if counted else "" for name in ("join", "part"))
    given = {
        "symbol": symbol,
        "begin": _text("begin", forget_panels=list(forgets), enter=_text(f"enter {processor}"), join=join),
        "end": _text("end", leave=[_text(f"leave {processor}"), *fence], part=part),
        "clock": _UPTIME_RAW if "apple" in triple else _MONOTONIC,
        **(_WINDOWS if "windows" in triple else _POSIX),
    }
    clock = "clock of Windows" if "windows" in triple else "clock"
    names = [f"declare {processor}", clock, "save_thread", "restore_thread", "attend", "work", "kernel"]
    if counted:
        names.append("count")
        given["workers"] = named_words()[f"exclusion_{counted}"]
    names += ["wait"] * (spins or not only or counted is not None) + ["watch"] * spins
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
        "lock_words": LOCK_WORDS,
        "locks": LOCKS,
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
