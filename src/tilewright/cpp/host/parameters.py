"""Parameters and types in LLVM text.

A kernel gets what is passed by value as bytes. Of classes with copy constructors, functions of the host get the address
of a copy: such parameters of kernels are marked with the number of these bytes.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from tilewright.frontend.cpp.llvm_instruction import instruction, renamed
from tilewright.frontend.cpp.llvm_module import Definition, parts_of, with_functions
from tilewright.frontend.cpp.locations import Locations

_OBJECT = "tw.object"
MOST_ALIGNED = 64  # bytes, for objects of any class
_WORD = re.compile(r'%"[^"]*"|\S+')


def with_objects(text: str, kernels: Collection[str]) -> str:
    """The module ``text``, as the compiler wrote it, with marks at such parameters of ``kernels``."""
    locations = Locations(parts_of(text).metadata)

    def bytes_of(node: int) -> int:
        fields = locations.fields(node)
        inner = fields.get("type", fields.get("baseType"))
        return int(fields["size"]) // 8 if "size" in fields else bytes_of(int(inner[1:])) if inner else 0

    def edited(definition: Definition) -> str:
        head, lines = definition.head, definition.body.split("\n")
        stores = {i.variable: i.values[0] for i in map(instruction, lines) if i.op == "store" and i.type == "ptr"}
        for line in (line.lstrip() for line in lines if "DIExpression(DW_OP_deref)" in line):
            place, variable = line.removeprefix("#dbg_declare(ptr ").split(", ")[:2]
            if line.startswith("#dbg_declare(") and (kept := stores.get(place)) is not None:
                mark = f'"{_OBJECT}"="{bytes_of(int(variable[1:]))}" {kept}'
                head = renamed(head, {kept: mark})
        return f"{head}\n{definition.body}"

    return with_functions(text, kernels, edited)


def by_value(parameter: str) -> str:
    """The type of what a parameter passes by value; "" if it is the address, or number, that it says."""
    if "byval(" in parameter:
        return parameter_type(parameter.split("byval(", 1)[1]).removesuffix(")")
    marked = parameter.partition(f'"{_OBJECT}"="')[2]
    return f"[{marked[: marked.index(chr(34))]} x i8]" if marked else ""


def returned(parameter: str) -> str:
    """The type of the result that a parameter is the place of; "" for others."""
    return parameter_type(parameter.split("sret(", 1)[1]).removesuffix(")") if "sret(" in parameter else ""


def alignment_of(parameter: str) -> int:
    """What a parameter passed by value is aligned to."""
    words = parameter.split()
    return int(words[words.index("align") + 1]) if "align" in words else MOST_ALIGNED


def with_bytes(text: str) -> str:
    """The code ``text`` of kernels for GPUs, which get objects as bytes."""
    first, *others = text.split(f'"{_OBJECT}"="')
    marked = (other.split('"', 1) for other in others)
    return "".join([first, *(f"byval([{size} x i8]) align {MOST_ALIGNED}{rest}" for size, rest in marked)])


def parameter_type(parameter: str) -> str:
    """The type that a parameter begins with."""
    if parameter[0] not in "<[{":
        named = _WORD.match(parameter)
        return named[0] if named is not None else ""
    depth = 0
    for i, c in enumerate(parameter):
        depth += (c in "<[{") - (c in ">]}")
        if depth == 0:
            return parameter[: i + 1]
    return parameter


def constant(value: str) -> str:
    """A constant with ``value`` as a string of C."""
    data = value.encode()
    text = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\' else f"\\{b:02X}" for b in data)
    return f'[{len(data) + 1} x i8] c"{text}\\00"'
