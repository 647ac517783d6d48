"""How many warps suit a kernel for which nobody said so: by the elements that each thread would hold."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from tilewright.analysis.gpu.target import SM_REGISTERS, most_registers
from tilewright.analysis.live_ranges import LiveRanges, max_live
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import float32, tfloat32
from tilewright.ir.effects import has_effect
from tilewright.ir.gpu_stage import ROW_PART, SHORT_ROWS
from tilewright.ir.layouts import LANES
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.arith import Add, Cast, Cmp, Mul, Select, Sub
from tilewright.ir.ops.control import For, If, LoopOp
from tilewright.ir.ops.floats import Exp, Exp2
from tilewright.ir.ops.gpu.cluster import ClusterGather
from tilewright.ir.ops.linear import CombiningOp, MmaOp, Reduce
from tilewright.ir.ops.memory import (
    AssumeDivisible,
    AtomicCas,
    AtomicRmw,
    Load,
    LoadView,
    MakePartitionView,
    MakeTensorView,
    MemoryOp,
    Store,
    StoreView,
)
from tilewright.ir.ops.shape import Broadcast, Constant, Permute, Reshape
from tilewright.ir.reachable import reachable
from tilewright.ir.types import TileType

_FEWEST, _MOST = 2, 32
_FEWEST_TO_EXCHANGE = 4  # where they wait for each other: on an H200 1.04 of two for transposes of 32x32
_ELEMENTS = 16  # of a thread: it has two or more accesses of 16 bytes under way, and several CTAs fit on an SM
# Where a kernel hardly does more than move tiles, with up to so many warps; and bytes, if tiles begin anywhere, so that
# each element has an access of its own: ``benchmarks/gpu_memory.py --warps`` on an H200.
_ELEMENTS_TO_MOVE, _MOST_TO_MOVE, _LITTLE = 8, 16, 6
_COPIED_ANYWHERE, _COMPUTED_ANYWHERE = 64, 32
_BYTES_TO_TURN = 64  # of a thread: four rows of the widest access
_SMALL_PRODUCT = 32 * 32  # elements of an accumulator for two warps: benchmarks/results/gpu_products.md
_SMALL_PRODUCT_OF_BYTES = 32 * 64  # of operands of 8 bits
_SMALL_EXACT_PRODUCT = 64 * 64  # without tensor cores: on an H200 1.07 of four warps with 64x64, 1.8 with 32x32
_ACCUMULATORS, _ALL_ACCUMULATORS = 128, 160  # of a thread: of one MMA op, of all in a block
_WIDE, _SPLIT = 2, 4  # divide these for fragments of 32 bits, and for float32, which has more sums, too

# Of an SM: CUDA C++ Programming Guide, technical specifications.
_WARPS, _CTAS = 64, 32
# Where warps wait for each other in reductions, an SM has to hold so many bytes of rows, and then as many warps as here
# for the arithmetic, with more than 16 in a CTA only where these have no room for its tiles. Chosen by
# ``benchmarks/gpu_memory.py --warps`` on an H100.
_RESIDENT_BYTES, _RESIDENT_WARPS = 40 << 10, 32
_RESIDENT_WARPS_TO_REDUCE = 16  # of loops that store nothing: cross entropy in 16,384 has 2,978 and 2,774 GB/s (H200)
# Of rows that are shorter than their tile, of which more warps hold more than there is: of 5,000 columns of bfloat16
# softmax has 4,016 GB/s with four warps and 3,863 with eight, RMS norm 3,978 and 4,045 (one H200).
_RESIDENT_WARPS_OF_SHORT_ROWS, _VECTOR = 20, 8
# Elements of one of several lines that are reduced: layer norm of four rows of 4,096 has 3,759 GB/s with eight warps,
# 2,194 with 16 (one H200).
_LONG_LINE = 1024
# Times what is estimated where long columns are reduced, several by a thread: layer norm of 768 channels of 16
# pixels has 2,678 GB/s with four warps, of which an SM holds two CTAs, and 1,464 with eight (one H200).
_REGISTERS_ACROSS = 2
_OTHER_REGISTERS = 30  # of a thread, for what is no part of a large tile
# Of a thread, where a warp that waits for no other one has a line: with one warp layer norm of 1,544 columns behind
# dropout has 4,021 GB/s and with two 3,362, softmax of 2,048 4,132 and 4,120, Welford's mean and variance in steps of
# 1,024 3,670, and with four 2,968, the place of the largest in steps of 4,096 3,368 and 2,619; masked softmax of 2,048
# 3,797 and 3,860 (one H200).
_ELEMENTS_OF_ONE_WARP, _MOST_OF_ONE_WARP, _MOST_OF_LOOPING_WARP = 32, 64, 128
# Where rows are in parts of 8,192 elements, of which warps wait for each other only when all are summed up: on an H200
# layer norm of 65,536 columns of bfloat16 has 2,379 GB/s with 16 and 2,229 with 8, softmax of 131,072 1,754 and 1,633.
_WARPS_OF_PARTS = 16
# Of a part of a row that CTAs of a cluster divide: with 4, 8 and 16 softmax of bfloat16 has 3,357, 3,729 and 2,610
# GB/s with parts of 8,192 elements, layer norm 2,597, 3,007 and 1,952; with 8 and 16, and parts of 16,384, softmax has
# 3,462 and 3,332; layer norm of these 3,186 with 4, 3,364 with 8, 3,086 with 16 (one H200).
_LONG_PART, _WARPS_OF_ONE_PART = 8192, 8
_MOST_OF_ONE_PART = 32 << 10  # bytes: softmax of 131,072 columns of float32 has 2,699 GB/s with eight, 3,499 with 16
# For a row, where a grid has a block for each SM: softmax of 132x4096 in benchmarks/results/gpu_memory.md.
_WARPS_OF_ONE_BLOCK = 8
# Of a thread, of what loops carry and vectors change: Mamba's scan in tiles of 32, 64 and 128 channels takes 624, 633
# and 679 us with 2, 4 and 8 warps, of 32 and 128 with four 736 and 894 (one H200).
_ELEMENTS_OF_STATE = 8
_SPILLED = 1.25  # how many times the registers that there are a thread may need, before it is slow


def _is_wide(op: MmaOp, *, f32: bool) -> bool:
    """Whether tensor cores multiply elements of 32 bits."""
    return op.x.tile.element is tfloat32 or (f32 and op.x.tile.element is float32)


def suitable_warps(function: Function, *, f32: bool = False, blocks: int = 0) -> int:
    """A power of two up to 32, for a grid that puts no more than so many ``blocks`` on an SM (0: many)."""
    mmas = function.ops_of(MmaOp)
    if mmas:
        words = {op: op.acc.tile.size * max(op.acc.tile.element.bytes // 4, 1) for op in mmas}
        largest = max(words.values())
        beside: Counter[Block | None] = Counter()
        for op in mmas:
            beside[op.block] += words[op]
        if len(beside) == len(mmas):
            if not f32 and largest <= _SMALL_EXACT_PRODUCT and all(op.x.tile.element is float32 for op in mmas):
                return 2
            if largest <= _SMALL_PRODUCT_OF_BYTES and all(op.x.tile.element.bytes == 1 for op in mmas):
                return 2
            if largest <= _SMALL_PRODUCT and all(op.x.tile.element.bytes == 2 or _is_wide(op, f32=f32) for op in mmas):
                return 2
        wide = _WIDE if any(_is_wide(op, f32=f32) for op in mmas) else 1
        split = _SPLIT if f32 and any(op.x.tile.element is float32 for op in mmas) else wide
        most, all_most = (n // split for n in (_ACCUMULATORS, _ALL_ACCUMULATORS))
        few = largest <= 4 * LANES * most and max(beside.values()) <= 4 * LANES * all_most
        return 4 if few else 8
    if ROW_PART in function.hints:
        return _WARPS_OF_PARTS
    largest = max((_kept(op) for op in function.walk()), default=0)
    if function.ops_of(CombiningOp):
        return _warps_of_rows(function, max(largest, 1), blocks)
    turned = function.ops_of(Permute)
    warps = _FEWEST_TO_EXCHANGE if turned else _FEWEST
    bytes_ = bool(turned) and all(_bits(op.x) == 8 for op in turned)
    elements = _BYTES_TO_TURN if bytes_ else _elements(function)
    moving = _warps_with(largest, elements, warps)
    return moving if elements >= _ELEMENTS else max(min(moving, _MOST_TO_MOVE), _warps_with(largest, _ELEMENTS, warps))


def _warps_with(size: int, elements: int, fewest: int) -> int:
    """The fewest warps whose threads have up to so many ``elements`` of a tile of ``size``."""
    warps = fewest
    while warps < _MOST and size > warps * LANES * elements:
        warps *= 2
    return warps


def _elements(function: Function) -> int:
    """The elements of a thread that suit a kernel which reduces nothing."""
    accesses = function.ops_of((Load, LoadView, Store, StoreView))
    computed = [op for op in function.walk() if op.spec.elementwise and not isinstance(op, Cast)]
    tiles = [op.value if isinstance(op, (Store, StoreView)) else op.result for op in accesses]
    little = len(computed) <= _LITTLE and all(isinstance(op, (Add, Sub, Mul, Cmp, Select)) for op in computed)
    if not little or function.ops_of((LoopOp, Permute)) or len({v.tile.size for v in tiles}) > 1:
        return _ELEMENTS
    aligned = [is_aligned(op) for op in accesses]
    if all(aligned):
        return _ELEMENTS_TO_MOVE
    if None in aligned or any(max(v.tile.shape) < v.tile.size for v in tiles):
        return _ELEMENTS
    return (_COMPUTED_ANYWHERE if computed else _COPIED_ANYWHERE) // max(v.tile.element.bytes for v in tiles)


def is_aligned(op: MemoryOp) -> bool | None:
    """Whether all rows of an array begin where the widest accesses can; None for what is accessed by pointers."""
    view = op.view.op if isinstance(op, (LoadView, StoreView)) else None
    if not isinstance(view, MakePartitionView) or not isinstance(view.view.op, MakeTensorView):
        return None
    return all(isinstance(v.op, AssumeDivisible) for v in (view.view.op.base, *view.view.op.strides))


def hold_rows(function: Function, size: int) -> bool:
    """Whether a CTA has registers for tiles of ``size`` elements that are reduced."""
    return bool(_fitting(_words_of_an_element(function, size) * size))


def _fitting(words: float, most: float = _SPILLED) -> list[int]:
    """With how many warps the threads have room for ``words``, or need up to ``most`` times what there is."""
    return [w for w in (1, 2, 4, 8, 16) if _registers(words, w) <= most * most_registers(w * LANES)]


def _registers(words: float, warps: int) -> float:
    return _OTHER_REGISTERS + words / (warps * LANES)


def _warps_of_rows(function: Function, size: int, blocks: int) -> int:
    """For tiles of up to ``size`` elements that are reduced."""
    loads = [op for op in function.ops_of((Load, LoadView)) if not isinstance(op.parent, If)]  # what is rare
    sizes = {op: op.results[0].tile.size * _bits(op.results[0]) // 8 for op in loads}
    row = max(sizes.values(), default=size * 4)
    words = _words_of_an_element(function, size) * size
    short, given = size, function.hints.get(SHORT_ROWS)
    if isinstance(given, int):
        words, row, short = words * given / size, row * given // size, given
    loops = [op.parent for op in loads if isinstance(op.parent, LoopOp)]
    combined = [op for loop in dict.fromkeys(loops) for op in loop.walk() if isinstance(op, CombiningOp)]
    looped = not all(map(_is_added_up, combined))
    if not loops:  # a CTA waits for all at once
        row = max(row, sum(n for op, n in sizes.items() if _is_reduced(op)))
    writes = any(has_effect(op, Effect.WRITE) for loop in loops for op in loop.walk())
    resident = _RESIDENT_WARPS if writes or not combined else _RESIDENT_WARPS_TO_REDUCE
    reduces = [op for op in function.ops_of(Reduce) if op.values[0].tile.size == size]
    across, long = not combined and any(map(_is_across, reduces)), any(map(has_long_lines, reduces))
    if across and long:
        words *= _REGISTERS_ACROSS
    if across or long:
        resident = _RESIDENT_WARPS_TO_REDUCE
    if short < size:
        resident = min(resident, _RESIDENT_WARPS_OF_SHORT_ROWS)
    if any(math.prod(shape) == size for shape in state_shapes(function)):
        return _warps_with(size, _ELEMENTS_OF_STATE, _FEWEST)
    sums = any(init.tile.size == size for loop in loops for init in loop.inits)
    if sums and not combined:  # its loops only move tiles
        return 1 if size <= LANES * _ELEMENTS_OF_ONE_WARP else _warps_with(size, _ELEMENTS, _FEWEST)
    line = all(op.values[0].tile.shape[op.axis] == size for op in reduces)
    online = any(isinstance(op, (Exp, Exp2)) for loop in loops for op in loop.walk())  # waits when a loop has ended
    short_line = LANES * (_MOST_OF_LOOPING_WARP if looped else _MOST_OF_ONE_WARP)
    if line and size <= short_line and not (looped and online) and not blocks and 1 in _fitting(words, 1):
        return 1

    def merit(warps: int) -> tuple[float, int, int, int]:
        part = warps * LANES * _VECTOR
        held = short if short == size else min(-(-short // part) * part, size)  # elements that registers are for
        each = -(-min(_registers(words * held / short, warps), most_registers(warps * LANES)) // 8) * 8
        ctas = min(int(SM_REGISTERS // (each * warps * LANES)), _WARPS // warps, _CTAS)
        return min(ctas * row / _RESIDENT_BYTES, 1), min(ctas * warps, resident), -held, -warps

    # More where a CTA waits for the next row; one where no thread has more than it hides the latency of.
    fewest = 4 if looped else 1 if short <= LANES * _ELEMENTS_OF_ONE_WARP else 2
    if blocks == 1 and (writes or not looped):  # nothing else is on the SM
        fewest = max(fewest, min(size // (LANES * _ELEMENTS), _WARPS_OF_ONE_BLOCK))
    room = 1 if combined else _SPILLED  # what is spilled in a loop is so in each iteration
    fitting = [w for w in _fitting(words, room) if w >= fewest]
    fits = _registers(words, _WARPS_OF_ONE_PART) <= most_registers(_WARPS_OF_ONE_PART * LANES)
    fits = fits and max(sizes.values(), default=0) <= _MOST_OF_ONE_PART
    if size >= _LONG_PART and fits and fewest <= _WARPS_OF_ONE_PART and function.ops_of(ClusterGather):
        return _WARPS_OF_ONE_PART
    if sums and len(combined) > 1:  # a CTA waits more than once for all, and no other one hides that
        return min(fitting, default=_MOST)
    return max(fitting, key=merit, default=_MOST)


def state_shapes(function: Function) -> set[tuple[int, ...]]:
    """Shapes of tiles that loops carry, and of which some are loaded, but not in these: states of recurrences, if
    vectors change them."""
    loads, carried = function.ops_of((Load, LoadView)), set()
    for loop in function.ops_of(LoopOp):
        inside = {op.results[0].tile.shape for op in loads if op.parent is loop}
        carried |= {v.tile.shape for v in loop.carried if isinstance(v.type, TileType)} - inside
    return {t.shape for op in loads if (t := op.results[0].tile).rank == 2 and min(t.shape) > 1} & carried


def has_long_lines(op: Reduce) -> bool:
    """Whether ``op`` reduces several long lines, each for itself."""
    t = op.values[0].tile
    shaped = [o.result for v in op.results for o in v.users if isinstance(o, Reshape)]
    further = any(isinstance(user, Reduce) for v in (*op.results, *shaped) for user in v.users)
    return t.size > t.shape[op.axis] >= _LONG_LINE and not further


def _is_across(op: Reduce) -> bool:
    """Whether ``op`` reduces columns, whose rows warps share: a step of the delta rule, 128x64 a block, has 3,698 GB/s
    with eight warps, 2,094 with 16 (one H200)."""
    t = op.values[0].tile
    return t.size > t.shape[op.axis] and any(n > 1 for n in t.shape[op.axis + 1 :])


def _is_added_up(op: Op) -> bool:
    """Whether ``op`` is a sum along rows that a loop adds to one that it carries: threads exchange that when the loop
    has ended."""
    loop = op.parent
    if not isinstance(loop, For) or not isinstance(op, Reduce) or not isinstance(op.body.ops[0], Add):
        return False
    value, t = op.results[0], op.values[0].tile
    while len(value.users) == 1 and isinstance(reshape := next(iter(value.users)), Reshape):
        value = reshape.result
    users = list(value.users)
    along_rows = op.axis == t.rank - 1 and value.tile.rank in (0, t.rank)
    return along_rows and all(
        isinstance(u, Add)
        and any(v in loop.carried for v in u.operands)
        and list(u.result.users) == [loop.body.terminator]
        for u in users
    )


def _is_reduced(op: Op) -> bool:
    """Whether what ``op`` loads is combined."""
    return any(isinstance(o, CombiningOp) for o in reachable([op], lambda o: (u for r in o.results for u in r.users)))


def _words_of_an_element(function: Function, size: int) -> float:
    """The registers that tiles of ``size`` elements take for each element, where most of them live."""
    ranges = LiveRanges(function)
    lives: dict[Value, _Life] = {}
    behind = 0  # loads are made as soon as what is before them has ended
    for op, i in ranges.first.items():
        if isinstance(op.parent, CombiningOp):
            continue
        for value in (*op.results, *(a for r in op.regions for a in r.args if not isinstance(op, CombiningOp))):
            if not isinstance(value.type, TileType) or value.type.size != size or value.type.is_pointer:
                continue
            root = _root(value)
            begin = behind if isinstance(op, (Load, LoadView)) else ranges.last[op] if value.owner is op else i
            life = lives.setdefault(root, _Life(begin, begin, _bits(root) / 32 if _stays(root) else 0))
            users = (user for user in value.users if not isinstance(user, CombiningOp))
            life.end = max(life.end, ranges.end(users, value.block))
        if op.regions:
            behind = ranges.last[op] if isinstance(op, CombiningOp) else i
    return max(max_live((life.begin, life.end, life.words) for life in lives.values()), 1)


@dataclass
class _Life:
    """From which op on to which one a tile has registers, and how many for an element."""

    begin: int
    end: int
    words: float


def _root(value: Value) -> Value:
    """What has the registers of ``value``: conversions of narrow numbers are made where they are used."""
    op = value.op
    if isinstance(op, (Reshape, Permute)) or (isinstance(op, Cast) and _bits(op.x) < 32):
        return _root(op.x)
    return value


def _bits(value: Value) -> int:
    t = value.tile
    return 64 if t.is_pointer else t.element.bitwidth


def _stays(value: Value) -> bool:
    """Whether a tile has registers: indices and addresses are computed again where they are used."""
    if isinstance(value.op, (Broadcast, Constant)):
        return False
    memory = isinstance(value.op, (Load, LoadView, AtomicRmw, AtomicCas)) or isinstance(value.owner, Block)
    return memory or value.tile.element.is_floating


def _kept(op: Op) -> int:
    """The elements of the largest result of ``op`` that stays in registers: indices and addresses are recomputed."""
    memory = isinstance(op, (Load, LoadView, AtomicRmw, AtomicCas))
    tiles = [r.type for r in op.results if isinstance(r.type, TileType) and not r.type.is_pointer]
    return max((t.size for t in tiles if memory or t.element.is_floating or t.element.bitwidth < 32), default=0)
