"""Aligned copies of arrays that the TMA unit cannot read where they are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tilewright.ir.core import Function
from tilewright.ir.gpu_parameters import Descriptor, Geometry
from tilewright.ir.parser import parse_function

_UNIT = 16  # bytes that addresses and strides are multiples of: CUDA Driver API, cuTensorMapEncodeTiled
_LINE = 128  # bytes of a line of the L2 cache: rows that start on one are read faster
# Bytes of an array per block of the grid up to which a copy pays: chosen, no measurement on record.
_WORTH_PER_BLOCK = 1 << 21
_REMEMBERED = 64  # layouts of a kernel
_TILE = 8, 256  # rows and elements; chosen, no measurement on record
_WIDEST = _TILE[1] * 65535  # elements of a row, of which the grid has that many tiles

# No word of how the copy is aligned: for stores of whole units the tile would have to change its layout, through shared
# memory, which takes longer than small stores do.
_KERNEL = """
func @align(%source: ptr<TYPE> = "source".base noalias, %copy: ptr<TYPE> = "copy".base noalias,
            %rows: i64 = "rows".scalar, %columns: i64 = "columns".scalar,
            %step: i64 = "step".scalar, %pitch: i64 = "pitch".scalar) {
  %i = bid() {axis = 0} : i32
  %j = bid() {axis = 1} : i32
  %x = make_tensor_view(%source, [%rows, %columns], [%step]) {type = !VIEW} : VIEW
  %xs = make_partition_view(%x) {type = !TILES} : TILES
  %tile = load_view(%xs, [%i, %j]) {in_bounds = (false, false), allow_tma = false} : TYPE[SHAPE]
  %y = make_tensor_view(%copy, [%rows, %columns], [%pitch]) {type = !VIEW} : VIEW
  %ys = make_partition_view(%y) {type = !TILES} : TILES
  store_view(%ys, %tile, [%i, %j]) {in_bounds = (false, false), allow_tma = false}
  return()
}
"""
OPTIONS: Mapping[str, Any] = {"num_warps": 4}  # of the backend, for that kernel


def kernel(item: int) -> Function:
    """What writes copies of arrays with elements of ``item`` bytes."""
    words = {
        "TILES": "partition<VIEW,[SHAPE],[0,1],undetermined,[SHAPE]>",
        "VIEW": "view<TYPE,[?,?],[?,1],i64>",
        "SHAPE": "{},{}".format(*_TILE),
        "TYPE": f"u{8 * item}",
    }
    text = _KERNEL
    for word, meaning in words.items():
        text = text.replace(word, meaning)
    return parse_function(text)


class Copy(NamedTuple):
    """One of an array of rank 2 at ``source``, with elements of ``item`` bytes, ``step`` of them from row to row."""

    source: int
    item: int
    rows: int
    columns: int
    step: int

    @property
    def pitch(self) -> int:
        """The bytes from row to row of the copy."""
        return -(-self.columns * self.item // _LINE) * _LINE

    @property
    def size(self) -> int:
        return max(self.pitch * self.rows, _LINE)

    @property
    def grid(self) -> tuple[int, int, int]:
        """That of ``kernel``."""
        rows, columns = (-(-n // tile) for n, tile in zip((self.rows, self.columns), _TILE))
        return rows, columns, 1

    def numbers(self, place: int) -> tuple[int, ...]:
        """What ``kernel`` takes to write the copy to ``place``."""
        return self.source, place, self.rows, self.columns, self.step, self.pitch // self.item

    def strides(self, d: Descriptor) -> tuple[int, ...]:
        """Those of the copy, in the order of the axes of the array."""
        outer, _ = d.axes
        return tuple(self.pitch // self.item if axis == outer else 1 for axis in range(2))


class Layout:
    """Where the TMA unit finds the arrays that ``descriptors`` describe in a launch with ``numbers``: those that it
    cannot read where they are, in ``copies``, which lie one after the other in ``size`` bytes of memory."""

    def __init__(
        self, descriptors: Sequence[Descriptor], metas: Sequence[Mapping[str, Any]], numbers: Mapping[int, int]
    ) -> None:
        self.copies: dict[Copy, int] = {}  # where each one starts
        self.size = 0
        self._arrays: list[tuple[bool, Geometry]] = []
        for d, meta in zip(descriptors, metas):
            array = d.geometry(numbers)
            copy = _copy_of(d, meta["elem_size"], *array)
            if copy is not None:
                if copy not in self.copies:
                    self.copies[copy], self.size = self.size, self.size + copy.size
                array = self.copies[copy], array[1], copy.strides(d)
            self._arrays.append((copy is not None, array))

    def arrays(self, start: int) -> list[Geometry]:
        """All arrays, with the copies from ``start`` on."""
        return [(start + base if moved else base, shape, strides) for moved, (base, shape, strides) in self._arrays]

    def pays(self, blocks: int) -> bool:
        """Whether the arrays are simple enough to be copied, and read often enough by ``blocks`` blocks."""
        return all(
            copy.columns <= min(copy.step, _WIDEST)
            and copy.rows * copy.columns * copy.item <= blocks * _WORTH_PER_BLOCK
            for copy in self.copies
        )


def layouts(descriptors: Sequence[Descriptor], metas: Sequence[Mapping[str, Any]]) -> Callable[[Sequence[Any]], Layout]:
    """What finds the layout of a launch among its numbers. It remembers the last ones."""
    read = {d.base for d in descriptors} | {
        i for d in descriptors for kind, i, _ in (*d.shape, *d.strides) if kind == "p"
    }

    @functools.lru_cache(_REMEMBERED)
    def layout(numbers: tuple[int, ...]) -> Layout:
        return Layout(descriptors, metas, dict(zip(read, numbers)))

    return lambda values: layout(tuple([values[i] for i in read]))


def _copy_of(d: Descriptor, item: int, base: int, shape: Sequence[int], strides: Sequence[int]) -> Copy | None:
    """That of the array which ``d`` describes; None where the TMA unit can read it where it is."""
    if not d.needs_realign or not (base % _UNIT or any(strides[axis] * item % _UNIT for axis in d.axes[:-1])):
        return None
    outer, inner = d.axes
    return Copy(base, item, shape[outer], shape[inner], strides[outer])
