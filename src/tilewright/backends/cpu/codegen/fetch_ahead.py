"""The tile of the next block or iteration, fetched while a nest computes more than memory takes for it, or only stores.

Code that goes over a long tile several times waits for memory the first time, and leaves it idle afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from llvmlite import ir

from tilewright.analysis.mma_graph import is_factor
from tilewright.backends.cpu.codegen import index, lanes
from tilewright.backends.cpu.codegen.index import Index, as_value
from tilewright.backends.cpu.codegen.position import Position
from tilewright.backends.cpu.codegen.state import State, storage_bytes
from tilewright.backends.cpu.codegen.views import LaneAddresses, ViewAccess
from tilewright.backends.cpu.loops.fused import array_tiles, loop_values
from tilewright.backends.cpu.loops.groups import COSTS
from tilewright.backends.cpu.loops.kinds import LONGEST_STORED, array_axis, known_integer
from tilewright.backends.external import call_external
from tilewright.backends.vector.types import I32
from tilewright.ir.core import Op, Value
from tilewright.ir.ops.control import For
from tilewright.ir.ops.floats import Exp
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.loops import LoopNest
from tilewright.ir.ops.memory import Bid, LoadView
from tilewright.ir.ops.shape import constant_of

# Bytes of a tile: shorter ones are fetched well enough by processors, of longer ones several do not fit into a
# second-level cache (benchmarks/results/cpu_notes.md).
_SHORTEST, _LONGEST = 4 << 10, 512 << 10
_SHORT_ROW = 1 << 10  # bytes
_ROWS = 16  # that copies of short rows are fetched ahead: see there
_NEAR = 16 << 10  # bytes of a tile of which two fit into a first-level cache
LINE = 64  # bytes


def tiles_ahead(state: State, nest: LoopNest) -> Mapping[Op, ir.Value]:
    """The loads whose next tiles ``nest`` fetches, and how many bytes away these are: tiles that an earlier nest read,
    so that they are in a cache, if there is enough to compute, and those of loops that are no runs in memory. Of what
    is copied for MMA ops, some rows of the tile itself, and behind it."""
    tiles = [v for v in array_tiles(nest) if (_is_costly(nest) and _was_read(v, nest)) or _jumps(v, nest)]
    found = {a.op: _distance(state, a) for a in (state.accesses[v.op] for v in tiles if v.op is not None)}
    for a in (state.accesses[v.op] for v in array_tiles(nest) if v.op is not None and _is_copied_operand(v, nest)):
        row = next(stride for n, stride in zip(a.shape, a.strides) if n > 1)
        found[a.op] = index.mul(state.builder, row, _ROWS * storage_bytes(a.dtype))
    return {op: d for op, d in found.items() if not isinstance(d, int)}


def _is_copied_operand(value: Value, nest: LoopNest) -> bool:
    """Whether ``nest`` only copies ``value``, several short rows, for MMA ops. Rows from the first element of those of
    the array on are taken for these as a whole, one behind the other, as in attention."""
    load, shape = value.op, [n for n in value.tile.shape if n > 1]
    if not isinstance(load, LoadView) or len(shape) != 2 or len(nest.results) != 1 or nest.transposed is not None:
        return False
    short = shape[-1] * storage_bytes(value.tile.element) <= _SHORT_ROW
    apart = array_axis(load) == value.tile.rank - 1 and constant_of(load.indices[-1]) is None
    return short and apart and is_factor(nest.results[0])


def tiles_before(state: State, nest: LoopNest) -> Mapping[Op, ir.Value]:
    """The loads whose next tiles ``nest`` fetches while it stores past the caches what an earlier nest made of them by
    squares: of several rows at once, so that processors do not see what is next."""
    shape = loop_values(nest)[0].tile.shape
    return _next_tiles(state, [n for n in _operands(nest) if n.transposed is not None or n.square is not None], shape)


def copied_tiles(state: State, nest: LoopNest, shape: tuple[int, ...]) -> Mapping[Op, ir.Value]:
    """The loads whose next tiles ``nest`` fetches while it takes what earlier nests made of them element by element."""
    return _next_tiles(state, _operands(nest), shape)


def cache_of(tile: ViewAccess) -> int:
    """The level of the cache that holds ``tile`` and its copy."""
    return 1 if math.prod(tile.shape) * storage_bytes(tile.dtype) <= _NEAR else 2


def _operands(nest: LoopNest) -> list[LoopNest]:
    """The nests that make what the body of ``nest`` reads."""
    return [v.op for op in nest.body.ops for v in op.operands if isinstance(v.op, LoopNest)]


def _next_tiles(state: State, nests: Sequence[LoopNest], shape: tuple[int, ...]) -> Mapping[Op, ir.Value]:
    """The loads of tiles of ``shape`` that ``nests`` read, and how many bytes away the next tiles are."""
    read = [v for nest in nests for v in array_tiles(nest)]
    short = [v for v in read if v.tile.shape == shape and _bytes(v) <= LONGEST_STORED]
    found = {a.op: _distance(state, a) for a in (state.accesses[v.op] for v in short if v.op is not None)}
    return {op: d for op, d in found.items() if not isinstance(d, int)}


def fetch(
    builder: ir.IRBuilder, tile: ViewAccess, at: LaneAddresses, position: Position, distance: ir.Value, cache: int = 2
) -> None:
    """Fetch what is ``distance`` bytes after the vector ``at``, once for each line, into the first or second cache."""
    if at.step != 1 or (position[-1].pattern or (0,))[0] * storage_bytes(tile.dtype) % LINE:
        return
    prefetch(builder, builder.inttoptr(builder.add(at.address, distance), lanes.POINTER), cache=cache)


def prefetch(builder: ir.IRBuilder, pointer: ir.Value, *, write: bool = False, cache: int = 2) -> None:
    """Fetch what is going to be read there, or written, into the first or second cache."""
    arguments = [pointer, *(ir.Constant(I32, n) for n in (int(write), 4 - cache, 1))]  # how near, data
    call_external(builder, "llvm.prefetch.p0", ir.VoidType(), arguments)


def _is_costly(nest: LoopNest) -> bool:
    return any(COSTS.get(type(op), 1) >= COSTS[Exp] for op in nest.body.ops)


def _was_read(value: Value, nest: LoopNest) -> bool:
    """Whether a nest before ``nest`` in the same block reads the tile ``value``, and its size suits."""
    assert value.op is not None and nest.block is not None
    if not _SHORTEST <= _bytes(value) <= _LONGEST:
        return False
    before = nest.block.ops[: nest.block.ops.index(nest)]
    return any(user.ancestor_in(nest.block) in before for user in value.users)


def _jumps(value: Value, nest: LoopNest) -> bool:
    """Whether ``nest`` is the first of an iteration that reads the tile ``value``, whose next one processors do not
    see: it is the next piece of short rows, or a row any number of rows away. MMA ops fetch what they read."""
    block, load = nest.block, value.op
    if block is None or not isinstance(block.parent, For) or not isinstance(load, LoadView):
        return False
    near = [*nest.body.ops, *(user for r in nest.results for user in r.users)]
    if array_axis(load) != value.tile.rank - 1 or any(isinstance(op, Mma) for op in near):
        return False
    row = value.tile.shape[-1] * storage_bytes(value.tile.element)
    if row == _bytes(value):
        jumps = load.indices[-1] is not block.args[0] and known_integer(block.parent.step) is None
    else:
        jumps = load.indices[-1] is block.args[0] and row <= _SHORT_ROW
    nests = [op for user in value.users if isinstance(op := user.ancestor_in(block), LoopNest)]
    later = _bytes(value) >= _SHORTEST and any(map(_is_costly, nests))  # where memory is idle
    first = min(nests, key=block.ops.index) is nest
    return jumps and first and not later and row >= LINE and _bytes(value) <= LONGEST_STORED


def _bytes(value: Value) -> int:
    return value.tile.size * storage_bytes(value.tile.element)


def _distance(state: State, tile: ViewAccess) -> Index:
    """The bytes from ``tile`` to that of the next block, or of the next iteration of the loop that it is in."""
    builder, block, distance = state.builder, tile.op.block, 0
    assert block is not None
    step: Index
    for k, (value, stride) in enumerate(zip(tile.indices, tile.strides)):
        if isinstance(block.parent, For) and value is block.args[0]:
            step = state.index(block.parent.step)
        elif block.parent is None and isinstance(value.op, Bid) and value.op.axis == state.next_axis:
            step = 1
        else:
            continue
        elements = index.mul(builder, index.mul(builder, step, tile.view.partition.steps[k]), stride)
        distance = index.add(builder, distance, index.mul(builder, elements, storage_bytes(tile.dtype)))
    return distance if isinstance(distance, int) and not distance else as_value(distance)
