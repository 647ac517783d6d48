"""The memory of a launch as the sanitizer sees it: elements of arguments, and what is remembered of each."""

from __future__ import annotations

import functools
import math

import numpy as np

from tilewright.backends.launch_arguments import Buffer
from tilewright.backends.reference.memory import distance
from tilewright.backends.reference.values import Array
from tilewright.runtime.overlap import elements_overlap
from tilewright.sanitizer.report import ElementReference
from tilewright.sanitizer.windows import Lanes, Touched

# What is remembered of every element: the last access of each of these kinds (see ``races``), and the last release.
FIELDS = ("write", "strong", "strong_other", "read", "read_other", "released")
BYTES_PER_ELEMENT = 4 * len(FIELDS) + 1  # and one flag: whether it was never written


class ArrayState:
    """One buffer of the launch. Elements are counted in units of its dtype from its lowest address.

    The fields appear with the first access that needs them, so that untouched arrays cost nothing.
    """

    def __init__(self, number: int, buffer: Buffer, *, tracked: bool) -> None:
        self.number = number
        self.buffer = buffer
        self.unit = buffer.dtype.bytes
        self.tracked = tracked  # whether this launch may write it, so that accesses can conflict
        self.uninitialized: Array | None = None  # one flag per element
        self.accessed: dict[bool, Array] | None = None  # one flag per element, for writes and reads
        self.used: set[str] = set()
        self._fields: dict[str, Array] = {}

    @property
    def count(self) -> int:
        """The number of units."""
        return (self.buffer.high - self.buffer.low) // self.unit

    @property
    def origin(self) -> int:
        """The position of element 0."""
        return (self.buffer.address - self.buffer.low) // self.unit

    def field(self, name: str) -> Array:
        """The numbers kept under ``name``, one per element, zero at first."""
        found = self._fields.get(name)
        if found is None:
            found = self._fields[name] = np.zeros(self.count, np.int32)
            self.used.add(name)
        return found

    def note(self, touched: Touched, *, written: bool) -> None:
        """Keep what is accessed, if that is asked."""
        if self.accessed is not None:
            touched.fill(self.accessed.setdefault(written, np.zeros(self.count, bool)), True)

    def refine(self, size: int) -> None:
        """Count in units of ``size`` bytes from now on: the program accesses parts of elements."""
        factor = self.unit // size
        self.unit = size
        self._fields = {name: np.repeat(f, factor) for name, f in self._fields.items()}
        if self.uninitialized is not None:
            self.uninitialized = np.repeat(self.uninitialized, factor)
        if self.accessed is not None:
            self.accessed = {written: np.repeat(f, factor) for written, f in self.accessed.items()}

    def lanes(self, address: Array, size: int) -> Lanes:
        """The units of accesses of ``size`` bytes at ``address``; a wide access has several in a row."""
        if size < self.unit:
            self.refine(size)
        first = (address - self.buffer.low) // self.unit
        if size > self.unit:
            first = (first[:, None] + np.arange(size // self.unit)).reshape(-1)
        return Lanes(first)

    def place(self, address: int, size: int) -> ElementReference:
        """The element of the argument at ``address``, with how far it lies outside."""
        buffer = self.buffer
        shape, strides = buffer.shape, buffer.strides
        offset, rest = divmod(address - buffer.address, buffer.dtype.bytes)
        if shape is None or strides is None:
            shape, strides = ((buffer.high - buffer.low) // buffer.dtype.bytes,), (1,)
        index = [0] * len(shape)
        order = sorted(range(len(shape)), key=lambda k: -abs(strides[k]))
        remaining = offset
        for i, k in enumerate(order):
            step = strides[k]
            if step == 0 or shape[k] == 1:
                continue
            last = i == len(order) - 1 or all(strides[j] == 0 or shape[j] == 1 for j in order[i + 1 :])
            index[k] = remaining // step if last or step < 0 else math.floor(remaining / step)
            remaining -= index[k] * step
        if not shape:
            return ElementReference(buffer.name, (), (), distance(buffer, address, size))
        outside = ""
        for k, n in enumerate(shape):
            outside = outside or outside_axis(index[k], n, k)
        if not outside and (address < buffer.low or address + size > buffer.high):
            outside = distance(buffer, address, size)
        if rest:
            outside = outside or f"{rest} bytes into the element"
        return ElementReference(buffer.name, tuple(index), tuple(shape), outside)

    def element(self, position: int) -> ElementReference:
        """The element at a position."""
        return self.place(self.buffer.low + position * self.unit, self.unit)


def outside_axis(index: int, extent: int, axis: int) -> str:
    """How far ``index`` lies outside an axis, in words; empty when it is inside."""
    if index < 0:
        return f"{-index} element{'s' * (index != -1)} before the start of axis {axis}"
    if index >= extent:
        beyond = index - extent + 1
        return f"{beyond} element{'s' * (beyond != 1)} past the end of axis {axis}, which has {extent}"
    return ""


@functools.lru_cache(maxsize=256)
def injective(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether different indices of a strided array are different elements."""
    return not elements_overlap(shape, strides)
