"""Values of functions in the making, whose operators write instructions, and records in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from tilewright.backends.native.body import Body


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

    def at_most(self, other: object) -> Word:
        """Whether it is not more, as numbers without a sign."""
        return self._op("icmp ule", other, "i1")

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
