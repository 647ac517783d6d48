"""How LLVM types lie in memory, on the target that the compiler is told to generate code for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tilewright.frontend.cpp.llvm_form import HANDLE, UNDEFINED, Const, LLVMTextError, Operand

_TOKEN = re.compile(r'%"[^"]*"|\S+')  # a name in quotes may hold spaces
_SIZES = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "ptr": 8, HANDLE: 8, "x86_fp80": 16, "fp128": 16}


@dataclass(frozen=True)
class CType:
    """A type: a scalar, ``count`` times ``fields[0]`` when ``count`` is given, else a struct.

    ``type`` is the text of a scalar. ``fields`` holds the members with their offsets in bytes.
    """

    size: int
    align: int
    type: str = ""
    fields: tuple[tuple[int, CType], ...] = ()
    count: int | None = None

    def member(self, index: int) -> tuple[int, CType]:
        """The offset and the layout of a member of a struct, or of the elements of an array."""
        if self.count is not None:
            return index * self.fields[0][1].size, self.fields[0][1]
        return self.fields[index]

    def leaves(self, offset: int = 0) -> Iterator[tuple[int, str]]:
        """The scalars inside, with their offsets."""
        if self.type:
            yield offset, self.type
        for i in range(self.count if self.count is not None else len(self.fields)):
            start, field = self.member(i)
            yield from field.leaves(offset + start)

    def constants(self, value: Operand, offset: int = 0) -> Iterator[tuple[int, Operand]]:
        """The scalars of the constant ``value`` of this type, with their offsets."""
        if self.type:
            yield offset, value
        elif isinstance(value, Const) and isinstance(value.value, tuple):
            for i, part in enumerate(value.value):
                start, field = self.member(i)
                yield from field.constants(part, offset + start)
        else:
            every = UNDEFINED if isinstance(value, Const) and value.value is UNDEFINED else 0
            for start, type in self.leaves(offset):
                yield start, Const(type, None if type == "ptr" and every == 0 else every)

    @cached_property
    def scalars(self) -> frozenset[str]:
        """The types of the scalars inside."""
        return frozenset({self.type} if self.type else set().union(*(f.scalars for _, f in self.fields)))


class Layouts:
    """The layouts of types as the reader writes them; ``named`` holds the definitions of struct types."""

    def __init__(self, named: dict[str, str]) -> None:
        self.named = named
        self._known: dict[str, CType] = {}

    def of(self, type: str) -> CType:
        """The layout of ``type``. LLVMTextError for types without a size."""
        if type not in self._known:
            self._known[type] = self._read(iter(_TOKEN.findall(type)))
        return self._known[type]

    def _read(self, tokens: Iterator[str]) -> CType:
        token = next(tokens)
        if token == "[":
            return self._array(int(next(tokens)), tokens)
        if token == "{":
            return self._struct(tokens)
        if token == "<":
            first = next(tokens)
            if first != "{":
                return self._array(int(first), tokens)
            packed = self._struct(tokens, packed=True)
            next(tokens)  # >
            return packed
        if token.startswith("%") and self.named.get(token[1:].strip('"'), "opaque") != "opaque":
            return self.of(self.named[token[1:].strip('"')])
        integer = re.fullmatch(r"i(\d+)", token)
        if integer:
            size = max(1 << (int(integer.group(1)) - 1).bit_length(), 8) // 8
            return CType(size, min(size, 16), token)
        if token in _SIZES:
            return CType(_SIZES[token], _SIZES[token], token)
        raise LLVMTextError(f"values of the LLVM type {token} have no place in memory")

    def _array(self, count: int, tokens: Iterator[str]) -> CType:
        """An array, or a vector."""
        next(tokens)  # x
        element = self._read(tokens)
        next(tokens)  # ] or >
        return CType(count * element.size, element.align, fields=((0, element),), count=count)

    def _struct(self, tokens: Iterator[str], packed: bool = False) -> CType:
        fields: list[tuple[int, CType]] = []
        end, align = 0, 1
        pending = next(tokens)
        while pending != "}":
            if pending == ",":
                pending = next(tokens)
            field = self._read(_chain(pending, tokens))
            start = end if packed else -(-end // field.align) * field.align
            fields.append((start, field))
            end, align = start + field.size, max(align, field.align)
            pending = next(tokens)
        align = 1 if packed else align
        return CType(-(-end // align) * align, align, fields=tuple(fields))


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest
