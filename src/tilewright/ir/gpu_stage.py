"""What the gpu stage is: which ops it has, and what must hold of tiles that are distributed over threads."""

from __future__ import annotations

from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.layouts import LANE, LANES, REGISTER, WARP, log2
from tilewright.ir.opdef import GPU_OPS
from tilewright.ir.ops import memory
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Return, Yield
from tilewright.ir.ops.gpu.specialize import WarpSpecialize
from tilewright.ir.ops.gpu.tiles import ThreadCombiningOp
from tilewright.ir.ops.shape import Constant, Iota, Permute, Reshape, Undefined
from tilewright.ir.types import SharedType, TileType
from tilewright.ir.verifier import VerificationError, verify

NUM_WARPS = "num_warps"  # the hint of a function that says how many warps a CTA has
WGMMA_WARPS = "wgmma_warps"  # the hint of a function whose MMA ops are those of warp groups: how many warps these have
WGMMA_REFUSED = "wgmma_refused"  # and why MMA ops are not: a line for each of these
NUM_STAGES = "pipeline_stages"  # and that which says how many iterations of a loop have their loads in flight
DEEPER = "deeper_stages"  # and how many stages there would be with one CTA on an SM, with two and so on
CTAS_OF_SM = "ctas_of_sm"  # and of one whose warps load what they multiply: how many CTAs an SM holds
MOST_CTAS = "most_ctas"  # and of one that is compiled again: how many these may be
ROW_PART = "row_part"  # and of one whose rows are too large for the registers: how many elements are computed at once
MULTICAST_PAYS = "multicast_pays"  # and of one with operands whose rows do not start on sectors of the L2 cache
BLOCKS_OF_CTA = "blocks_of_cta"  # and of one whose CTAs run several blocks of the grid: how many
CTAS_OF_BLOCK = "ctas_of_block"  # and of one whose blocks are run by several CTAs, not in a cluster: by how many
STORED_ONCE = "stored_once"  # and of which parameters a block stores no element more than once: their numbers
GRID_EXTENT = "grid_extent"  # and of one with a block for each iteration of a grid-stride loop: how many
SHORT_ROWS = "short_rows"  # and of one with shorter rows than tiles: at most how many elements, of how many
MAX_WARPS = 32

_ALIKE = (
    memory.AssumeBlocked,
    memory.AssumeBounded,
    memory.AssumeDivisible,
    memory.AtomicRmw,
    memory.AtomicCas,
)  # as elementwise ops: one layout
_TILE_OPS: frozenset[type[Op]] = frozenset(
    (
        *(Constant, Iota, Undefined, Reshape, Permute),
        *(memory.Bid, memory.NumBlocks, memory.LocalArray, memory.Print, memory.Assert, memory.Assume),
        *_ALIKE,
        *(For, Loop, If, Yield, Continue, Break, Return),
    )
)


def num_warps(function: Function) -> int:
    """How many warps a CTA of ``function`` has; ValueError when it does not say."""
    found = function.hints.get(NUM_WARPS)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 < found <= MAX_WARPS or found & (found - 1):
        raise ValueError(f"{function.name}: num_warps = {found!r} is no power of two from 1 to {MAX_WARPS}")
    return found


def verify_gpu(function: Function) -> None:
    """Raise VerificationError, naming the op and its location, unless ``function`` is legal in the gpu stage.

    Besides what ``verify`` checks: only ops of the gpu dialect and those of Tile IR that work on distributed tiles;
    each tile has a layout over the registers, the lanes and the ``num_warps`` warps of the function that holds every
    element, and a scalar none; all tiles of an elementwise op have one layout. Atomics work on tiles, of which each
    element is updated by the thread that owns it (its free bits are 0): only there the old value is known. Only the
    consumer of ``gpu.warp_specialize`` has tiles.
    """
    verify(function)
    warps = num_warps(function)
    _block(function.body, warps, combiner=False)


def _block(block: Block, warps: int, *, combiner: bool) -> None:
    for op in block.ops:
        if not (op.spec.elementwise or type(op) in _TILE_OPS or op.name in GPU_OPS):
            raise VerificationError(f"{op.name} is not an op of the gpu stage", op)
        for v in op.results:
            _value(v, op, warps)
        if isinstance(op, (memory.AtomicRmw, memory.AtomicCas)) and not op.ptrs.tile.rank:
            raise VerificationError(f"{op.name} is of a scalar, which every thread would update", op)
        if op.spec.elementwise or isinstance(op, _ALIKE):
            _one_layout(op)
        if isinstance(op, WarpSpecialize):
            for block in op.regions[1:]:
                _without_tiles(block)
        for region in op.regions:
            for arg in region.args:
                _value(arg, op, warps)
            _block(region, warps, combiner=combiner or isinstance(op, ThreadCombiningOp))


def _without_tiles(block: Block) -> None:
    for op in block.walk():
        if any(isinstance(v.type, TileType) and v.type.rank for v in (*op.results, *op.operands)):
            raise VerificationError(f"{op.name} has a tile outside of the consumer", op)


def _value(value: Value, op: Op, warps: int) -> None:
    t = value.type
    if isinstance(t, SharedType):
        return
    if not isinstance(t, TileType):
        raise VerificationError(f"{op.name} has a value of type {t}, and there are no views in the gpu stage", op)
    if t.rank == 0:
        if t.layout is not None:
            raise VerificationError(f"{op.name} has the scalar {t} with a layout", op)
        return
    if t.layout is None:
        raise VerificationError(f"{op.name} has the tile {t} without a layout", op)
    layout = t.layout
    if layout.names != (REGISTER, LANE, WARP):
        raise VerificationError(f"{op.name}: the layout of {t} has the dimensions {', '.join(layout.names)}", op)
    found = len(layout.bases(LANE)), len(layout.bases(WARP))
    if found != (log2(LANES), log2(warps)):
        message = f"{op.name}: {t} is for {1 << found[0]} lanes and {1 << found[1]} warps, of {LANES} and {warps}"
        raise VerificationError(message, op)
    if not layout.is_surjective:
        raise VerificationError(f"{op.name}: no thread holds some elements of {t}", op)


def _one_layout(op: Op) -> None:
    types = [v.type for v in (*op.operands, *op.results) if isinstance(v.type, TileType)]
    for t in types:
        if t.layout != types[0].layout:
            raise VerificationError(f"{op.name} has tiles of different layouts: {types[0]} and {t}", op)
