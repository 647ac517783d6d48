"""Instructions that multiply adjacent elements along k and add their products to one lane of 32 bits."""

from __future__ import annotations

from tilewright.backends.cpu.target import Processor
from tilewright.ir.dtypes import DType, bfloat16, float32
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.loops import LoopNest
from tilewright.ir.ops.shape import Reshape
from tilewright.records import NamedTuple

LANES = 16  # of a vector of 512 bits
VECTORS = 4  # of a panel of the right operand, side by side
TILE_ROWS = 16  # of a tile register of AMX, each as long as a vector


class Product(NamedTuple):
    """A matmul of [m, k] and [k, n]: the types of the elements of both and of the result, and the sizes."""

    x: DType
    y: DType
    out: DType
    m: int
    n: int
    k: int

    @staticmethod
    def of(op: Mma) -> Product:
        """The product that ``op`` computes for each batch."""
        x, y, out = (v.tile for v in (op.x, op.y, op.result))
        m, n = out.shape[-2:]
        return Product(x.element, y.element, out.element, m, n, x.shape[-1])

    def __str__(self) -> str:
        return f"{self.x.short}.{self.y.short}.{self.out.short}.{self.m}x{self.n}x{self.k}"


def reader(nest: LoopNest) -> Mma | None:
    """The product that alone reads the first result of ``nest``, as its right operand."""
    value = nest.results[0]
    while len(value.users) == 1 and isinstance(op := next(iter(value.users)), Reshape):
        value = op.result
    ops = list(value.users)
    return ops[0] if len(ops) == 1 and isinstance(ops[0], Mma) and value not in (ops[0].x, ops[0].acc) else None


class DotInstruction(NamedTuple):
    """``per_lane`` elements of ``element_bytes`` fill a lane; the LLVM intrinsic takes vectors of 512 bits.

    ``mixed_signs``: one operand is unsigned and the other signed. ``tiles``: it takes tile registers of AMX instead.
    """

    intrinsic: str
    per_lane: int
    element_bytes: int
    mixed_signs: bool = False
    tiles: bool = False

    def copy_bytes(self, p: Product) -> int:
        """Bytes for a copy of the left operand, if it is widened in a buffer, or for the sums of its rows."""
        return p.m * p.k * self.element_bytes

    def scratch_bytes(self, p: Product) -> int:
        """Bytes for that, and for a panel of the right operand."""
        return self.copy_bytes(p) + VECTORS * LANES * p.k * self.element_bytes


_BYTES = DotInstruction("llvm.x86.avx512.vpdpbusd.512", per_lane=4, element_bytes=1, mixed_signs=True)
_BFLOAT = DotInstruction("llvm.x86.avx512bf16.dpbf16ps.512", per_lane=2, element_bytes=2)
# By the signedness of the left and the right operand.
_BYTE_TILES = {
    (x, y): DotInstruction(f"llvm.x86.tdpb{'us'[x]}{'us'[y]}d", per_lane=4, element_bytes=1, tiles=True)
    for x in (False, True)
    for y in (False, True)
}
_BFLOAT_TILES = DotInstruction("llvm.x86.tdpbf16ps", per_lane=2, element_bytes=2, tiles=True)


def dot_instruction(processor: Processor, p: Product) -> DotInstruction | None:
    """The instruction for this product, if there is one."""
    features = processor.features
    found: list[DotInstruction] = []  # the best one first
    if p.x.is_integer:
        found += [_BYTE_TILES[p.x.is_signed, p.y.is_signed]] * features.dot_byte_tiles
        found += [_BYTES] * features.dot_bytes
    elif (p.x, p.y, p.out) == (bfloat16, bfloat16, float32):
        found += [_BFLOAT_TILES] * features.dot_bfloat_tiles + [_BFLOAT] * features.dot_bfloat
    for dot in found:
        least_m, least_k = (TILE_ROWS, dot.per_lane * TILE_ROWS) if dot.tiles else (1, dot.per_lane)
        if p.m >= least_m and p.n >= LANES and p.k >= least_k:
            return dot
    return None
