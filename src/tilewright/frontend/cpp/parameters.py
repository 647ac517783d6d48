"""Parameters and types in LLVM text.

A kernel gets what is passed by value as bytes. Of classes with copy constructors, functions of the host get the address
of a copy: such parameters of kernels are marked with the number of these bytes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tilewright.frontend.cpp.debug_types import Piece
from tilewright.frontend.cpp.llvm_instruction import LABEL, instruction, renamed
from tilewright.frontend.cpp.llvm_module import Definition, parts_of, with_functions
from tilewright.frontend.cpp.locations import Locations
from tilewright.frontend.cpp.typecodes import llvm_type

_OBJECT = "tw.object"
MOST_ALIGNED = 64  # bytes, for objects of any class
_STEPS = 3  # from a parameter to an element of a copy of the variable that keeps it
_DECLARED = re.compile(r"\s*#dbg_declare\(ptr (%[^,]+), !(\d+),")
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


@dataclass(frozen=True)
class ArgumentOffset:
    """What a parameter in LLVM has of an argument: the position of that, and the first byte in it."""

    argument: int
    offset: int


def argument_offsets(text: str, symbol: str) -> list[ArgumentOffset]:
    """The argument that each parameter of a function is part of, which debug information tells in its first lines. A
    class may be passed as two parameters, and one without members as none."""
    definition = parts_of(text).functions[symbol]
    locations, declared, within = Locations(parts_of(text).metadata), dict[str, int](), dict[str, tuple[str, int]]()
    names = [parameter.split()[-1] for parameter in definition.parameters]
    for line in definition.body.split("\n"):
        i, variable = instruction(line), _DECLARED.match(line)
        if variable is not None and "arg" in (fields := locations.fields(int(variable[2]))):
            declared[variable[1]] = int(fields["arg"]) - 1
        elif i.op == "getelementptr" and i.type.startswith(("{", "%")):
            within[i.result] = i.values[0], 8 * (i.type.startswith("{") and i.values[1:] == ("0", "1"))
        elif i.op == "store" and i.values[0] in names:
            within[i.values[0]] = i.values[1], 0
        elif i.callee.startswith("llvm.memcpy"):
            within[i.values[1]] = i.values[0], 0
    found = []
    for position, name in enumerate(names):
        offset = 0
        for _ in range(_STEPS):
            if name not in declared and name in within:
                name, more = within[name]
                offset += more
        found.append(ArgumentOffset(declared.get(name, position), offset))
    return found


def with_pieces(text: str, kernels: Mapping[str, Sequence[Piece]]) -> str:
    """The module ``text``, with debug information, in which ``kernels`` take their pieces instead of classes."""
    text = with_objects(text, kernels)
    where = {symbol: argument_offsets(text, symbol) for symbol in kernels}

    def edited(definition: Definition) -> str:
        pieces, heads, lines = kernels[definition.name], [], []
        classes = {piece.argument for piece in pieces if piece.name}
        numbered = {n: f"%tw.p{n[1:]}" for n in (p.split()[-1] for p in definition.parameters) if n[1:].isdigit()}
        at = [*where[definition.name], ArgumentOffset(-1, 0)]
        for number, parameter in enumerate(renamed(p, numbered) for p in definition.parameters):
            if at[number].argument not in classes:
                heads.append(parameter)
                continue
            passed, value = by_value(parameter), parameter.split()[-1]
            kind = passed or parameter_type(parameter)
            memory = value if passed else f"%tw.v{number}"
            lines.append(f"  {memory} = alloca {kind}, align {MOST_ALIGNED}")
            end = at[number + 1].offset if at[number + 1].argument == at[number].argument else sys.maxsize
            for piece in pieces:
                if piece.argument == at[number].argument and at[number].offset <= piece.offset < end:
                    name, offset = f"%tw.piece{len(heads)}", piece.offset - at[number].offset
                    heads.append(f"{llvm_type(piece.code)} {name}")
                    lines.append(f"  {name}.at = getelementptr i8, ptr {memory}, i64 {offset}")
                    lines.append(f"  store {heads[-1]}, ptr {name}.at, align 1")
            lines += [] if passed else [f"  {value} = load {kind}, ptr {memory}, align {MOST_ALIGNED}"]
        label, _, rest = definition.body.partition("\n")
        rest = "\n".join(renamed(line, numbered) for line in rest.split("\n")) if numbered else rest
        assert LABEL.match(label), label
        return "\n".join([definition.headed(heads), label, *lines, rest])

    return with_functions(text, kernels, edited)
