"""Records the memory accesses of sanitized launches in a compact form."""

from __future__ import annotations

import math
from array import array as numbers
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.backends.launch_arguments import Buffer
from tilewright.ir.location import Loc
from tilewright.sanitizer import Access, Launch, Violation
from tilewright.view.layout import box_number, element_numbers, elements_of, shape_of

_MOST_VALUES = 1 << 18  # of an array whose values are kept: 2 MB of float64 before they are compressed
KINDS = ("read", "write", "atomic")
# Columns of a recorded access, and of a group of its elements: ``count`` runs of ``length`` elements each, which
# start at ``start``, ``start + step``, ...
EVENT_COLUMNS = ("kind", "block", "place", "array", "padding", "group")
GROUP_COLUMNS = ("start", "length", "count", "step")


@dataclass(frozen=True)
class Mark:
    """A violation: the number of its access, or None; and the element of an array that it is about."""

    violation: Violation
    event: int | None
    array: int | None
    element: int | None


@dataclass
class Recording:
    """One launch. ``events`` and ``groups`` hold their columns row by row; ``places`` are what ``place`` indexes."""

    kernel: str
    grid: tuple[int, int, int]
    arrays: Sequence[Buffer]
    events: Any = field(default_factory=lambda: numbers("i"))
    groups: Any = field(default_factory=lambda: numbers("i"))
    places: dict[Loc, int] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    dropped: int = 0  # accesses after the limit
    values: dict[int, np.ndarray[Any, Any]] = field(default_factory=dict)  # of small arrays, after the launch

    @property
    def event_count(self) -> int:
        return len(self.events) // len(EVENT_COLUMNS)

    def place(self, loc: Loc) -> int:
        """The number of a place in the source."""
        return self.places.setdefault(loc, len(self.places))


class Recorder:
    """A sink for ``ct.sanitize``. Memory is bounded: after ``limit`` accesses and groups no more are recorded."""

    def __init__(self, limit: int = 4_000_000) -> None:
        self.recordings: list[Recording] = []
        self._left = limit
        self._found: list[Violation] = []  # by the access that comes next, perhaps
        # The groups of the boxes of each shape in each array of the launch, counted from the first element.
        self._boxes: dict[tuple[int, tuple[int, ...], tuple[int, ...]], np.ndarray[Any, Any]] = {}

    def launch(self, event: Launch) -> None:
        self._settle()
        self._boxes.clear()
        self.recordings.append(Recording(event.kernel, event.grid, list(event.arrays)))

    def finished(self) -> None:
        recording = self.recordings[-1]
        for i, array in enumerate(recording.arrays):
            if math.prod(shape_of(array)) <= _MOST_VALUES and array.shape is not None:
                recording.values[i] = elements_of(array)

    def violation(self, violation: Violation) -> None:
        self._found.append(violation)

    def access(self, event: Access) -> None:
        recording = self.recordings[-1]
        if self._left <= 0:
            recording.dropped += 1
            self._settle()
            return
        groups = self._groups(recording.arrays[event.array], event)
        self._left -= 1 + len(groups)
        self._settle(event)
        x, y, z = event.block
        block = x + recording.grid[0] * (y + recording.grid[1] * z)
        first = len(recording.groups) // len(GROUP_COLUMNS)
        kind = KINDS.index(event.kind)
        recording.events.extend((kind, block, recording.place(event.loc), event.array, event.padding, first))
        recording.groups.frombytes(groups.tobytes())

    def _groups(self, array: Buffer, event: Access) -> np.ndarray[Any, Any]:
        """The elements of an access, as ``runs`` groups them."""
        box = event.box
        number = None if box is None else box_number(array, *box)
        if box is None or number is None:
            return runs(element_numbers(array, event.elements))
        key = event.array, *box[1:]
        found = self._boxes.get(key)
        if found is None:
            found = runs(element_numbers(array, event.elements))
            found[:, 0] -= number
            self._boxes[key] = found
        groups = found.copy()
        groups[:, 0] += number
        return groups

    def finish(self) -> list[Recording]:
        """Everything recorded; call it when the launches have ended."""
        self._settle()
        return self.recordings

    def _settle(self, access: Access | None = None) -> None:
        """Attribute violations to the access that follows them, if it is theirs."""
        for violation in self._found:
            recording = self.recordings[-1]
            theirs = access is not None and (access.loc, access.block) == (violation.loc, violation.block)
            event = recording.event_count if theirs else None
            recording.marks.append(Mark(violation, event, *_place(recording, violation)))
            recording.place(violation.loc)
        self._found.clear()


def runs(elements: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Groups of the sorted ``elements``, as rows of ``GROUP_COLUMNS``: one for a window of a matrix."""
    if not elements.size:
        return np.empty((0, len(GROUP_COLUMNS)), np.int32)
    first = np.flatnonzero(np.r_[True, np.diff(elements) != 1])
    starts = elements[first]
    lengths = np.diff(np.r_[first, elements.size])
    steps = np.diff(starts)
    if len(starts) > 1 and (lengths == lengths[0]).all() and (steps == steps[0]).all():
        return np.array([[starts[0], lengths[0], len(starts), steps[0]]], np.int32)
    ones = np.ones_like(starts)
    return np.stack([starts, lengths, ones, 0 * ones], axis=1).astype(np.int32)


def _place(recording: Recording, violation: Violation) -> tuple[int | None, int | None]:
    """The array and the element that a violation is about; no element when it lies outside."""
    place = violation.place
    if place is None:
        return None, None
    found = next((i for i, a in enumerate(recording.arrays) if a.name == place.argument), None)
    inside = len(place.index) == len(place.shape) and all(0 <= i < n for i, n in zip(place.index, place.shape))
    if found is None or not inside or recording.arrays[found].shape != place.shape:
        return found, None
    return found, int(np.ravel_multi_index(place.index, place.shape)) if place.shape else 0
