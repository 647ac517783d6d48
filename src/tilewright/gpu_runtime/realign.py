"""Aligned copies, also transposed ones, of arrays that the TMA unit or an instruction cannot read where they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tilewright.ir.core import Function
from tilewright.ir.parser import parse_function

UNIT = 16  # bytes that addresses and strides are multiples of: CUDA Driver API, cuTensorMapEncodeTiled
LINE = 128  # bytes of a line of the L2 cache: rows that start on one are read faster
# Bytes of an array per block of the grid up to which a copy pays. Others: benchmarks/results/gpu_constants.md.
WORTH_PER_BLOCK = 1 << 21
# Steps along K of all blocks from which a transposed copy of elements of so many bytes pays, as blocks can transpose
# their tiles themselves. Products by the gpu backend on an H100: of 8 bits 2^21 steps (2048x2048x2048, 1024x4096x4096)
# have 1.15 to 1.25 of the speed without a copy, 2^19 (512x4096x4096) 0.65 to 0.97, and 2^15 (512x512x512) a fifth; of
# tfloat32 2^18 and more (2048x2048x2048) 1.02 to 1.9, 2^17 (1024x1024x1024) 0.67 to 1.13.
WORTH_TRANSPOSING = {1: 1 << 20, 4: 1 << 18}
# How often blocks read such an array then, at least: with 4 times (512x4096x4096, of 8 bits) and twice (256x4096x4096,
# of tfloat32) a copy takes longer than what it saves, with 8 times (1024x1024x16384) it does not.
READ_OFTEN = 8
# Rows and elements that a block copies: 4 KB of 16 bits, others are no faster (benchmarks/results/gpu_constants.md).
# And those that it transposes.
TILES = (8, 256), (64, 64)
WIDEST = 65535  # tiles of a row that a grid has

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
        return TILES[self.transposed]


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
        "BYTES": str(UNIT if kind.aligned else kind.item if kind.transposed else 1),
        "ITEMS": str(UNIT // kind.item if kind.aligned else 1),
    }
    text = _KERNEL
    for word, meaning in words.items():
        text = text.replace(word, meaning)
    return parse_function(text)
