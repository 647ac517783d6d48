"""What happens after every pass, whichever pipeline it belongs to: the verifier, and printing."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from tilewright.ir.core import Function
from tilewright.ir.printer import print_function
from tilewright.ir.verifier import verify
from tilewright.system.environment import SettingError, switch, variable

Observer = Callable[[str, Function], None]  # of the name of a pass and what the pass gave

# All passes of all pipelines: what TILEWRIGHT_PRINT_IR may name.
PASSES = (
    "canonicalize",
    "cse",
    "licm",
    "eliminate-bounds-checks",
    "narrow-integers",
    "join-blocks",
    "repeat-blocks",
    "dce",
    "insert-checks",
    "insert-null-checks",
    "clip-views",
    "keep-barriers",
    "pack-bits",
    "unroll-short-loops",
    "raise-to-views",
    "interleave-cats",
    "approximate-exponentials",
    "block-along-k",
    "merge-reductions",
    "sink-stores",
    "split-rows",
    "fuse-loop-nests",
    "version-nests",
    "hoist-checks",
    "vectorize-nests",
    "trim-stores",
    "stream-stores",
    "pack-panels",
    "contract-fma",
    "sink-loads",
    "lower-reports",
    "lower-mma-scaled",
    "lower-packing",
    "expand-views",
    "merge-loops",
    "skip-masks",
    "drop-unit-batches",
    "induction-variables",
    "unroll-mma",
    "widen-steps",
    "transpose-mma",
    "legalize-mma",
    "choose-wgmma",
    "multicast-fetches",
    "rotate-mma",
    "hoist-mma",
    "defer-accumulators",
    "delay-exponentials",
    "lower-views",
    "assign-layouts",
    "lower-reductions",
    "inline-fetches",
    "specialize-warps",
    "stage-stores",
    "pipeline-loads",
    "load-left-operands",
    "prefetch-loads",
    "prefetch-rows",
    "flatten-loops",
    "expand-grid-stride-loops",
    "bound-parameters",
    "split-blocks",
    "join-steps",
    "divide-rows",
    "order-blocks",
    "merge-blocks",
    "pair-accesses",
    "duplicate-loads",
    "partial-maxima",
    "gather-atomics",
    "partial-sums",
    "split-fma",
    "share-operands",
    "accumulate-in-tensor-memory",
    "split-mma",
    "split-steps",
    "lower-gathers",
    "lower-conversions",
    "allocate-shared",
    "insert-barriers",
)
_observers: list[Observer] = []


def after_pass(name: str, function: Function) -> None:
    """Verify ``function``, which the pass ``name`` gave, with ``TILEWRIGHT_VERIFY=1``, and print it to the standard
    error where ``TILEWRIGHT_PRINT_IR`` is ``all`` or names the pass."""
    assert name in PASSES, name
    if _is_printed(name):
        print(f"// {function.name} after {name}\n{print_function(function)}", file=sys.stderr, flush=True)
    for observer in _observers:
        observer(name, function)
    if switch("TILEWRIGHT_VERIFY"):
        verify(function)


def passes_are_watched() -> bool:
    """Whether somebody wants to see the passes run: what a cache has, no pass makes."""
    return bool(_observers or variable("TILEWRIGHT_PRINT_IR"))


@contextlib.contextmanager
def observed_passes(observer: Observer) -> Iterator[None]:
    """A context in which ``observer`` sees what each pass gives, on whichever thread."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def _is_printed(name: str) -> bool:
    text = variable("TILEWRIGHT_PRINT_IR")
    if not text:
        return False
    wanted = [word.strip() for word in text.split(",")]
    unknown = [word for word in wanted if word != "all" and word not in PASSES]
    if unknown:
        known = ", ".join(PASSES)
        raise SettingError(f"TILEWRIGHT_PRINT_IR={text!r}: no pass is called {unknown[0]!r}; all, or {known}")
    return "all" in wanted or name in wanted
