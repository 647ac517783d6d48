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
from tilewright.sanitizer import Access, AccessColumn, AccessTable, Launch, Violation
from tilewright.sanitizer.report import Index
from tilewright.sanitizer.windows import elements_of
from tilewright.viewer.layout import box_numbers, element_numbers, shape_of, values_of

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
    """One launch. ``events`` and ``groups`` hold their columns row by row; ``locations`` are what ``place`` indexes."""

    kernel: str
    grid: tuple[int, int, int]
    arrays: Sequence[Buffer]
    events: Any = field(default_factory=lambda: numbers("i"))
    groups: Any = field(default_factory=lambda: numbers("i"))
    locations: dict[Loc, int] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    dropped: int = 0  # accesses after the limit
    values: dict[int, np.ndarray[Any, Any]] = field(default_factory=dict)  # of small arrays, after the launch

    @property
    def event_count(self) -> int:
        return len(self.events) // len(EVENT_COLUMNS)

    @property
    def group_count(self) -> int:
        return len(self.groups) // len(GROUP_COLUMNS)

    def number_of(self, loc: Loc) -> int:
        """The number of a location in the source."""
        return self.locations.setdefault(loc, len(self.locations))


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
                recording.values[i] = values_of(array)

    def violation(self, violation: Violation) -> None:
        self._found.append(violation)

    def access(self, event: Access) -> None:
        if self._left <= 0:
            self.recordings[-1].dropped += 1
            self._settle()
            return
        box = event.box
        groups = None if box is None else self._boxes_at(event.array, np.array(box[:1], np.int64), *box[1:])
        if groups is None:
            groups = runs(element_numbers(self.recordings[-1].arrays[event.array], event.elements))[None]
        self._append([event.block], [event], [groups])

    def accesses(self, table: AccessTable) -> None:
        groups = [self._boxes_at(c.array, c.first, c.shape, c.strides) for c in table.columns]
        known = [g for g in groups if g is not None]
        cost = sum(1 + g.shape[1] for g in known)
        whole = 0 if len(known) < len(groups) else min(len(table.blocks), self._left // cost) if cost else 0
        if whole:
            self._append(table.blocks[:whole], table.columns, [g[:whole] for g in known])
        done = whole * len(table.columns)
        for event in table.accesses(whole):  # what the limit cuts, and arrays whose elements meet
            if self._left <= 0:
                break
            self.access(event)
            done += 1
        self.recordings[-1].dropped += len(table.blocks) * len(table.columns) - done
        self._settle()

    def _append(
        self, blocks: Sequence[Index], columns: Sequence[Access | AccessColumn], groups: Sequence[np.ndarray[Any, Any]]
    ) -> None:
        """Record the accesses of ``blocks``, those of one block after the other.

        ``groups`` holds, for each of ``columns``, the rows of ``GROUP_COLUMNS`` of every block.
        """
        recording = self.recordings[-1]
        counts = [g.shape[1] for g in groups]
        x, y, z = np.array(blocks, np.int64).T
        number = x + recording.grid[0] * (y + recording.grid[1] * z)
        first = recording.group_count + np.arange(len(blocks)) * sum(counts)
        events = np.empty((len(blocks), len(columns), len(EVENT_COLUMNS)), np.int32)
        for i, c in enumerate(columns):
            fixed = KINDS.index(c.kind), 0, recording.number_of(c.loc), c.array, c.padding, sum(counts[:i])
            events[:, i] = fixed
        events[:, :, 1] = number[:, None]
        events[:, :, -1] += first[:, None].astype(np.int32)
        self._settle(events.reshape(-1, len(EVENT_COLUMNS)))
        recording.events.frombytes(events.tobytes())
        recording.groups.frombytes(np.concatenate(groups, axis=1).astype(np.int32).tobytes())
        self._left -= len(blocks) * (len(columns) + sum(counts))

    def _boxes_at(
        self, array: int, distances: np.ndarray[Any, Any], shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> np.ndarray[Any, Any] | None:
        """The groups of each box that begins at one of ``distances``; None where those are no boxes."""
        buffer = self.recordings[-1].arrays[array]
        numbers = box_numbers(buffer, distances, shape, strides)
        if numbers is None:
            return None
        key = array, shape, strides
        found = self._boxes.get(key)
        if found is None:
            found = runs(element_numbers(buffer, elements_of(int(distances[0]), shape, strides)))
            found[:, 0] -= numbers[0]
            self._boxes[key] = found
        groups = np.repeat(found[None], len(numbers), axis=0)
        groups[:, :, 0] += numbers[:, None].astype(np.int32)
        return groups

    def finish(self) -> list[Recording]:
        """Everything recorded; call it when the launches have ended."""
        self._settle()
        return self.recordings

    def _settle(self, events: np.ndarray[Any, Any] | None = None) -> None:
        """Attribute violations to the access that is theirs, of those that follow them."""
        for violation in self._found:
            recording = self.recordings[-1]
            event, source = None, recording.number_of(violation.loc)
            if events is not None and violation.block is not None:
                x, y, z = violation.block
                number = x + recording.grid[0] * (y + recording.grid[1] * z)
                theirs = np.flatnonzero((events[:, 1] == number) & (events[:, 2] == source))
                event = recording.event_count + int(theirs[0]) if theirs.size else None
            recording.marks.append(Mark(violation, event, *_element_of(recording, violation)))
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


def _element_of(recording: Recording, violation: Violation) -> tuple[int | None, int | None]:
    """The array and the element that a violation is about; no element when it lies outside."""
    place = violation.place
    if place is None:
        return None, None
    found = next((i for i, a in enumerate(recording.arrays) if a.name == place.argument), None)
    inside = len(place.index) == len(place.shape) and all(0 <= i < n for i, n in zip(place.index, place.shape))
    if found is None or not inside or recording.arrays[found].shape != place.shape:
        return found, None
    return found, int(np.ravel_multi_index(place.index, place.shape)) if place.shape else 0
