"""Words of 64 bits in memory by which the machine code of launches knows kernels, variants, tensor maps and lists, and
what it does with them."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tilewright.backends.native.body import Body


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


class Word:
    """A value of a function in the making, of 64 bits if it is no condition, whose operators are instructions: division
    is that of numbers without a sign, ``<`` and ``<=`` compare numbers with one."""

    def __init__(self, body: Body, text: object, kind: str = "i64") -> None:
        self.body, self._text, self._kind = body, str(text), kind

    def __str__(self) -> str:
        return self._text

    def _op(self, name: str, other: object, kind: str = "") -> Word:
        return Word(self.body, self.body.op(f"{name} {self._kind}", self, other), kind or self._kind)

    def __add__(self, other: object) -> Word:
        return self._op("add", other)

    def __sub__(self, other: object) -> Word:
        return self._op("sub", other)

    def __mul__(self, other: object) -> Word:
        return self._op("mul", other)

    def __floordiv__(self, other: object) -> Word:
        return self._op("udiv", other)

    def __mod__(self, other: object) -> Word:
        return self._op("urem", other)

    def __and__(self, other: object) -> Word:
        return self._op("and", other)

    def __or__(self, other: object) -> Word:
        return self._op("or", other)

    def __lshift__(self, other: object) -> Word:
        return self._op("shl", other)

    def __rshift__(self, other: object) -> Word:
        return self._op("lshr", other)

    def __lt__(self, other: object) -> Word:
        return self._op("icmp slt", other, "i1")

    def __le__(self, other: object) -> Word:
        return self._op("icmp sle", other, "i1")

    def over(self, unit: object) -> Word:
        """How many units it takes."""
        return (self + unit - 1) // unit

    def equals(self, other: object) -> Word:
        return self._op("icmp eq", other, "i1")

    def differs(self, other: object) -> Word:
        return self._op("icmp ne", other, "i1")

    def exceeds(self, other: object) -> Word:
        """Whether it is more, as numbers without a sign."""
        return self._op("icmp ugt", other, "i1")

    def choose(self, one: object, other: object, kind: str = "i64") -> Word:
        """One where this holds, or the other."""
        return Word(self.body, self.body.op("select i1", self, f"{kind} {one}", f"{kind} {other}"), kind)

    def as_i32(self) -> str:
        return self.body.op("trunc i64", f"{self} to i32")


class Variable:
    """A word on the stack."""

    def __init__(self, body: Body, value: object = 0) -> None:
        self._body, self.address = body, body.stack("i64")
        self.set(value)

    def set(self, value: object) -> None:
        self._body.store("i64", value, self.address)

    @property
    def value(self) -> Word:
        return Word(self._body, self._body.load("i64", self.address))


class Record:
    """Words at an address, by their names."""

    def __init__(self, body: Body, address: str, fields: Sequence[str]) -> None:
        self.body, self.address, self.fields = body, address, fields

    def __getitem__(self, name: str) -> Word:
        return Word(self.body, self.load(name, "i64"))

    def __setitem__(self, name: str, value: object) -> None:
        self.body.store("i64", value, self.address, 8 * self.fields.index(name))

    def load(self, name: str, kind: str = "ptr") -> str:
        return self.body.load(kind, self.address, 8 * self.fields.index(name))

    def place(self, name: str) -> str:
        """The address of a word."""
        return self.body.at(self.address, 8 * self.fields.index(name))

    def end(self) -> str:
        return self.body.at(self.address, 8 * len(self.fields))

    def count(self, name: str) -> Word:
        """The number of rows of a table."""
        return Word(self.body, self.body.load("i64", self.load(name)))

    def row(self, name: str, i: object, fields: Sequence[str], behind: int = 0) -> Record:
        """A row of a table, with so many words ``behind`` each."""
        first = self.body.at(self.load(name), 8)
        return Record(self.body, self.body.element(first, i, 8 * (len(fields) + behind)), fields)

    @contextlib.contextmanager
    def each(self, name: str, fields: Sequence[str], behind: int = 0) -> Iterator[tuple[Word, Record]]:
        """A loop over the rows of a table: the number of a row, and that."""
        with self.body.each(self.count(name)) as i:
            yield Word(self.body, i), self.row(name, i, fields, behind)


def value_at(body: Body, offset: object) -> Word:
    """A number among the ``%values`` of a launch."""
    return Word(body, body.load("i64", body.element("%values", offset)))


def error_of(body: Body, function: str, given: str) -> Word:
    """The error number that a function of the driver gives."""
    return Word(body, body.op("zext i32", f"{body.op(f'call i32 {function}({given})')} to i64"))
