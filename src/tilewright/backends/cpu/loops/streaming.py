"""The pass that chooses which nests store past the caches."""

from __future__ import annotations

from typing import ClassVar

from tilewright.analysis.alias import AliasAnalysis, may_alias
from tilewright.analysis.manager import AnalysisManager
from tilewright.backends.cpu.loops.fused import root_of
from tilewright.backends.cpu.loops.kinds import view_strides
from tilewright.backends.cpu.scratch import element_bytes
from tilewright.ir.core import Function, Op
from tilewright.ir.effects import is_ordered
from tilewright.ir.ops.loops import LoopNest
from tilewright.ir.ops.memory import AtomicCas, AtomicRmw, StoreView
from tilewright.transforms.base import InPlacePass

_DRAINING = (AtomicRmw, AtomicCas)
_LEAST_BYTES = 16  # that an instruction can store past the caches (movntps of SSE, stnp of Arm)


class StreamStores(InPlacePass):
    """Marks the nests that store vectors of consecutive elements to an array that the kernel never reads.

    A store that misses the caches first reads the line that it is going to fill, which costs half as much again as the
    copy of an array should; a non-temporal store does not. It pays when the array does not fit into the caches, which
    is seen at run time.

    Functions with ordered loads and stores are left alone, which do not order non-temporal stores. Read-modify-writes
    do: locked instructions of x86 drain the buffers of such stores.
    """

    name: ClassVar[str] = "stream-stores"

    def change(self, function: Function) -> bool:
        """Never fails."""
        ops, changed = list(function.walk()), False
        if any(is_ordered(op) and not isinstance(op, _DRAINING) for op in ops):
            return False
        alias = AnalysisManager(function).get(AliasAnalysis)
        read, _ = alias.accessed(ops)
        for op in ops:
            if isinstance(op, LoopNest) and _can_stream(op, root_of(op)):
                root = root_of(op)
                assert isinstance(root, StoreView)
                if not may_alias(alias.underlying_object(root.view), read):
                    op.add_version("streaming")
                    changed = True
        return changed


def _can_stream(nest: LoopNest, root: Op | None) -> bool:
    """Whether the loops of ``nest`` store vectors to consecutive elements."""
    if not isinstance(root, StoreView) or nest.lanes * element_bytes(root.value.tile.dtype) < _LEAST_BYTES:
        return False
    innermost = root.value.tile.shape[-1:]
    return innermost > (nest.lanes,) and view_strides(root)[-1] == 1
