"""Which value ranges of tiles the code can find at run time, in front of the loops that they are for.

``codegen.value_ranges`` emits the code, for exactly what is known here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from tilewright.backends.cpu.loops.kinds import ASSUMPTIONS
from tilewright.ir.core import Value
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.ops.arith import Add, And, Cmp, Mul, keeps_integers
from tilewright.ir.ops.memory import Load, StoreView
from tilewright.ir.ops.shape import REARRANGING, Constant, Iota, PtrOffset
from tilewright.records import NamedTuple, dataclass

WIDE_BITS = 128  # of the numbers that ranges are computed with: nothing wraps around
ORDERED = frozenset({CmpPredicate.LT, CmpPredicate.LE, CmpPredicate.GT, CmpPredicate.GE})


# Elements of a tile, for each that a runtime check looks at: looking then costs a small part of what the loops for the
# tile do, and tiles of indices (a row or a column of the tile of pointers) are looked at. Gathers take as long with 1
# and 256, a histogram takes 8 % less with 256: benchmarks/results/constants.md.
_WORTH_A_SEARCH = 16


def largest_search(op: Load) -> int:
    """How many elements a check of ``op`` may look at."""
    return op.result.tile.size // _WORTH_A_SEARCH


@dataclass(eq=False, repr=False)
class KnownRanges:
    """Ranges of tiles, down to those that ``is_leaf``: loops may look at ``largest`` elements of these, and of others
    whose elements have to be computed for it, which ``search`` is told before."""

    is_leaf: Callable[[Value], bool]
    largest: int
    search: Callable[[Value], None] = lambda _: None
    _known: dict[Value, int | None] = field(default_factory=dict)

    def all_true(self, mask: Value) -> bool:
        """Whether ranges tell if every element of ``mask`` is true."""
        op = mask.op
        if mask.tile.size == 1:
            return True
        if op is None or self.is_leaf(mask):
            return False
        if isinstance(op, REARRANGING):
            return self.all_true(op.x)
        if isinstance(op, And):
            left, right = self.all_true(op.lhs), self.all_true(op.rhs)  # both: each may have to be kept in a buffer
            return left and right
        if not isinstance(op, Cmp) or op.predicate not in ORDERED:
            return False
        return None not in [self._bits(v) for v in op.operands]

    def is_known(self, value: Value) -> bool:
        """Whether the range of ``value`` can be found."""
        return self._bits(value) is not None

    def _bits(self, value: Value) -> int | None:
        """Bits of the signed numbers that hold the range; None when there is none, or it is not worth its cost."""
        if value not in self._known:
            t = value.tile
            integers = t.is_pointer or (t.element.is_integer and not t.element.is_bool and t.element.bitwidth <= 64)
            self._known[value] = self._find(value) if integers else None
        return self._known[value]

    def _find(self, value: Value) -> int | None:
        if value.tile.size == 1:
            return range_bits(value)
        source = range_source(value, self.is_leaf)
        if source is None:
            return self._search(value)
        if isinstance(source, tuple):
            return max(map(int.bit_length, source)) + 1
        if isinstance(source, Value):
            return self._bits(source)
        left, right = map(self._bits, source.operands)
        if left is None or right is None:
            return None
        bits = combined_bits(source, left, right)
        return bits if bits < WIDE_BITS else None

    def _search(self, value: Value) -> int | None:
        """Loops look at every element."""
        t = value.tile
        if t.is_pointer or t.size > self.largest:
            return None
        self.search(value)
        return range_bits(value)


def range_source(
    value: Value, is_leaf: Callable[[Value], bool]
) -> tuple[int, int] | Value | Add | Mul | PtrOffset | None:
    """What the range of a tile of several elements follows from: its least and greatest element, the range of another
    tile, or those of the operands of an op; None where loops have to look at every element."""
    op, t = value.op, value.tile
    if op is None or is_leaf(value):
        return None
    if isinstance(op, Constant):
        return int(op.value), int(op.value)
    if isinstance(op, Iota) and t.size <= 1 << (t.element.bitwidth - t.element.is_signed):
        return 0, t.size - 1
    if isinstance(op, REARRANGING + ASSUMPTIONS) or keeps_integers(op):
        return op.x
    wraps = not t.is_pointer and not (t.element.bitwidth == 64 and t.element.is_signed)
    return op if isinstance(op, (Add, Mul, PtrOffset)) and not wraps else None


class PossibleChecks(NamedTuple):
    """What a ``check_load`` can find out: is the mask true everywhere; are the elements others than those stored?"""

    masked: bool
    compared: bool


def possible_checks(ranges: KnownRanges, op: Load, store: StoreView | None) -> PossibleChecks:
    """What can be asked of ``op``, which is fused with ``store``, where ``ranges`` are known."""
    masked = op.mask is not None and ranges.all_true(op.mask)
    compared = store is not None and (op.mask is None or masked) and ranges.is_known(op.ptrs)
    return PossibleChecks(masked, compared)


def combined_bits(op: Add | Mul | PtrOffset, left: int, right: int) -> int:
    """Bits of the range of ``op`` for those of its operands; elements of a pointer have at most 16 bytes."""
    if isinstance(op, Mul):
        return left + right
    return max(left, right + 4 if isinstance(op, PtrOffset) else right) + 1


def range_bits(value: Value) -> int:
    """Bits of the signed numbers that hold every element of ``value``."""
    op, t = value.op, value.tile
    if op is not None and (isinstance(op, REARRANGING + ASSUMPTIONS) or keeps_integers(op)):
        return range_bits(op.x)
    return 65 if t.is_pointer else t.element.bitwidth + (not t.element.is_signed)
