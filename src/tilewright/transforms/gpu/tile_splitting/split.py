"""Which kernels are divided among how many blocks, and along which axes of the tiles that they store."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice, product
from typing import NamedTuple

from tilewright.analysis.alias import AliasAnalysis, MemoryObject, may_alias
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.core import Function
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.control import LoopOp
from tilewright.ir.ops.memory import Store, StoreView
from tilewright.ir.types import PartitionViewType, Type
from tilewright.transforms.gpu.tile_splitting.demand import MOVES, STORES, Axis, CannotSplit
from tilewright.transforms.gpu.tile_splitting.joiner import TileJoiner
from tilewright.transforms.gpu.tile_splitting.splitter import TileSplitter
from tilewright.transforms.pipelines import optimize

_MOST_CHOICES = 64  # of axes of stored tiles, that are tried


class Split(NamedTuple):
    """A function that takes the place of another where ``blocks`` blocks take the place of each."""

    function: Function
    blocks: int


def cluster_size(function: Function) -> int:
    """How many CTAs of a cluster run ``function`` in the place of one: more than one after ``SplitMma``."""
    return 1


def divide(function: Function, blocks: int) -> Split:
    """``function`` for up to ``blocks`` blocks, a power of two, in the place of each: neighbours along the first axis
    of the grid. For one where a block would have to know what another one computes or stores."""
    reached = 1
    while reached < blocks and (halved := _halved(function)) is not None:
        function, reached = optimize(halved), 2 * reached
    return Split(function, reached)


def joined(function: Function, axis: int) -> Function | None:
    """The kernel of two blocks of ``function`` that follow each other along this axis of the grid; None where they have
    more than tiles of their own, or might wait for each other."""
    if not is_independent(function):
        return None
    try:
        return TileJoiner(function, axis).function()
    except CannotSplit:
        return None


def _halved(function: Function) -> Function | None:
    stores = [op for op in function.walk() if isinstance(op, STORES)]
    if not stores or not is_independent(function):
        return None
    for axes in islice(product(*map(_axes, stores)), _MOST_CHOICES):
        chosen = dict(zip(stores, axes))
        if keep_their_order(function, chosen):
            try:
                return TileSplitter(function, chosen).function()
            except CannotSplit:
                continue
    return None


def _axes(store: Store | StoreView) -> list[int]:
    """The axes of what is stored, the longest first."""
    shape = store.value.tile.shape
    return sorted((a for a, n in enumerate(shape) if n > 1), key=lambda a: -shape[a])


def is_independent(function: Function) -> bool:
    """Whether parts of ``function`` need not wait for each other: it only loads and stores, and no array is both. Where
    it stores to arrays of a list, which may overlap, it also loads from that list: the rows of its table."""
    roots = AnalysisManager(function).get(AliasAnalysis)
    reads, writes = set[MemoryObject](), set[MemoryObject]()
    for op in function.walk():
        effect = op.spec.effect
        if effect == Effect.NONE:
            continue
        if not isinstance(op, MOVES) or not op.is_weak:
            return False
        (writes if isinstance(op, STORES) else reads).add(roots.underlying_object(op.address))
    return not any(may_alias(root, writes) for root in reads)


def keep_their_order(function: Function, axes: Mapping[Store | StoreView, Axis]) -> bool:
    """Whether stores to one address, divided along ``axes``, are of one block: they have the same tiles there, or no
    axis."""
    roots = AnalysisManager(function).get(AliasAnalysis)
    looped = {op for loop in function.walk() if isinstance(loop, LoopOp) for op in loop.body.walk()}
    objects = [roots.underlying_object(store.address) for store in axes]
    kinds: dict[MemoryObject, set[tuple[Type | None, Axis]]] = {}
    for (store, axis), stored in zip(axes.items(), objects):
        view = None if axis is None else store.address.type
        if isinstance(view, PartitionViewType):
            if view.steps != view.tile_shape:
                return False
        elif view is not None and (store in looped or objects.count(stored) > 1):
            return False
        kinds.setdefault(stored, set()).add((view, axis))
    return all(len(kind) == 1 for kind in kinds.values()) and (None not in kinds or len(kinds) == 1)
