"""LLVM IR as text, without the promises of vector instructions.

LLVM makes vectors of scalar instructions of two kinds, such as an ``and`` and a shift, by doing both with all elements
and taking some of each. An element that nobody takes may break the promise of the other kind, that no bits are shifted
out. The code generator of the LLVM in Triton 3.6 shifts two elements of 32 bits as one of 64 where that is promised, so
that bits of the first get into the second. Without the promise it does not, and little else depends on it.
"""

from __future__ import annotations

import re

_PROMISES = re.compile(r"( = \w+)(?: (?:nuw|nsw|exact|disjoint|nneg|samesign))+( (?:\w+ )?<\d+ x )")


def without_promises(text: str) -> str:
    """``text``, whose instructions on vectors promise nothing."""
    return _PROMISES.sub(r"\1\2", text)
