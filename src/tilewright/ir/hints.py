"""Optimization hints with a value per GPU architecture."""

from __future__ import annotations

import re
from typing import Any

_TARGET = re.compile(r"sm_\d+\Z")


class _Unspecified:
    """The absence of a default, which is different from a default of None."""

    def __repr__(self) -> str:
        return "UNSPECIFIED"


UNSPECIFIED = _Unspecified()


class ByTarget:
    """A hint value that depends on the GPU architecture.

    ``ByTarget(default=2, sm_90=4)`` is 4 on sm_90 and 2 elsewhere; without ``default`` the option's own
    default holds elsewhere. Keys other than ``sm_<digits>`` raise ValueError.

    >>> ct.ByTarget(default=2, sm_90=4).resolve("sm_90")
    4
    """

    __slots__ = ("default", "values")

    def __init__(self, *, default: Any = UNSPECIFIED, **value_by_target: Any) -> None:
        for key in value_by_target:
            if not _TARGET.match(key):
                raise ValueError(f"ByTarget: {key!r} is not an architecture; write a key such as sm_90 or sm_100")
        self.default = default
        self.values = dict(sorted(value_by_target.items()))

    def resolve(self, target: str | None, fallback: Any = None) -> Any:
        """The value for ``target`` (``"sm_90"``, or None where there is no GPU)."""
        if target in self.values:
            return self.values[target]
        return fallback if self.default is UNSPECIFIED else self.default

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ByTarget):
            return NotImplemented
        return self.values == other.values and (self.default is other.default or self.default == other.default)

    def __hash__(self) -> int:
        return hash((tuple(self.values.items()), self.default))

    def __repr__(self) -> str:
        parts = [] if self.default is UNSPECIFIED else [f"default={self.default!r}"]
        parts += [f"{key}={value!r}" for key, value in self.values.items()]
        return f"ByTarget({', '.join(parts)})"
