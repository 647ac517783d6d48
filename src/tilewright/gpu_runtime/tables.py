"""The memory of the tables of lists: what ``TableParameter`` says that a kernel reads."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.backends.launch_arguments import ListTable
from tilewright.gpu_runtime.artifact import Artifact
from tilewright.gpu_runtime.tensormap import MapEncoder
from tilewright.gpu_runtime.words import LIST, table
from tilewright.ir.gpu_parameters import MAP_ALIGNMENT, MAP_BYTES, TableParameter


class Tables:
    """Tables like ``lists``, of which machine code passes copies with the addresses of each launch to a kernel: by
    value, with room for as many arrays as the kernel takes, or in ``lent`` bytes of the device. ``rows`` is the table
    of ``LIST``. Unmapped where there is no tensor map of an array."""

    def __init__(self, artifact: Artifact, lists: Sequence[ListTable], device: int) -> None:
        self.lent = 0
        self._kept: list[Any] = [lists]
        self.rows = table([*self._described(artifact, lists, device)])

    def _described(self, artifact: Artifact, lists: Sequence[ListTable], device: int) -> Iterator[Sequence[int]]:
        for param, found in zip(artifact.tables, lists):
            count, place = len(found.rows), 0
            most, room = (max(count, artifact.capacity), 1) if param.by_value else (count, 0)
            if not param.by_value:
                place = self.lent or MAP_BYTES  # not 0, which stands for none
                self.lent = place + -(-count * param.entry_bytes // MAP_BYTES) * MAP_BYTES
            memory = (ctypes.c_uint8 * (most * param.entry_bytes + MAP_ALIGNMENT))()
            start = ctypes.addressof(memory)
            start += -start % MAP_ALIGNMENT
            first = most * param.map_bytes
            words, maps = (table(places) for places in _fill(param, found, start + first, first, device))
            self._kept += [memory, words, maps]
            packed = LIST.packed(
                offset=8 * param.index,
                room=room * most * param.entry_bytes,
                place=place,
                rows=place + first,
                begin=(most - count) * param.map_bytes,
                size=count * param.entry_bytes,
                source=start,
                words=ctypes.addressof(words),
                maps=ctypes.addressof(maps),
            )
            yield [*packed]


def _fill(
    param: TableParameter, found: ListTable, at: int, first: int, device: int
) -> tuple[list[Sequence[int]], list[Sequence[int]]]:
    """Write rows from an address on, and the maps in front of them: for each place of an address, and of a map that is
    not of nothing, a ``PATCH``, where the rows are ``first`` bytes behind the beginning."""
    words, maps = list[Sequence[int]](), list[Sequence[int]]()
    encoders = [MapEncoder(*described) for described in zip(param.descriptors, param.boxes)]
    for i, row in enumerate(found.filled()):
        there = i * row.nbytes
        ctypes.memmove(at + there, row.tobytes(), row.nbytes)
        words.append((there, first + there))
        for k, d in enumerate(param.descriptors):
            before = i * param.map_bytes + MAP_BYTES * (k + 1)
            encoders[k].encode(at - before, at + there, device)
            if 0 not in d.extents(row.tolist())[0]:
                maps.append((there, first - before))
    return words, maps
