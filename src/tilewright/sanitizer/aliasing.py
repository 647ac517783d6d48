"""Array arguments that share memory, which the Python language does not allow (data model, "Global Arrays")."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tilewright.backends.launch_arguments import Buffer
from tilewright.runtime.overlap import exposed
from tilewright.sanitizer.arrays import ArrayState
from tilewright.sanitizer.categories import CATEGORIES
from tilewright.sanitizer.launch import LaunchState
from tilewright.sanitizer.report import ElementReference, Violation

# After so many steps of the exact search, arrays whose ranges of bytes overlap count as disjoint.
_EFFORT: Any = 100_000


def check_arguments(launch: LaunchState) -> None:
    """Report each pair of arguments that have an element in common, of which the kernel writes one. Where arguments may
    alias, what they access is kept instead, for ``check_promises``."""
    for first, second in _pairs(launch):
        if launch.function.may_alias:
            first.accessed, second.accessed = {}, {}
        elif _share(first.buffer, second.buffer):
            _report(launch, first, second, max(first.buffer.low, second.buffer.low))


def check_promises(launch: LaunchState) -> None:
    """Report each pair of arguments, of which one is promised not to alias, through which the kernel has accessed one
    element, once to write it."""
    for first, second in _pairs(launch) if launch.function.may_alias else ():
        low = max(first.buffer.low, second.buffer.low)
        common = _accessed(first, second, True) & (_accessed(second, first, True) | _accessed(second, first, False))
        common |= _accessed(first, second, False) & _accessed(second, first, True)
        if common.any():
            _report(launch, first, second, low + int(np.flatnonzero(common)[0]))


def _pairs(launch: LaunchState) -> list[tuple[ArrayState, ArrayState]]:
    """The arguments whose memory may overlap, but for those that may."""
    promised = {p.argument for p in launch.function.params if p.no_alias}
    return [
        (first, second)
        for first, second in itertools.combinations(launch.arrays[: launch.arguments], 2)
        if (not launch.function.may_alias or promised & {first.buffer.name, second.buffer.name})
        and (first.tracked or second.tracked)  # two that are only read may be one
        and first.buffer.low < second.buffer.high
        and second.buffer.low < first.buffer.high
    ]


def _accessed(array: ArrayState, other: ArrayState, written: bool) -> Any:
    """For each byte that two arrays may have in common, whether it was written, or read, as one of ``array``."""
    a, b = array.buffer, other.buffer
    low, high = max(a.low, b.low), min(a.high, b.high)
    flags = (array.accessed or {}).get(written)
    if flags is None:
        return np.zeros(high - low, bool)
    return np.repeat(flags[(low - a.low) // array.unit : -(-(high - a.low) // array.unit)], array.unit)[
        (low - a.low) % array.unit :
    ][: high - low]


def _report(launch: LaunchState, first: ArrayState, second: ArrayState, address: int) -> None:
    a, b = first.buffer, second.buffer
    written = next((f", and the kernel writes '{x.buffer.name}'" for x in (second, first) if x.tracked), "")
    message = f"arguments '{a.name}' and '{b.name}' overlap in memory{written}"
    place: ElementReference = (first if first.tracked else second).place(address, a.dtype.bytes)
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
