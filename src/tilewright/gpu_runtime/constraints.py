"""What a kernel is compiled with and without, and why it is compiled again with something else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Constraints:
    """How a kernel is to be compiled. The defaults are what is tried first."""

    descriptors: bool = True  # tiles move through tensor descriptors; also: the grid may be another one
    realign: bool = True  # such tiles may be of re-aligned copies of arrays
    multicast: bool = True  # pairs of CTAs may share loads
    capacity: int = 0  # arrays that a table of a list has room for by value; 0: tables are passed as addresses
    sink_loads: bool = False  # loads are sunk to their first use
    stages: int = 0  # pipeline stages of MMA loops, without other variants; 0: they are chosen
    hide_divisibility: bool = False  # Triton knows less about indices

    def but(self, reason: str, **changed: Any) -> CompileAgain:
        """To be raised: ``changed`` takes the place of what failed, or is worse, for this ``reason``."""
        return CompileAgain(replace(self, **changed), reason)


class CompileAgain(Exception):
    """The kernel is to be compiled with other ``constraints``."""

    def __init__(self, constraints: Constraints, reason: str) -> None:
        super().__init__(reason)
        self.constraints = constraints
        self.reason = reason
