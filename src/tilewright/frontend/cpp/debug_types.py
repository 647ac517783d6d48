"""The types of a kernel's parameters, from debug information: the codes that ``typecodes`` reads."""

from __future__ import annotations

from tilewright.frontend.cpp.locations import Locations
from tilewright.frontend.cpp.typecodes import POINTER_CODE, VOID_CODE
from tilewright.ir.errors import TileTypeError

_SIGNED = {8: 1, 16: 2, 32: 3, 64: 4}
_UNSIGNED = {8: 5, 16: 6, 32: 7, 64: 8}
_FLOATS = {16: 9, 32: 11, 64: 12}
_BY_ENCODING = {
    "DW_ATE_boolean": {8: 0},
    **dict.fromkeys(("DW_ATE_signed", "DW_ATE_signed_char"), _SIGNED),
    **dict.fromkeys(("DW_ATE_unsigned", "DW_ATE_unsigned_char", "DW_ATE_UTF"), _UNSIGNED),
    "DW_ATE_float": _FLOATS,
}
_CLASSES = {"__half": 9, "__nv_bfloat16": 10, "__nv_tf32": 13, "__nv_fp8_e4m3": 14, "__nv_fp8_e5m2": 15}
_POINTERS = ("DW_TAG_pointer_type", "DW_TAG_reference_type", "DW_TAG_rvalue_reference_type")


def parameter_codes(locations: Locations, subprogram: int) -> list[int]:
    """The codes of the parameters of a kernel. TileTypeError, where it is declared, for what is no scalar."""
    signature = _number(locations, subprogram, "type")
    listed = locations.metadata.get(_number(locations, signature, "types"), "!{}")
    types = listed.removeprefix("!{").removesuffix("}").split(", ")[1:]
    codes = []
    for position, reference in enumerate(types, 1):
        code = _code(locations, reference)
        if code is None:
            name = locations.fields(subprogram).get("name", "")
            raise TileTypeError(
                f"parameter {position} of the kernel {name} must be a scalar: a number, an enumeration or a pointer; "
                "pass a pointer to what is more",
                locations.function(subprogram),
            )
        codes.append(code)
    return codes


def _number(locations: Locations, node: int, field: str) -> int:
    return int(locations.fields(node).get(field, "!-1")[1:])


def _code(locations: Locations, reference: str) -> int | None:
    """The code of a type; None for one that kernels do not take."""
    if reference == "null":
        return None
    number = int(reference[1:])
    text = locations.metadata.get(number, "")
    fields = locations.fields(number)
    base = fields.get("baseType")
    if "DIBasicType(" in text:
        return _BY_ENCODING.get(fields.get("encoding", ""), {}).get(int(fields.get("size", 0)))
    if "DICompositeType(" in text and fields.get("tag") != "DW_TAG_enumeration_type":
        return _CLASSES.get(fields.get("name", ""))
    if fields.get("tag") in _POINTERS:
        pointee = None if base is None else _code(locations, base)
        return POINTER_CODE + (VOID_CODE if pointee is None or pointee >= POINTER_CODE else pointee)
    return None if base is None else _code(locations, base)
