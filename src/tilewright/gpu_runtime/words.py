"""Words of 64 bits in memory by which the machine code of launches knows kernels, variants, tensor maps and lists, and
what it does with them."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from tilewright.backends.native.body import Body
from tilewright.backends.native.values import Word


class Fields(tuple[str, ...]):
    """The names of words that lie one after the other. Offsets are in bytes."""

    def __new__(cls, names: str) -> Fields:
        return super().__new__(cls, names.split())

    def packed(self, **values: int) -> Any:
        assert set(values) == set(self)
        return _words([values[name] for name in self])

    def place_in_table(self, row: int, name: str, behind: int = 0) -> int:
        """Which word of a table of such rows, with so many words ``behind`` each, this one of a row is."""
        return 1 + row * (len(self) + behind) + self.index(name)


def _words(numbers: Sequence[int]) -> Any:
    return (ctypes.c_uint64 * len(numbers))(*numbers)


def table(rows: Iterable[Iterable[int]]) -> Any:
    """Rows of words behind their number."""
    given = list(rows)
    return _words([len(given), *itertools.chain(*given)])


MOST_AXES = 5  # of a tensor map
CONFIG_BYTES = 56  # of CUlaunchConfig

# What functions give below 0, where nothing has happened: Python makes the launch, arrays have no maps, memory for
# nothing is needed, copies do not pay, a graph cannot record that lists are copied. Below ``MISSING`` stand the numbers
# of choices that were not there, and below ``COPIER`` those of maps, twice, and one more for a copy of aligned rows,
# whose kernel was not.
PYTHON, UNMAPPED, EMPTY, UNCOPIED, RECORDED, MISSING, COPIER = -1, -2, -3, -4, -5, -6, -(1 << 20)
ENCODING = 1 << 32  # is added to errors of encoding a tensor map
OWN = -1  # in place of the number of a choice: the kernel itself
NUMBER, TABLE, MEMORY = range(3)  # where a parameter is: among the values, where one of them points to, in ``start``
# What is in the memory of ``start``, in front of tensor maps, at these bytes.
WIDTH_AT, NULL_AT, ROOM_AT = 0, 8, 16
NEVER, UNALIGNED, TRANSPOSED = range(3)  # when an array is copied

# A kernel on a device: where tables of maps, bounds and parameters are, the bytes of memory that a block needs, and the
# number of attributes where the width of a grid is odd. With a ``pool`` launches borrow memory. Behind it is a
# CUlaunchConfig. A parameter is at 4 times an offset, and one of the places above.
KERNEL = Fields(
    "handle encode nothing bounds choices maps parameters extent x y z ctas blocks odd pool room context current "
    "borrow free"
)
BOUND = Fields("offset least")  # of a value
EXTENT = Fields("offset factor addend up divisor")  # of the grid along its first axis, of a value: ``grid_extent``
CHOICES = Fields("rows processors joined")  # of a kernel that joins so many blocks
# By the fields of ``Choice``, and the kernel where it is there. The limit is a number of blocks, a value or a per cent
# of SMs, the parameters a table of offsets. Behind those that are counted are the kernel that copies nothing, and the
# one without maps.
CHOICE = Fields("number kernel joined x y z limit parameters")
# What cuTensorMapEncodeTiled is given, the base as an offset. ``copied`` is one of the numbers above, ``item`` the
# bytes of an element, ``tile`` the rows of a tile, ``worth`` the steps from which a transposed copy pays, and where
# kernels are that copy. Behind it are axes, the innermost one first.
MAP = Fields("element rank base box ones interleave swizzle promotion outside copied item tile worth copier aligned")
AXIS = Fields("extent factor more stride stride_factor more_stride")  # values at offsets, times a factor, and more
BEHIND_MAP = MOST_AXES * len(AXIS)
# An array that a map is of. Where it is ``moved``, the base is that of a copy in the memory of the launch, which a
# kernel is to ``write`` if it is the first map of that; ``step`` is then the bytes from row to row at the ``source``.
ARRAY = Fields("base source step moved write " + " ".join(f"{of}{i}" for of in ("extent", "step") for i in range(5)))
# A table, of which a copy is made at the end of so much room, or at a place of memory that is lent, where its rows are
# then at another one; and the offsets of the addresses in its rows and of those, or of maps with them, in the copy.
LIST = Fields("offset room place rows begin size source words maps")
PATCH = Fields("row target")
# A number of 64 bits that the kernel takes with so many bits of its fraction, the first one not stored, and exponents
# from the ``least`` on, as a float whose bits are at ``most`` those of infinity, and whose sign is so much.
FLOAT = Fields("offset precision least most sign")
# A kernel as launches enter it: ``lent`` bytes of the device are for its lists, which the ``KERNEL`` at ``lender`` can
# borrow.
ENTRY = Fields("launch kernel floats lists lent lender replace copy send capturing allocate release save restore")


def value_at(body: Body, offset: object) -> Word:
    """A number among the ``%values`` of a launch."""
    return Word(body, body.load("i64", body.element("%values", offset)))


def error_of(body: Body, function: str, given: str) -> Word:
    """The error number that a function of the driver gives."""
    return Word(body, body.op("zext i32", f"{body.op(f'call i32 {function}({given})')} to i64"))
