"""Operands of MMA ops that threads put into shared memory, where warp groups read them, and how they lie there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from tilewright.analysis.gpu.contiguity import Contiguity
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.mma_graph import operand_source
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.dtypes import DType, tfloat32
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.tma import SWIZZLES, swizzled_layout
from tilewright.ir.ops.gpu.wgmma import MOST_COLUMNS, ROWS, readable
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import Load, LoadView
from tilewright.ir.ops.shape import Broadcast, Permute, Reshape, constant_of
from tilewright.ir.reachable import operands_within, reachable
from tilewright.ir.types import SharedType, TileType
from tilewright.transforms.gpu.layout_choice import widest_access

COPIES = 3  # one that the MMA op in flight reads, and two that run ahead: benchmarks/results/gpu_products.md
WAITED_COPIES = 2  # where the MMA op is waited for before threads put the next one there: other CTAs multiply meanwhile

_MOST_PACKED = 8  # elements that are packed into one, as of 4 bits into 32


@dataclass(frozen=True)
class Staged:
    """How an operand lies in shared memory that threads put there, in how many copies: what they ``load``, also where
    that is seen ``transposed``, or else compute."""

    type: SharedType
    load: Load | None = None
    transposed: Permute | None = None
    copies: int = COPIES


def staged_operands(function: Function) -> dict[Value, Staged]:
    """The operands of 8 and 16 bits of MMA ops in ``function`` that threads load, from elements that they find, or
    compute from what they load, for a loop that only adds, left ones of the only MMA op of a sum; in one copy
    right ones that are computed for the only MMA op of a step that waits for it, as a state that fades does; left
    ones, also of tfloat32, that are computed from what is loaded beside other MMA ops."""
    mmas = function.ops_of(Mma)
    adding, chained = set(filter(is_only_added, mmas)), set(filter(_has_beside, mmas))
    alone = {op for op in adding if not isinstance(op.acc.op, Mma) and not _is_added_to(op)}
    waits = [op for op in mmas if op not in adding and op not in chained and _is_of_rows(op)]
    operands = [(op, k, v) for op in mmas if op in adding for k, v in enumerate((op.x, op.y)) if k == 1 or op in alone]
    groups: list[dict[Value, Staged | None]] = [
        {op.y: _computed(op.y, op, 1, 1) for op in waits},
        {op.x: _scaled(op.x, op) for op in mmas if op in chained},
        {v: _loaded(function, v, op, k) or _computed(v, op, k) for op, k, v in operands},
    ]
    return {v: how for found in groups for v, how in found.items() if how is not None}


def _is_of_rows(op: Mma) -> bool:
    """Whether ``op`` is in a loop that sees no transpose of its sum: what is stored so goes through shared memory, and
    states of Mamba-2 that are computed transposed take 85 us by warp groups, 65 by ``mma.sync`` (one H200)."""
    if not isinstance(op.parent, For):
        return False
    sums = reachable([op.result, op.acc, *op.parent.carried], _seen_as)
    return not any(isinstance(user, Permute) for v in sums if v.tile.size == op.acc.tile.size for user in v.users)


def _seen_as(value: Value) -> list[Value]:
    """What is computed from ``value`` element by element."""
    return [r for op in value.users if op.spec.elementwise or isinstance(op, Reshape) for r in op.results]


def _is_added_to(op: Mma) -> bool:
    return any(isinstance(user, Mma) for user in op.result.users)


def _has_beside(op: Mma) -> bool:
    """Whether the block of ``op`` has other MMA ops; for one of 32 bits, only in loops nested in it."""
    assert op.block is not None
    others = [other for other in op.block.ops if other is not op]
    beside = any(isinstance(other, Mma) for other in others)
    if op.x.tile.element.bytes < 4:
        return beside
    return not beside and any(isinstance(o, Mma) for other in others for o in other.walk())


def _loaded(function: Function, value: Value, op: Mma, k: int) -> Staged | None:
    turned = value.op if isinstance(value.op, Permute) else None
    source = value if turned is None else turned.x
    load, t = source.op, value.tile
    if not isinstance(load, Load) or t.rank != 2 or t.element.bytes > 2:
        return None
    zero = load.padding is None or constant_of(load.padding) == 0
    alone = all(len(list(v.users)) == 1 for v in (value, source)) and load.block is op.block
    if not (zero and alone and load.is_weak):
        return None
    (fastest, *_), _ = widest_access(load, AnalysisManager(function).get(Contiguity))
    inner = fastest if turned is None else turned.axes.index(fastest)
    types = (swizzled(t.shape, axis, t.element) for axis in (inner, 1 - inner))
    suitable = next((of for of in types if of is not None and readable(of, 1 - k)), None)
    return None if suitable is None else Staged(suitable, load, turned)


def _computed(value: Value, op: Mma, k: int, copies: int | None = None) -> Staged | None:
    """An operand of 16 bits that is computed element by element, from no other MMA op, and may be seen transposed. A
    right one that is only converted lies as what is loaded for it. Of one that is seen transposed, and computed from
    bytes for no more columns than rows of several warp groups, there are two copies, as of one that is converted, if
    the number of ``copies`` is not given."""
    t, (seen, transposed) = value.tile, _through_permutes(value)
    source = seen.op
    if source is None or source.block is not op.block or not source.spec.elementwise or t.rank != 2:
        return None
    as_loaded = k == 1 and not transposed and isinstance(operand_source(value), LoadView)
    converted = as_loaded and isinstance(source, Cast)
    if converted or t.element.bytes != 2 or any(isinstance(v.op, Mma) for v in reachable([value], operands_within)):
        return None
    suitable = swizzled(t.shape, 0 if transposed else 1, t.element)
    rows, columns = op.acc.tile.shape
    narrow = any(load.result.tile.element.bytes == 1 for load in tiles_loaded_for(value))
    waited = k == 1 and transposed and narrow and ROWS < rows >= columns
    copies = copies or (WAITED_COPIES if waited else COPIES)
    return Staged(suitable, copies=copies) if suitable is not None and readable(suitable, 1 - k) else None


def _scaled(value: Value, op: Mma) -> Staged | None:
    """A left operand of 16 bits that is computed from a tile of the same block, and from no MMA op, such as keys that
    fade: it lies as that tile does, of which threads have parts of rows. One of tfloat32 lies along k. So does, across
    k, the transpose of what is computed from MMA ops, as for the gradient of queries beside that of keys."""
    t, (source, transposed) = value.tile, _through_permutes(value)
    computed = source.op is not None and source.op.block is op.block and source.op.spec.elementwise
    wide = t.element is tfloat32 and not isinstance(operand_source(value), (Load, LoadView))
    if not computed or t.rank != 2 or (t.element.bytes != 2 and not wide):
        return None
    follows = any(isinstance(v.op, Mma) for v in reachable([source], operands_within))
    kept = wide or not (transposed or _is_wide(op))
    if kept if follows else len(tiles_loaded_for(source)) != 1:
        return None
    suitable = swizzled(t.shape, 0 if transposed and not wide else 1, t.element)
    return Staged(suitable, copies=1) if suitable is not None and readable(suitable, 1) else None


def _is_wide(op: Mma) -> bool:
    """Whether the sum of ``op`` has rows for one warp group, and columns for two."""
    *_, m, n = op.acc.tile.shape
    return m == ROWS and n > MOST_COLUMNS


def divides_columns(op: Mma, staged: dict[Value, Staged]) -> bool:
    """Whether two warp groups can divide the columns of the sum of ``op``, which has rows for one: its left operand is
    in shared memory, where both read it: ``staged``, as it follows from MMA ops, which may have rows for both, or
    loaded, beside an MMA op whose sum is too wide for one."""
    *_, m, n = op.acc.tile.shape
    follows = any(isinstance(v.op, Mma) for v in reachable([op.x], operands_within))
    assert op.block is not None
    beside = any(isinstance(o, Mma) and _is_wide(o) and o.x in staged for o in op.block.ops)
    return m == ROWS and n % 16 == 0 and (op.x in staged if follows else beside)


def _through_permutes(value: Value) -> tuple[Value, bool]:
    """What ``value`` is a permutation of, and whether it is its transpose."""
    transposed = False
    while isinstance(value.op, (Permute, Reshape)):
        transposed ^= isinstance(value.op, Permute) and value.op.axes[-1] != value.tile.rank - 1
        value = value.op.x
    return value, transposed


def tiles_loaded_for(operand: Value) -> list[LoadView]:
    """The tiles of as many elements as ``operand`` that are loaded in its block, and from which it is computed without
    an MMA op; where there are none, those of up to a few times fewer, whose elements hold several of its own."""
    made = operand.op
    loads = [v.op for v in _slice(operand) if isinstance(v.op, LoadView) and v.tile.size <= operand.tile.size]
    loads = [op for op in loads if made is not None and op.block is made.block]
    whole = [op for op in loads if op.result.tile.size == operand.tile.size]
    return whole or [op for op in loads if op.result.tile.size * _MOST_PACKED >= operand.tile.size]


def is_computed_from_tiles(operand: Value) -> bool:
    """Whether ``operand`` is computed element by element from tiles that are loaded beside it, and threads can load
    what they multiply of a left one: by ``ldmatrix`` of 16 bits, also transposed; of 32 bits, and of bytes that lie
    along k, two at once; or words of 32 bits, each of which holds several elements."""
    if operand.tile.element.bytes != 2 or operand.tile.rank != 2:
        return False
    loads = tiles_loaded_for(operand)
    through = {op for load in loads for op in path_to(operand, load)}
    turned = sum(isinstance(op, Permute) for op in through) % 2 == 1
    along_k = turned != any(isinstance(op, Mma) and op.x is operand for op in operand.users)
    tiles = [load.result.tile for load in loads]
    packed = len(tiles) == 1 and tiles[0].element.bytes == 4 and tiles[0].size < operand.tile.size
    alike = all(t.element.bytes in ((1, 2, 4) if along_k else (2, 4)) and t.size == operand.tile.size for t in tiles)
    others = [op for op in through if not isinstance(op, (Permute, Reshape, *((Broadcast,) if packed else ())))]
    return (packed or alike) and bool(others) and all(op.spec.elementwise for op in others)


def path_to(operand: Value, load: LoadView) -> set[Op]:
    """The ops that compute ``operand`` from what is loaded, in the block of ``load``, without an MMA op."""
    before = set(_slice(operand))
    after = reachable([load.result], lambda v: [r for op in v.users for r in op.results if r in before])
    return {v.op for v in after if v.op is not None} - {load}


def is_of_tiles(op: Mma) -> bool:
    """Whether ``op`` follows a loop of other MMA ops, as what a persistent kernel does with the sums of a tile does."""
    assert op.block is not None
    loops = [o for o in op.block.ops[: op.block.ops.index(op)] if isinstance(o, For)]
    return any(isinstance(o, Mma) for loop in loops for o in loop.walk())


def as_loaded(load: LoadView, through: Collection[Op]) -> list[Value]:
    """What is loaded, and that in other shapes and orders, on its way ``through`` ops."""
    moving = [op for op in through if isinstance(op, (Permute, Reshape))]
    return list(reachable([load.result], lambda v: [op.results[0] for op in v.users if op in moving]))


def users_as_loaded(load: LoadView, through: Collection[Op]) -> set[Op]:
    """The ops beside ``load`` that use the tile as it is, and are not on its way ``through`` ops to an MMA op."""
    users = {op for v in as_loaded(load, through) for op in v.users}
    return {op for op in users if op not in through and op.block is load.block and not isinstance(op, Mma)}


def _slice(operand: Value) -> Iterator[Value]:
    """What ``operand`` is computed from in its block, up to results of MMA ops."""
    block = None if operand.op is None else operand.op.block

    def sources(v: Value) -> Sequence[Value]:
        return v.op.operands if v.op is not None and v.op.block is block and not isinstance(v.op, Mma) else ()

    return reachable([operand], sources)


def is_only_added(op: Mma) -> bool:
    """Whether the loop around ``op`` does nothing with its sum but to add to it, in one MMA op after another."""
    loop, first, last = op.parent, op, op
    if not isinstance(loop, For) or op.block is not loop.body:
        return False
    while isinstance(before := first.acc.op, Mma) and list(before.result.users) == [first]:
        first = before
    while isinstance(after := next(iter(last.result.users), None), Mma) and after.acc is last.result:
        if list(last.result.users) != [after]:
            return False
        last = after
    carried = first.acc in loop.carried and list(first.acc.users) == [first]
    return carried and list(last.result.users) == [loop.body.terminator]


def swizzle_of(row_bytes: int) -> int | None:
    return next((s for s in SWIZZLES if row_bytes % s == 0), None)


def swizzled(shape: Sequence[int], inner: int, dtype: DType) -> SharedType | None:
    """How an operand of ``shape`` lies in shared memory along its axis ``inner``, if rows are long enough for that."""
    swizzle = swizzle_of(shape[inner] * dtype.bytes)
    return None if swizzle is None else SharedType(dtype, swizzled_layout(shape, inner, swizzle, dtype.bytes))


def staged_type(t: TileType, k_axis: int = 0) -> SharedType | None:
    """How an operand that is computed lies in shared memory, with k along ``k_axis``: along its columns, which threads
    have side by side, unless these are too few to be swizzled."""
    for inner in (1, 0) if t.rank == 2 else ():
        found = swizzled(t.shape, inner, t.element)
        if found is not None and readable(found, k_axis):
            return found
    return None
