"""Enumerations that appear as op attributes and in the public language (data model)."""

from __future__ import annotations

import enum


class RoundingMode(enum.Enum):
    """How the exact result of a floating-point operation is mapped to a representable value.

    On integer ``div`` and ``rem`` the IR uses RZ, RM and RP for C, floor and ceiling division.

    >>> ct.add(np.float32(1), np.float32(1e-8), rounding_mode=ct.RoundingMode.RP) > 1
    Tile(True, dtype=bool_)
    """

    RN = "nearest_even"
    RZ = "zero"
    RM = "negative_inf"
    RP = "positive_inf"
    RA = "nearest_away"
    FULL = "full"
    APPROX = "approx"
    RZI = "nearest_int_to_zero"


class PaddingMode(enum.Enum):
    """The value that a load gives to tile elements which lie outside the array.

    >>> ct.load(np.arange(3.0), (0,), (4,), padding_mode=ct.PaddingMode.NEG_INF)
    Tile([  0.,   1.,   2., -inf], dtype=float64)
    """

    UNDETERMINED = "undetermined"
    ZERO = "zero"
    NEG_ZERO = "neg_zero"
    NAN = "nan"
    POS_INF = "pos_inf"
    NEG_INF = "neg_inf"


class MemoryOrder(enum.Enum):
    """Memory order of a memory operation; WEAK means not atomic.

    >>> counter = np.zeros(1, np.int32)
    >>> ct.atomic_add(counter, (0,), 5, memory_order=ct.MemoryOrder.RELAXED)  # the old value
    Tile(0, dtype=int32)
    """

    WEAK = "weak"
    RELAXED = "relaxed"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"


class MemoryScope(enum.Enum):
    """The threads that a strong memory operation can synchronize with.

    >>> counter = np.zeros(1, np.int32)
    >>> ct.atomic_add(counter, (0,), 5, memory_scope=ct.MemoryScope.DEVICE)  # the old value
    Tile(0, dtype=int32)
    """

    NONE = "none"
    BLOCK = "block"
    CLUSTER = "cluster"
    DEVICE = "device"
    SYS = "sys"


class CmpPredicate(enum.Enum):
    """Comparison of a ``cmp`` op. With a NaN operand only NE is true."""

    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"


class AtomicKind(enum.Enum):
    """How an ``atomic_rmw`` combines the old value in memory with its operand."""

    XCHG = "xchg"
    ADD = "add"
    MAX = "max"
    MIN = "min"
    AND = "and"
    OR = "or"
    XOR = "xor"
