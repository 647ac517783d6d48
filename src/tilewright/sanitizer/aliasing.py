"""Array arguments that share memory, which the Python language does not allow (data model, "Global Arrays")."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tilewright.backends.launch_arguments import Buffer
from tilewright.runtime.overlap import exposed
from tilewright.sanitizer.categories import CATEGORIES
from tilewright.sanitizer.launch import LaunchState
from tilewright.sanitizer.report import ElementReference, Violation

# After so many steps of the exact search, arrays whose ranges of bytes overlap count as disjoint.
_EFFORT: Any = 100_000


def check_arguments(launch: LaunchState) -> None:
    """Report each pair of arguments that have an element in common, of which the kernel writes one; where arguments may
    alias, of which one is promised not to."""
    promised = {p.argument for p in launch.function.params if p.no_alias}
    for first, second in itertools.combinations(launch.arrays, 2):
        a, b = first.buffer, second.buffer
        if launch.function.may_alias and not promised & {a.name, b.name}:
            continue
        if not (first.tracked or second.tracked):
            continue  # two that are only read may be one
        if a.low >= b.high or b.low >= a.high or not _share(a, b):
            continue
        written = next((f", and the kernel writes '{x.buffer.name}'" for x in (second, first) if x.tracked), "")
        message = f"arguments '{a.name}' and '{b.name}' overlap in memory{written}"
        low = max(a.low, b.low)
        place: ElementReference = (first if first.tracked else second).place(low, a.dtype.bytes)
        function = launch.function
        launch.session.add(
            Violation(CATEGORIES["overlapping-arguments"], message, function.name, function.loc, place=place)
        )


def _share(a: Buffer, b: Buffer) -> bool:
    try:
        return np.shares_memory(_array(a), _array(b), max_work=_EFFORT)
    except np.exceptions.TooHardError:
        return False


def _array(buffer: Buffer) -> np.ndarray[Any, Any]:
    size = buffer.dtype.bytes
    shape = buffer.shape if buffer.shape is not None else ((buffer.high - buffer.low) // size,)
    strides = tuple(s * size for s in buffer.strides) if buffer.strides is not None else (size,)
    return exposed(buffer.address, shape, strides, size)
