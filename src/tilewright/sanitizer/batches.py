"""Runs the blocks of a sanitized launch: in batches where that is possible, else one by one."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tilewright.backends.reference import access as reference
from tilewright.backends.reference.interpreter import Index
from tilewright.backends.reference.memory import Memory
from tilewright.ir.core import Value
from tilewright.sanitizer.block import CheckedBlock
from tilewright.sanitizer.events import AccessColumn, AccessTable, tell
from tilewright.sanitizer.launch import LaunchState
from tilewright.sanitizer.lockstep import FEWEST, Batch, Diverged, Observed
from tilewright.sanitizer.observation import READ, WRITE, remember
from tilewright.sanitizer.races import Thread
from tilewright.sanitizer.view_accesses import locate_inside, relaxed

_FRUITLESS = 2  # batches of which nothing ran together, after which no more are tried


class Blocks:
    """The blocks of a launch."""

    def __init__(self, grid: Index, memory: Memory, arguments: dict[Value, Any], state: LaunchState) -> None:
        self.grid, self.memory, self.arguments, self.state = grid, memory, arguments, state

    def one(self, index: Index) -> CheckedBlock:
        """A block by itself."""
        x, y, z = index
        thread = Thread(x + self.grid[0] * (y + self.grid[1] * z), index)
        return CheckedBlock(index, self.grid, self.memory, self.arguments, self.state, thread)

    def alone(self, indices: Iterable[Index], size: int) -> Iterator[CheckedBlock]:
        """The blocks that run by themselves, of ``indices`` in order; others run meanwhile, ``size`` at a time."""
        rest = iter(indices)
        fruitless = 0
        while size > 1 and fruitless < _FRUITLESS:
            chunk = list(itertools.islice(rest, size))
            if not chunk:
                return
            owners = self._together(chunk)
            fruitless = 0 if owners else fruitless + 1
            i = 0
            while i < len(chunk):
                if i not in owners:
                    yield self.one(chunk[i])
                    i += 1
                    continue
                batch, first = owners[i]
                last = first
                while owners.get(i) == (batch, last):
                    i, last = i + 1, last + 1
                self._finish(batch, chunk[i - (last - first) : i], first)
        yield from map(self.one, rest)

    def _together(self, chunk: Sequence[Index]) -> dict[int, tuple[Batch, int]]:
        """For each position in ``chunk``, where that block ran in a batch: the batch and the position there."""
        owners: dict[int, tuple[Batch, int]] = {}
        left = [np.arange(len(chunk))]
        while left:
            part = left.pop()
            if len(part) < FEWEST:
                continue
            batch = Batch([chunk[int(i)] for i in part], self.grid, self.memory, self.arguments, self.state)
            try:
                batch.run_together(self.state.function.body)
            except Diverged as parting:
                left += [part[positions] for positions in parting.parts]
                continue
            owners.update((int(i), (batch, position)) for position, i in enumerate(part))
        return owners

    def _finish(self, batch: Batch, indices: Sequence[Index], first: int) -> None:
        """Store what consecutive blocks of a batch store, the one at position ``first`` of it and those after it."""
        done = 0
        try:
            for index in indices:
                block = self.one(index)
                for seen in batch.accesses:
                    if seen.operands:
                        self._store(block, seen, first + done)
                done += 1
        finally:  # also where the first violation ends the launch
            if self.state.session.sinks and done:
                columns = [_column(seen, slice(first, first + done)) for seen in batch.accesses]
                order = self.state.take_orders(done * len(columns))
                tell(self.state.session.sinks, AccessTable(order, indices[:done], columns))

    def _store(self, block: CheckedBlock, seen: Observed, position: int) -> None:
        op = seen.op
        remember(block, op, WRITE, seen.array, seen.window(position), functools.partial(locate_inside, seen.inside))
        partition, value, *at = (x[position, ...] if v else x for x, v in zip(seen.operands, seen.varying))
        reference.store_view(self.memory, relaxed(op), [], partition, value, at)


def _column(seen: Observed, blocks: slice) -> AccessColumn:
    kind, array = WRITE if seen.operands else READ, seen.array
    distances = seen.first[blocks] - array.origin
    return AccessColumn(
        kind, seen.op.loc, array.number, array.origin, seen.padding, distances, seen.shape, seen.strides
    )
