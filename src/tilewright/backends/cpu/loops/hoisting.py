"""The pass that moves runtime checks out of loops."""

from __future__ import annotations

from typing import ClassVar

from tilewright.ir.core import Function
from tilewright.ir.effects import is_pure
from tilewright.ir.ops.loops import CheckLoad
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.licm import hoist


class HoistChecks(InPlacePass):
    """Moves checks of loads through pointers out of the loops of the kernel that they do not depend on.

    After versioning, which puts them in front of their nests. Nests stay: their buffers are free elsewhere in a loop.
    What a check reads from buffers the loop needs until it ends, so that it is there before the loop, too.
    """

    name: ClassVar[str] = "hoist-checks"

    def change(self, function: Function) -> bool:
        """Never fails."""
        # Of checks, those that read no arrays.
        return hoist(function.body, lambda op: isinstance(op, CheckLoad) and is_pure(op))
