"""What the interpreter reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.ir.core import Op
from tilewright.ir.errors import TileError

RACE = "race"
UNINITIALIZED = "uninitialized shared memory"
IN_FLIGHT = "read before arrival"
DEADLOCK = "deadlock"
OUT_OF_RANGE = "out of range"
REPLICAS = "replicas disagree"
MISALIGNED = "misaligned vector"


class Fault(TileError):
    """Something that a GPU would do wrong, or differently each time; ``category`` is one of the above."""

    def __init__(self, category: str, op: Op, message: str) -> None:
        super().__init__(f"{category}: {op.name} {message}", op.loc)
        self.category = category
        self.op = op


def in_range(op: Op, access: Callable[[], Any]) -> Any:
    """What ``access`` gives, which ``op`` makes. Fault where an address is out of range."""
    try:
        return access()
    except Fault:
        raise
    except TileError as error:
        raise Fault(OUT_OF_RANGE, op, error.message) from None
