"""Which passes each kind of backend runs, and why in this order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.core import Function
from tilewright.ir.rewrite import clone_function
from tilewright.ir.verifier import verify
from tilewright.system.environment import switch
from tilewright.transforms.base import InPlacePass, Pass
from tilewright.transforms.bounds_check_elimination import BoundsCheckElimination
from tilewright.transforms.canonicalize import Canonicalize
from tilewright.transforms.check_insertion import CheckInsertion
from tilewright.transforms.cse import CommonSubexpressions
from tilewright.transforms.dce import DeadCodeElimination
from tilewright.transforms.instrumentation import after_pass
from tilewright.transforms.keep_barriers import KeepBarriers
from tilewright.transforms.licm import LoopInvariantCodeMotion
from tilewright.transforms.narrow_integers import NarrowIntegers

# For backends that generate code, whose own passes may stand between the two parts.
SIMPLIFY: tuple[Pass, ...] = (
    Canonicalize(),  # first: front ends emit many constants and trivial conversions
    CommonSubexpressions(),  # after folding, equal index arithmetic and views have equal operands
)
HOIST: tuple[Pass, ...] = (
    LoopInvariantCodeMotion(),  # after CSE, so that one copy moves
    CommonSubexpressions(),  # what came out of two loops may be equal
    BoundsCheckElimination(),  # needs the folded indices and the merged views
    NarrowIntegers(),
    DeadCodeElimination(),  # last: the others leave unused ops behind
)
OPTIMIZE = (*SIMPLIFY, *HOIST)

# Before the export as CUDA Tile IR, whose compiler optimizes by itself.
TILE_IR: tuple[Pass, ...] = (KeepBarriers(),)


def add_checks(pointers: tuple[str, ...]) -> tuple[Pass, ...]:
    """Before these, for the checked mode; see ``CheckInsertion`` for ``pointers``."""
    return (
        Canonicalize(),  # what is known to hold needs no check
        CheckInsertion(pointers),
    )


def run_passes(
    function: Function, passes: Sequence[Pass], *, rules: Callable[[Function], None] | None = None
) -> Function:
    """``function`` after ``passes``, each of which is followed by ``after_pass``.

    ``function`` is not modified, but what a pass has made, the next may change in place.

    ``rules`` verifies what they make, beyond what every IR obeys, where verification is asked for.
    """
    verified = switch("TILEWRIGHT_VERIFY")
    if verified:
        verify(function)
    made, copied = function, None  # the copy of ``function`` that passes change in place
    for p in passes:
        if not isinstance(p, InPlacePass):
            made = p.run(made)
        elif made is not function:
            p.apply(made)
        else:
            copied = _copy(function) if copied is None else copied
            if p.apply(copied):
                made, copied = copied, None
        after_pass(p.name, made)
        if verified and rules is not None:
            rules(made)
    if copied is not None:  # nothing has changed it
        AnalysisManager(function).provide(_copy, copied)
    return made


def _copy(function: Function) -> Function:
    """A copy of ``function``: one that passes have left as it was, if there is one."""
    found: Function | None = function.analyses.pop((_copy, ()), None)
    if found is None:
        return clone_function(function)
    found.hints = dict(function.hints)
    return found


def optimize(function: Function) -> Function:
    """``function`` after the passes of ``OPTIMIZE``, which run once: it is not to be changed in place."""
    return AnalysisManager(function).get(run_passes, OPTIMIZE)
