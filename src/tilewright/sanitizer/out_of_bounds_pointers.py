"""Pointers that leave their array.

Moving a pointer outside its array is undefined even if nobody follows it (C++ reference 2.2.26), yet the programming
guide computes whole tiles of pointers and masks off accesses through those that are outside. So such a pointer is
reported at the end of its block, or when it comes back, unless an access has left it out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.ir.core import Op, Value
from tilewright.ir.ops.arith import Bitcast, Select
from tilewright.ir.ops.shape import Broadcast, Cat, Extract, Permute, PtrOffset, Reshape
from tilewright.records import dataclass

_PASSES_ON = (PtrOffset, Broadcast, Reshape, Permute, Cat, Extract, Select, Bitcast)
_MANY = 4096  # of these a block may collect before those that were settled are dropped


@dataclass
class OutOfBoundsPointer:
    """Pointers that left their array; ``report`` says so."""

    report: Callable[[], None]
    settled: bool = False


class OutOfBoundsPointers:
    """The out-of-bounds pointers of a block, by the values that hold them or come from them."""

    def __init__(self) -> None:
        self._of: dict[Value, list[OutOfBoundsPointer]] = {}
        self._all: list[OutOfBoundsPointer] = []

    def left(self, op: PtrOffset, report: Callable[[], None]) -> None:
        """The pointers that ``op`` moves left their array, and its operand was inside or is known already."""
        if op.ptr in self._of:
            return
        pointer = OutOfBoundsPointer(report)
        self._of[op.results[0]] = [pointer]
        if len(self._all) >= _MANY:
            self._all = [s for s in self._all if not s.settled]
        self._all.append(pointer)

    def passed_on(self, op: Op) -> None:
        """``op`` has run: what comes from such pointers is outside, too."""
        if not self._of or not isinstance(op, _PASSES_ON):
            return
        found = [s for v in op.operands for s in self._of.get(v, ())]
        if found:
            self._of[op.results[0]] = found

    def bound(self, targets: Sequence[Value], sources: Sequence[Value]) -> None:
        """Control flow hands values on."""
        if self._of:
            for target, found in zip(targets, [self._of.get(s) for s in sources]):
                if found is None:
                    self._of.pop(target, None)
                else:
                    self._of[target] = found

    def used(self, pointers: Value, *, outside: bool) -> bool:
        """An access through ``pointers``; ``outside`` when it follows one that is outside. Whether any is."""
        found = self._of.get(pointers, ())
        for pointer in found:
            if outside:
                self._settle(pointer)
            pointer.settled = True
        return bool(found)

    def came_back(self, pointers: Value) -> None:
        """Such ``pointers`` are moved, and none is outside any longer."""
        for pointer in self._of.pop(pointers, ()):
            self._settle(pointer)

    def end(self) -> None:
        """The block has ended: report what no access accounts for."""
        for pointer in self._all:
            self._settle(pointer)

    @staticmethod
    def _settle(pointer: OutOfBoundsPointer) -> None:
        if not pointer.settled:
            pointer.settled = True
            pointer.report()
