"""What a kernel is compiled with and without, and why it is compiled again with something else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

_C = TypeVar("_C")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Constraints:
    """How a kernel is to be compiled. The defaults are what is tried first."""

    descriptors: bool = True  # tiles move through tensor descriptors; also: the grid may be another one
    realign: bool = True  # such tiles may be of re-aligned copies of arrays
    capacity: int = 0  # arrays that a table of a list has room for by value; 0: tables are passed as addresses
    sink_loads: bool = False  # loads are sunk to their first use
    stages: int = 0  # pipeline stages of MMA loops, without other variants; 0: they are chosen
    blocks: int = 0  # of the grid on an SM, at most; 0: many
    rows: tuple[int, ...] = ()  # at most how long those are whose lengths are these parameters; nothing: any
    steps: int = 0  # that rows have, at most, which several loops read, and which are one tile; 0: they stay loops
    hide_divisibility: bool = False  # Triton knows less about indices
    occupancy: bool = True  # registers are limited as the kernel asks
    join: tuple[int, int, int] | None = None  # blocks along each axis of the grid, whose tiles are one; None: by grid
    across: int = 0  # CTAs among which rows are divided; 0: as many as their length asks for
    ctas: int = 0  # on an SM, at most, whose warps load for themselves; 0: as many as suit

    def but(self, reason: str, **changed: Any) -> CompileAgain:
        """To be raised: ``changed`` takes the place of what failed, or is worse, for this ``reason``."""
        return CompileAgain(replace(self, **changed), reason)


class CompileAgain(Exception):
    """The kernel is to be compiled with other ``constraints``, of the kind that the backend has."""

    def __init__(self, constraints: Any, reason: str) -> None:
        super().__init__(reason)
        self.constraints = constraints
        self.reason = reason


def compile_under(constraints: _C, attempt: Callable[[_C, Sequence[str]], _T]) -> _T:
    """What ``attempt`` gives under ``constraints``, or under others that it asks for by ``CompileAgain``. It is given
    the reasons so far, too."""
    reasons: list[str] = []
    while True:
        try:
            return attempt(constraints, reasons)
        except CompileAgain as e:
            constraints = e.constraints
            reasons.append(e.reason)


def render_reasons(reasons: Sequence[str]) -> str:
    """Why a kernel was compiled again, for what shows its compile decisions."""
    return "".join(f"compiled again: {reason}\n" for reason in reasons)
