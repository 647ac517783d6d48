"""What was chosen for a kernel, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.ir.core import Function, Op
from tilewright.ir.gpu_stage import (
    BLOCKS_OF_CTA,
    CTAS_OF_BLOCK,
    GRID_EXTENT,
    NUM_STAGES,
    ROW_PART,
    WGMMA_REFUSED,
    num_warps,
)
from tilewright.ir.ops.gpu.cluster import ClusterStore
from tilewright.ir.ops.gpu.memory import AsyncCopy, GlobalLoad, GlobalStore, SharedAlloc, SharedCopy, shared
from tilewright.ir.ops.gpu.mma import FMA, GpuMma
from tilewright.ir.ops.gpu.specialize import STAGING_WARPS, Restage, WarpSpecialize
from tilewright.ir.ops.gpu.tensor_memory import Tcgen05Mma
from tilewright.ir.ops.gpu.tma import ParameterMap, TmaLoad, TmaStore
from tilewright.ir.ops.gpu.wgmma import Wgmma
from tilewright.ir.types import SharedType, TileType


def schedule(function: Function, target: str, num_ctas: int, ignored: Sequence[str]) -> str:
    """A line for each decision about ``function``, in the gpu stage, of which ``num_ctas`` CTAs run a block, and the
    hints that were ``ignored``."""
    lines = [*_lines(function, target, num_ctas), f"ignored hints: {', '.join(ignored) or 'none'}"]
    return "".join(f"{line}\n" for line in dict.fromkeys(lines))


def _lines(function: Function, target: str, num_ctas: int) -> Iterator[str]:
    warps = num_warps(function)
    yield f"target: {target}"
    if function.ops_of(ClusterStore):
        yield f"CTAs of a cluster, each with a part of a row: {num_ctas}"
    elif num_ctas > 1:
        yield f"CTAs that run a block, whose MMA ops need more registers than one has: {num_ctas}"
    if CTAS_OF_BLOCK in function.hints:
        yield f"CTAs that run a block, each with a part of its tiles: {function.hints[CTAS_OF_BLOCK]}"
    if GRID_EXTENT in function.hints:
        yield "blocks of the grid: one for each iteration of the loop over it"
    if BLOCKS_OF_CTA in function.hints:
        yield f"blocks of a grid with many that a CTA runs: {function.hints[BLOCKS_OF_CTA]}"
    roles = function.ops_of(WarpSpecialize)
    more = roles[0].producer_warps if roles else 0
    yield f"warps per block: {warps + more}" + (f" ({warps} compute, {more} load)" if more else "")
    if roles and roles[0].registers is not None:
        yield "registers per thread: {1} to compute, {0} to load".format(*roles[0].registers)
    if not roles:
        yield f"pipeline stages: {function.hints.get(NUM_STAGES, 1)}"
    if ROW_PART in function.hints:
        yield f"rows, which registers do not hold whole: in parts of {function.hints[ROW_PART]} elements"
    for op in function.walk():
        if isinstance(op, Wgmma):
            assert isinstance(op.y.type, SharedType)
            where = ", the left operand in registers" if isinstance(op.x.type, TileType) else ""
            where += ", the right operand through shared memory" if _is_staged(op.y.op) else ""
            yield f"line {op.loc.line}: wgmma of {_sizes((*op.acc.tile.shape, op.y.type.shape[0]))}{where}"
        elif isinstance(op, Tcgen05Mma):
            depth = shared(op, op.y).shape[0]
            yield f"line {op.loc.line}: tcgen05.mma of {_sizes((*op.shape, depth))}, sums in tensor memory"
        elif isinstance(op, GpuMma):
            name = "multiply-adds" if op.instruction == FMA else f"mma.sync of {_sizes(op.instruction)}"
            yield f"line {op.loc.line}: {name}"
        elif isinstance(op, TmaLoad):
            ring, of, t = op.buffer.op, op.map.op, op.buffer.type
            assert isinstance(t, SharedType)
            ahead = "when all is multiplied"
            if isinstance(ring, SharedCopy):
                assert isinstance(ring.buffer.op, SharedAlloc)
                ahead = f"up to {ring.buffer.op.type.copies} ahead"
            both = "" if op.both is None else ", which pairs of CTAs share where both need the same"
            how = "" if isinstance(of, ParameterMap) else " of arrays of a list"
            if isinstance(of, ParameterMap) and of.needs_realign:
                how = " of a copy, where the TMA unit cannot read the array"
                how = " of a transposed copy" if of.transposed else how
            yield f"line {op.loc.line}: TMA loads tiles of {_sizes(t.shape)}{how}, {ahead}{both}"
        elif isinstance(op, (GlobalLoad, GlobalStore)) and op.ptrs.tile.rank:
            name = "loads" if isinstance(op, GlobalLoad) else "stores"
            yield f"line {op.loc.line}: {name} {op.vector * op.ptrs.tile.pointee.bytes} bytes a thread at once"
        elif isinstance(op, AsyncCopy):
            yield f"line {op.loc.line}: copies {op.vector * op.ptrs.tile.pointee.bytes} bytes a thread ahead"
        elif isinstance(op, Restage):
            yield f"line {op.loc.line}: {STAGING_WARPS} warps that load transpose tiles of {_sizes(op.read.shape)}"
        elif isinstance(op, TmaStore):
            yield f"line {op.loc.line}: TMA {'adds' if op.adds else 'stores'}"
    refused = function.hints.get(WGMMA_REFUSED, ())
    assert isinstance(refused, tuple)
    yield from refused


def _is_staged(buffer: Op | None) -> bool:
    """Whether ``buffer`` is one of its own, or another tile in the place of what was fetched."""
    return isinstance(buffer, SharedAlloc) or (
        isinstance(buffer, SharedCopy) and isinstance(buffer.buffer.op, SharedCopy)
    )


def _sizes(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes))
