"""Aligned copies, also transposed ones, of arrays that the TMA unit or an instruction cannot read where they are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tilewright.ir.core import Function
from tilewright.ir.gpu_parameters import Descriptor, Geometry
from tilewright.ir.parser import parse_function

_UNIT = 16  # bytes that addresses and strides are multiples of: CUDA Driver API, cuTensorMapEncodeTiled
_LINE = 128  # bytes of a line of the L2 cache: rows that start on one are read faster
# Bytes of an array per block of the grid up to which a copy pays. Others: benchmarks/results/gpu_constants.md.
_WORTH_PER_BLOCK = 1 << 21
# Steps along K of all blocks from which a transposed copy of elements of so many bytes pays, as blocks can transpose
# their tiles themselves. Products by the gpu backend on an H100: of 8 bits 2^21 steps (2048x2048x2048, 1024x4096x4096)
# have 1.15 to 1.25 of the speed without a copy, 2^19 (512x4096x4096) 0.65 to 0.97, and 2^15 (512x512x512) a fifth; of
# tfloat32 2^18 and more (2048x2048x2048) 1.02 to 1.9, 2^17 (1024x1024x1024) 0.67 to 1.13.
_WORTH_TRANSPOSING = {1: 1 << 20, 4: 1 << 18}
# How often blocks read such an array then, at least: with 4 times (512x4096x4096, of 8 bits) and twice (256x4096x4096,
# of tfloat32) a copy takes longer than what it saves, with 8 times (1024x1024x16384) it does not.
_READ_OFTEN = 8
_REMEMBERED = 64  # layouts of a kernel
_TILE = 8, 256  # rows and elements: 4 KB of 16 bits; others are no faster (benchmarks/results/gpu_constants.md)
_WIDEST = 65535  # tiles of a row that a grid has

# No word of how a copy that is not transposed is aligned: for stores of whole units the tile would have to change its
# layout, as it does to be transposed, through shared memory, which takes longer than small stores do.
_KERNEL = """
func @NAME(%source0: ptr<TYPE> = "source".base noalias, %copy0: ptr<TYPE> = "copy".base noalias,
           %rows0: i64 = "rows".scalar, %columns0: i64 = "columns".scalar,
           %step0: i64 = "step".scalar, %pitch0: i64 = "pitch".scalar) {
  %source = assume_divisible(%source0) {divisor = BYTES} : ptr<TYPE>
  %copy = assume_divisible(%copy0) {divisor = BYTES} : ptr<TYPE>
  %rows = assume_divisible(%rows0) {divisor = ITEMS} : i64
  %columns = assume_divisible(%columns0) {divisor = ITEMS} : i64
  %step = assume_divisible(%step0) {divisor = ITEMS} : i64
  %pitch = assume_divisible(%pitch0) {divisor = ITEMS} : i64
  %i = bid() {axis = 0} : i32
  %j = bid() {axis = 1} : i32
  %x = make_tensor_view(%source, [%rows, %columns], [%step]) {type = !VIEW} : VIEW
  %xs = make_partition_view(%x) {type = !TILES} : TILES
  %tile = load_view(%xs, [%i, %j]) {in_bounds = (false, false), allow_tma = false} : TYPE[SHAPE]
  PERMUTE
  %y = make_tensor_view(%copy, [EXTENTS], [%pitch]) {type = !VIEW} : VIEW
  %ys = make_partition_view(%y) {type = !TILES} : TILES
  store_view(%ys, COPIED, [INDICES]) {in_bounds = (false, false), allow_tma = false}
  return()
}
"""
_SQUARE = 64, 64  # of tiles that are transposed
OPTIONS: Mapping[str, Any] = {"num_warps": 4}  # of the backend, for that kernel


class Kind(NamedTuple):
    """What a kernel writes: copies of arrays with elements of ``item`` bytes, or transposed ones, of arrays of whole
    units of 16 bytes where they are ``aligned``."""

    item: int
    transposed: bool = False
    aligned: bool = False

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and elements of an array that a block copies."""
        return _SQUARE if self.transposed else _TILE


def kernel(kind: Kind) -> Function:
    """What writes copies of this kind."""
    words = {
        "NAME": "transpose" if kind.transposed else "align",
        "PERMUTE": "%transposed = permute(%tile) {axes = (1, 0)} : TYPE[SHAPE]" if kind.transposed else "",
        "EXTENTS": "%columns, %rows" if kind.transposed else "%rows, %columns",
        "COPIED": "%transposed" if kind.transposed else "%tile",
        "INDICES": "%j, %i" if kind.transposed else "%i, %j",
        "TILES": "partition<VIEW,[SHAPE],[0,1],undetermined,[SHAPE]>",
        "VIEW": "view<TYPE,[?,?],[?,1],i64>",
        "SHAPE": "{},{}".format(*kind.tile),
        "TYPE": f"u{8 * kind.item}",
        "BYTES": str(_UNIT if kind.aligned else kind.item if kind.transposed else 1),
        "ITEMS": str(_UNIT // kind.item if kind.aligned else 1),
    }
    text = _KERNEL
    for word, meaning in words.items():
        text = text.replace(word, meaning)
    return parse_function(text)


class AlignedCopy(NamedTuple):
    """One of an array of rank 2 at ``source``, with elements of ``item`` bytes, ``step`` of them from row to row.

    ``rows`` and ``columns`` are those of the array; a ``transposed`` copy has as many columns and rows.
    """

    source: int
    item: int
    rows: int
    columns: int
    step: int
    transposed: bool = False

    @property
    def pitch(self) -> int:
        """The bytes from row to row of the copy."""
        width = self.rows if self.transposed else self.columns
        return -(-width * self.item // _LINE) * _LINE

    @property
    def size(self) -> int:
        return max(self.pitch * (self.columns if self.transposed else self.rows), _LINE)

    @property
    def kind(self) -> Kind:
        """Which ``kernel`` writes it."""
        sizes = (self.source, *(n * self.item for n in (self.rows, self.columns, self.step)))
        return Kind(self.item, self.transposed, self.transposed and all(n % _UNIT == 0 for n in sizes))

    @property
    def grid(self) -> tuple[int, int, int]:
        """The grid of ``kernel``."""
        rows, columns = (-(-n // tile) for n, tile in zip((self.rows, self.columns), self.kind.tile))
        return rows, columns, 1

    def numbers(self, target: int) -> tuple[int, ...]:
        """What ``kernel`` takes to write the copy to ``target``."""
        return self.source, target, self.rows, self.columns, self.step, self.pitch // self.item

    def strides(self, d: Descriptor) -> tuple[int, ...]:
        """Strides of the copy, in the order of the axes of the array."""
        outer, _ = d.axes
        return tuple(self.pitch // self.item if axis == outer else 1 for axis in range(2))


class AlignedArrays:
    """Where the TMA unit finds the arrays that ``descriptors`` describe in a launch with ``numbers``: those that it
    cannot read where they are, in ``copies``, which lie one after the other in ``size`` bytes of memory."""

    def __init__(
        self, descriptors: Sequence[Descriptor], metas: Sequence[Mapping[str, Any]], numbers: Mapping[int, int]
    ) -> None:
        self.copies: dict[AlignedCopy, int] = {}  # where each one starts
        self.size = 0
        self._arrays: list[tuple[bool, Geometry]] = []
        self._reads: dict[AlignedCopy, int] = {}  # how often blocks read an array of which there is a transposed copy
        arrays = [d.geometry(numbers) for d in descriptors]
        for d, meta, array in zip(descriptors, metas, arrays):
            copy = _copy_of(d, meta["elem_size"], *array)
            if copy is not None:
                if copy not in self.copies:
                    self.copies[copy], self.size = self.size, self.size + copy.size
                    self._reads[copy] = _reads(copy, descriptors, arrays)
                array = self.copies[copy], array[1], copy.strides(d)
            self._arrays.append((copy is not None, array))

    def arrays(self, start: int) -> list[Geometry]:
        """All arrays, with the copies from ``start`` on."""
        return [(start + base if moved else base, shape, strides) for moved, (base, shape, strides) in self._arrays]

    def pays(self, blocks: int) -> bool:
        """Whether the arrays are simple enough to be copied, and read often enough by ``blocks`` blocks."""
        return all(
            copy.columns <= min(copy.step, _WIDEST * copy.kind.tile[1])
            and (
                not copy.transposed
                or (self._reads[copy] >= _READ_OFTEN and copy.rows * blocks >= _WORTH_TRANSPOSING.get(copy.item, 0))
            )
            and copy.rows * copy.columns * copy.item <= blocks * _WORTH_PER_BLOCK
            for copy in self.copies
        )


def _reads(copy: AlignedCopy, descriptors: Sequence[Descriptor], arrays: Sequence[Geometry]) -> int:
    """How often blocks read the rows of an array: once for each row of tiles of another one that is as long as it is
    high; often, where there is none."""
    others = [
        -(-shape[d.axes[0]] // d.block[0])
        for d, (base, shape, _) in zip(descriptors, arrays)
        if base != copy.source and len(d.axes) == 2 and shape[d.axes[-1]] == copy.rows
    ]
    return min(others, default=_READ_OFTEN)


def layouts(
    descriptors: Sequence[Descriptor], metas: Sequence[Mapping[str, Any]]
) -> Callable[[Sequence[Any]], AlignedArrays]:
    """What finds the layout of a launch among its numbers. It remembers the last ones."""
    read = {d.base for d in descriptors} | {
        i for d in descriptors for kind, i, _ in (*d.shape, *d.strides) if kind in ("p", "w")
    }

    @functools.lru_cache(_REMEMBERED)
    def layout(numbers: tuple[int, ...]) -> AlignedArrays:
        return AlignedArrays(descriptors, metas, dict(zip(read, numbers)))

    return lambda values: layout(tuple([values[i] for i in read]))


def _copy_of(d: Descriptor, item: int, base: int, shape: Sequence[int], strides: Sequence[int]) -> AlignedCopy | None:
    """The copy of the array that ``d`` describes; None where the TMA unit can read it where it is."""
    if d.transposed:
        columns, rows = d.axes
        return AlignedCopy(base, item, shape[rows], shape[columns], strides[rows], True)
    if not d.needs_realign or not (base % _UNIT or any(strides[axis] * item % _UNIT for axis in d.axes[:-1])):
        return None
    outer, inner = d.axes
    return AlignedCopy(base, item, shape[outer], shape[inner], strides[outer])
