"""What the parameters of kernels are made of, from debug information: numbers and pointers, by codes of ``typecodes``.

A class is passed as the numbers and pointers in it, each at its place in the class; what is there for bit-fields are
bytes, and for a union its member with most of them.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NoReturn

from tilewright.frontend.cpp.locations import Locations
from tilewright.frontend.cpp.typecodes import POINTER_CODE, VOID_CODE, element_type
from tilewright.ir.errors import TileTypeError
from tilewright.ir.location import Loc
from tilewright.ir.types import PointerType

_SIGNED = {8: 1, 16: 2, 32: 3, 64: 4}
_UNSIGNED = {8: 5, 16: 6, 32: 7, 64: 8}
_BOOL, _BYTE, _LONG = 0, 5, 4
_BY_ENCODING = {
    "DW_ATE_boolean": {8: _BOOL},
    **dict.fromkeys(("DW_ATE_signed", "DW_ATE_signed_char"), _SIGNED),
    **dict.fromkeys(("DW_ATE_unsigned", "DW_ATE_unsigned_char", "DW_ATE_UTF"), _UNSIGNED),
    "DW_ATE_float": {16: 9, 32: 11, 64: 12},
}
_CLASSES = {"__half": 9, "__nv_bfloat16": 10, "__nv_tf32": 13, "__nv_fp8_e4m3": 14, "__nv_fp8_e5m2": 15}
_OWNER = re.compile(
    r"_ZTSN?St(?:3__1|7__cxx11)?\d+(basic_string|vector|deque|list|forward_list|(?:unordered_)?(?:multi)?(?:map|set)|shared_ptr|"
    r"unique_ptr|function|any)(?=[IE])"
)
_REFERENCES = ("DW_TAG_reference_type", "DW_TAG_rvalue_reference_type")
_CONTENT = "pass what is in it"
_MOST = 1024  # numbers and pointers that a kernel takes, as `most_parameters` of the runtime


@dataclass(frozen=True)
class Piece:
    """A number or pointer that a kernel takes: the position of its argument, where it is in that, in bytes, its code,
    and, of a member of a class, its name."""

    argument: int
    offset: int
    code: int
    name: str = ""

    @property
    def size(self) -> int:
        """Its bytes."""
        type = element_type(self.code)
        return 8 if isinstance(type, PointerType) else type.bytes


def parameter_pieces(locations: Locations, subprogram: int) -> list[Piece]:
    """The pieces of the parameters of a kernel. TileTypeError, where one is declared, for what kernels do not take."""
    return _Signature(locations, subprogram).pieces()


def refuse_owners(locations: Locations, subprogram: int) -> None:
    """TileTypeError, where it is declared, for a kernel that is called for an object, or that has a parameter that is a
    reference, or that is, or has, a container of the C++ library, or what else owns memory of the host."""
    signature = _Signature(locations, subprogram)
    signature.refuse_object()
    signature.refuse_owners()


def arguments_of(locations: Locations, subprogram: int) -> dict[int, int]:
    """The variables of the parameters of a function, by their position from 0, as numbers of metadata."""
    listed = locations.metadata.get(_number(locations, subprogram, "retainedNodes"), "!{}")
    fields = ((int(n), locations.fields(int(n))) for n in re.findall(r"!(\d+)", listed))
    return {int(each["arg"]) - 1: number for number, each in fields if "arg" in each}


def _number(locations: Locations, node: int, field: str) -> int:
    return int(locations.fields(node).get(field, "!-1")[1:])


class _Signature:
    """The parameters of one kernel."""

    def __init__(self, locations: Locations, subprogram: int) -> None:
        self.locations = locations
        self.subprogram = subprogram
        self.variables = arguments_of(locations, subprogram)
        self.position = 0  # of the parameter that is read

    def _types(self) -> list[str]:
        signature = _number(self.locations, self.subprogram, "type")
        listed = self.locations.metadata.get(_number(self.locations, signature, "types"), "!{}")
        return listed.removeprefix("!{").removesuffix("}").split(", ")[1:]

    def refuse_object(self) -> None:
        this = next(iter(self._types()), "null")
        if "DIFlagObjectPointer" in self.locations.fields(int(this[1:]) if this != "null" else -1).get("flags", ""):
            kernel, loc = self._named(self.subprogram)
            message = f"the kernel {kernel} is a member function of an object, which none can be; make it static"
            raise TileTypeError(f"{message}, or a function of a namespace", loc)

    def refuse_owners(self) -> None:
        types = self._types()
        for self.position, reference in enumerate(types):
            if reference == "null":
                self._fail("is of a variable number", "give the kernel a pack of parameters, or an array")
            if self.locations.fields(int(reference[1:])).get("tag", "") in _REFERENCES:
                self._fail("is a reference", "pass a pointer, or a value")
            self._refuse_owner(reference)

    def _refuse_owner(self, reference: str) -> None:
        number = -1 if reference == "null" else int(reference[1:])
        text, fields = self.locations.metadata.get(number, ""), self.locations.fields(number)
        tag = fields.get("tag", "")
        if owner := _OWNER.match(fields.get("identifier", "")):
            what = f"std::{owner[1].removeprefix('basic_')}"
            self._fail(f"is, or has, {what}, whose memory is the host's", "pass a pointer to memory of the device")
        if "DICompositeType(" in text and tag not in ("DW_TAG_enumeration_type", "DW_TAG_array_type"):
            for member in self._elements(fields):
                self._refuse_owner(member["baseType"])
        elif tag not in ("DW_TAG_pointer_type", *_REFERENCES) and "baseType" in fields:
            self._refuse_owner(fields["baseType"])

    def pieces(self) -> list[Piece]:
        self.refuse_owners()
        types, found = self._types(), list[Piece]()
        for self.position, reference in enumerate(types):
            found += sorted(self._of(reference, Piece(self.position, 0, -1)), key=lambda piece: piece.offset)
            if len(found) > _MOST:
                self._fail(f"makes more than {_MOST} numbers and pointers", "pass a pointer to it")
        return found

    def _fail(self, why: str, advice: str) -> NoReturn:
        """Refuse the parameter that is read, where it is declared."""
        kernel, loc = self._named(self.subprogram)
        variable = self.variables.get(self.position, -1)
        if self.locations.variable(self.locations.fields(variable)) is not None:
            _, loc = self._named(variable)
        raise TileTypeError(f"parameter {self.position + 1} of the kernel {kernel} {why}; {advice}", loc)

    def _named(self, number: int) -> tuple[str, Loc]:
        """The name of a function or a parameter, and where it is declared."""
        fields = self.locations.fields(number)
        name, loc = fields.get("name", "").partition("<")[0], self.locations.variable(fields) or Loc("", 0)
        found = re.search(rf"\b{re.escape(name)}\b", linecache.getline(loc.file, loc.line)) if name else None
        if found is not None:
            loc = Loc(loc.file, loc.line, found.start(), loc.line, found.end(), loc.function)
        return name, loc

    def _of(self, reference: str, at: Piece) -> list[Piece]:
        """The pieces of a type, of which the first is ``at``."""
        number = -1 if reference == "null" else int(reference[1:])
        text, fields = self.locations.metadata.get(number, ""), self.locations.fields(number)
        tag, base = fields.get("tag", ""), fields.get("baseType", "null")
        code = _code(self.locations, reference)
        if tag in _REFERENCES:
            self._fail("is a reference, or has one" if at.name else "is a reference", "pass a pointer, or a value")
        if code is not None:
            return [replace(at, code=_BYTE if at.name and code == _BOOL else code)]
        if tag == "DW_TAG_ptr_to_member_type" and fields.get("size") == "64":
            return [replace(at, code=_LONG)]
        if tag == "DW_TAG_array_type":
            return self._array(number, at)
        if "DICompositeType(" in text and tag != "DW_TAG_enumeration_type":
            return self._members(number, at)
        if "DIBasicType(" in text or base == "null" or tag == "DW_TAG_ptr_to_member_type":
            what = fields.get("name", "a pointer to a function of a class")
            self._fail(f"is, or has, {what}, which tile code has not", "pass numbers, pointers or classes of these")
        return self._of(base, at)

    def _array(self, number: int, at: Piece) -> list[Piece]:
        fields = self.locations.fields(number)
        listed = self.locations.metadata.get(int(fields["elements"][1:]), "")
        indices = [""]
        for each in re.findall(r"!(\d+)", listed):
            count = int(self.locations.fields(int(each)).get("count", 0))
            if count > _MOST:
                self._fail(f"makes more than {_MOST} numbers and pointers", "pass a pointer to it")
            indices = [f"{before}[{i}]" for before in indices for i in range(count)]
        size = int(fields.get("size", 0)) // 8 // max(len(indices), 1)
        ats = (replace(at, offset=at.offset + k * size, name=at.name + index) for k, index in enumerate(indices))
        return [piece for each in ats for piece in self._of(fields["baseType"], each)]

    def _members(self, number: int, at: Piece) -> list[Piece]:
        """The pieces of a class, or of a union."""
        fields = self.locations.fields(number)
        if "DIFlagFwdDecl" in fields.get("flags", ""):  # its definition is where its table of functions is
            self._fail("is of a class with virtual functions or bases, or of an extern template", _CONTENT)
        argument = self.locations.fields(self.variables.get(self.position, -1)).get("name", f"argument{at.argument}")
        prefix = f"{at.name or argument}."
        members = [self._of_member(each, at, prefix) for each in self._elements(fields)]
        if fields["tag"] == "DW_TAG_union_type":
            return max(members, key=lambda pieces: sum(piece.size for piece in pieces), default=[])
        found: dict[int, Piece] = {}
        for piece in (piece for pieces in members for piece in pieces):
            found.setdefault(piece.offset, piece)
        return list(found.values())

    def _elements(self, fields: dict[str, str]) -> Iterator[dict[str, str]]:
        listed = self.locations.metadata.get(int(fields.get("elements", "!-1")[1:]), "")
        for each in re.findall(r"!(\d+)", listed):
            member = self.locations.fields(int(each))
            static = "DIFlagStaticMember" in member.get("flags", "")
            if member.get("tag") in ("DW_TAG_member", "DW_TAG_inheritance") and not static:
                yield member

    def _of_member(self, member: dict[str, str], at: Piece, prefix: str) -> list[Piece]:
        name, start, flags = member.get("name", ""), int(member.get("offset", 0)), member.get("flags", "")
        if name.startswith("_vptr") or "DIFlagVirtual" in flags:
            self._fail("is of a class with virtual functions or bases, or has one", _CONTENT)
        inside = replace(at, offset=at.offset + start // 8, name=f"{prefix}{name}".removesuffix("."))
        if "DIFlagBitField" in flags:
            end = start + int(member["size"])
            bytes = range(start // 8, (end + 7) // 8)
            return [replace(inside, offset=at.offset + k, code=_BYTE, name=f"{prefix}byte{k}") for k in bytes]
        if member["tag"] == "DW_TAG_inheritance":
            inside = replace(inside, name=prefix.removesuffix("."))
        return self._of(member["baseType"], inside)


def _code(locations: Locations, reference: str) -> int | None:
    """The code of a type; None for one that is no number, no enumeration and no pointer."""
    if reference == "null":
        return None
    number = int(reference[1:])
    text = locations.metadata.get(number, "")
    fields = locations.fields(number)
    tag, base = fields.get("tag"), fields.get("baseType")
    if "DIBasicType(" in text:
        null = POINTER_CODE + VOID_CODE if tag == "DW_TAG_unspecified_type" else None
        return _BY_ENCODING.get(fields.get("encoding", ""), {}).get(int(fields.get("size", 0)), null)
    if "DICompositeType(" in text and tag != "DW_TAG_enumeration_type":
        return _CLASSES.get(fields.get("name", ""))
    if tag == "DW_TAG_pointer_type":
        pointee = None if base is None else _code(locations, base)
        return POINTER_CODE + (VOID_CODE if pointee is None or pointee >= POINTER_CODE else pointee)
    if tag in _REFERENCES or tag == "DW_TAG_ptr_to_member_type":
        return None
    return None if base is None else _code(locations, base)
