"""Values of functions in the making, whose operators write instructions, and records in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from tilewright.backends.native.body import Body


def _operator(name: str, kind: str = "") -> Callable[[Word, object], Word]:
    """What writes an instruction of this ``name``, whose result has the type of its operands, or is of a ``kind``."""

    def write(one: Word, other: object) -> Word:
        return Word(one.body, one.body.op(f"{name} {one._kind}", one, other), kind or one._kind)

    return write


class Word:
    """A value of a function in the making, of 64 bits if it is no condition, whose operators are instructions: division
    is that of numbers without a sign, ``<`` and ``<=`` compare numbers with one."""

    def __init__(self, body: Body, text: object, kind: str = "i64") -> None:
        self.body, self._text, self._kind = body, str(text), kind

    def __str__(self) -> str:
        return self._text

    __add__, __sub__, __mul__ = _operator("add"), _operator("sub"), _operator("mul")
    __floordiv__, __mod__ = _operator("udiv"), _operator("urem")
    __and__, __or__ = _operator("and"), _operator("or")
    __lshift__, __rshift__ = _operator("shl"), _operator("lshr")
    __lt__, __le__ = _operator("icmp slt", "i1"), _operator("icmp sle", "i1")
    equals, differs = _operator("icmp eq", "i1"), _operator("icmp ne", "i1")
    # Whether it is more, or not, as numbers without a sign.
    exceeds, at_most = _operator("icmp ugt", "i1"), _operator("icmp ule", "i1")

    def over(self, unit: object) -> Word:
        """How many units it takes."""
        return (self + unit - 1) // unit

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
