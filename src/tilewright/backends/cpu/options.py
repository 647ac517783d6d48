"""What can be chosen about a kernel on the CPU without changing what it computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.records import NamedTuple


class Options(NamedTuple):
    """``threads``: at most so many share the blocks of a launch. ``chunk``: so many blocks a thread takes at a time.

    None leaves the choice to the backend. Kernels whose blocks wait for each other take neither.
    """

    threads: int | None = None
    chunk: int | None = None

    @staticmethod
    def of(given: Mapping[str, Any]) -> Options:
        """ValueError for unknown names, and for anything but positive integers."""
        for name, value in given.items():
            if name not in Options._fields:
                raise ValueError(
                    f"the cpu backend has no option {name!r}; its options are {', '.join(Options._fields)}"
                )
            if type(value) is not int or value < 1:
                raise ValueError(f"the option {name} of the cpu backend is {value!r}; it must be a positive integer")
        return Options(**given)
