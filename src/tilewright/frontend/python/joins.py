"""What becomes of numbers where paths of control flow meet: scalars of run time, of these dtypes.

Whoever runs the source of a kernel as Python needs to know, because Python leaves numbers alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.frontend.python.values import Tile
from tilewright.ir.dtypes import DType
from tilewright.ir.location import Loc

Types = dict[str, DType]


class Joins:
    """For each location in the source, and each call that led there, the dtypes of joined variables by name."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int, int], dict[Loc | None, Types]] = {}

    def record(self, loc: Loc, before: list[Mapping[str, Any]], after: Mapping[str, Any]) -> None:
        """Paths with the variables ``before`` meet. The last record of a location counts: loops are traced again."""
        types = {
            name: value.dtype
            for name, value in after.items()
            if isinstance(value, Tile)
            and not value.ndim
            and not value.value.tile.is_pointer
            and any(isinstance(names.get(name), (bool, int, float)) for names in before)
        }
        self._found.setdefault((loc.file, loc.line, loc.column), {})[loc.caller] = types

    def at(self, loc: Loc) -> Types:
        """The dtypes on which all calls agree."""
        first, *rest = self._found.get((loc.file, loc.line, loc.column), {None: {}}).values()
        return {name: dtype for name, dtype in first.items() if all(types.get(name) is dtype for types in rest)}
