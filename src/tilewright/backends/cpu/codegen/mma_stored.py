"""Where an array takes what a product computes: lines of it are fetched while the product is under way.

The store goes through memory at once, and waits for each line that is in no cache. The product leaves memory idle.
"""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.cpu.codegen import index, views
from tilewright.backends.cpu.codegen.index import Index
from tilewright.backends.cpu.codegen.state import State, storage_bytes
from tilewright.backends.cpu.scratch import element_bytes
from tilewright.ir.core import Value
from tilewright.ir.effects import is_ordered
from tilewright.ir.ops.control import Continue, For
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import MakePartitionView, MakeTensorView, StoreView
from tilewright.ir.ops.shape import Reshape
from tilewright.records import NamedTuple

# Bytes of a result: larger ones are stored seldom, and push operands out of a second-level cache
# (benchmarks/results/cpu_notes.md).
_LARGEST = 64 << 10


class Stored(NamedTuple):
    """The address of the first element, and the bytes from one row to the next."""

    address: ir.Value
    row: Index


def stored(state: State, op: Mma, value: Value) -> Stored | None:
    """Where a store behind the loops around puts ``value``, what ``op`` computes: as it is, rows of neighbours."""
    store = _store(value)
    if store is None or is_ordered(store):
        return None
    made, t = store.view.op, store.view.partition
    shape, kept = [n for n in t.tile.shape if n > 1], element_bytes(op.result.tile.dtype)
    alike = len(shape) == 2 and shape == list(op.result.tile.shape) and storage_bytes(t.view.dtype) == kept
    if not alike or t.tile.size * kept > _LARGEST:
        return None
    if not isinstance(made, MakePartitionView) or not isinstance(view := made.view.op, MakeTensorView):
        return None
    if not all(v in state.bindings for v in (*view.operands, *store.indices)):
        return None
    before = dict(state.bindings)
    if view.result not in before:
        views.bind_tensor_view(state, view)
    state.bind(made.result, state.view(view.result))
    tile = views.access(state, store)
    state.bindings = before  # these are bound where they stand, too: what is computed here may be in a loop
    row, column = (stride for n, stride in zip(tile.shape, tile.strides) if n > 1)
    return Stored(tile.address, index.mul(state.builder, row, kept)) if column == 1 else None


def _store(value: Value) -> StoreView | None:
    """The store of ``value``, behind loops that carry it and what changes only its form."""
    while len(value.users) == 1:
        (user,) = value.users
        if isinstance(user, StoreView):
            return user
        if isinstance(user, Reshape):
            value = user.result
        elif isinstance(user, For):
            value = user.results[list(user.inits).index(value)]
        elif isinstance(user, Continue) and user.block is not None and isinstance(loop := user.block.parent, For):
            value = loop.results[list(user.operands).index(value)]
        else:
            return None
    return None
