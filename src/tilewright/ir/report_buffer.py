"""The buffer that the blocks of a GPU launch print into, and report the first failed assert.

It holds 64-bit words. First comes the header: how many words the prints took, then the first failed assert (its site
plus one, the block, the element, the values). The records of the prints follow ``HEADER``: site, block, and the
elements of each value as bits.
"""

from __future__ import annotations

from tilewright.ir.core import Function, Op
from tilewright.ir.ops.memory import Assert, Print

HEADER = 24
FAILED_SITE, FAILED_BLOCK, FAILED_ELEMENT, FAILED_VALUES = 1, 2, 5, 6
MOST_VALUES = HEADER - FAILED_VALUES
WORDS = 1 << 20
RECORD = 4  # words before the values: site and block


def sites(function: Function) -> list[Op]:
    """The ops that report, in the order of their numbers."""
    return [op for op in function.walk() if isinstance(op, (Print, Assert))]


def record_words(op: Op) -> int:
    """The length of the record of a print."""
    return RECORD + sum(v.tile.size for v in op.operands)
