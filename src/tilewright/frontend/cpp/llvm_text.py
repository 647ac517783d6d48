"""Reads the functions of a textual LLVM module into a small in-memory form.

Only what optimized, scalar code contains is understood. Types are kept as strings, with ``handle`` for the opaque
pointers that stand for tiles.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Union

HANDLE = "handle"  # a tile: a pointer in the address space that the headers reserve

_TOKEN = re.compile(
    r"""\s*(?:(?P<name>[%@](?:"[^"]*"|[-\w.$]+))
      | (?P<meta>!(?:\d+|[\w.]+)?)
      | (?P<string>c?"[^"]*")
      | (?P<number>0x[HRKLM]?[0-9A-Fa-f]+|-?\d+(?:\.\d+(?:e[-+]?\d+)?)?|-?(?:inf|nan)\b)
      | (?P<word>[A-Za-z_.][\w.]*|\#\d+)
      | (?P<punct>\.\.\.|.))""",
    re.VERBOSE,
)


class LLVMTextError(Exception):
    """Text that the reader does not understand: a construct that tile code has no use for."""


@dataclass(frozen=True)
class Local:
    """The result of an instruction, or an argument."""

    name: str


@dataclass(frozen=True)
class Const:
    """A constant: an int, float, bool, ``None`` (null pointer), or ``UNDEFINED``."""

    type: str
    value: Any


@dataclass(frozen=True)
class Symbol:
    """The address of a global variable or function, ``offset`` bytes further."""

    name: str
    offset: int = 0


class _Undefined:
    def __repr__(self) -> str:
        return "undefined"


UNDEFINED = _Undefined()
Operand = Union[Local, Const, Symbol]


@dataclass
class Instruction:
    """``name`` is the result or None. ``labels`` holds the target blocks, or the incoming blocks of a phi.

    ``detail`` is the predicate of a comparison, the callee of a call, the element type of a ``getelementptr``,
    the case values of a ``switch``, or the indices of ``extractvalue`` and ``insertvalue``.
    """

    name: str | None
    op: str
    type: str
    operands: list[Operand] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    detail: Any = None
    flags: frozenset[str] = frozenset()
    debug: int | None = None


@dataclass
class BasicBlock:
    name: str
    instructions: list[Instruction]

    @property
    def phis(self) -> list[Instruction]:
        return [i for i in self.instructions if i.op == "phi"]

    @property
    def terminator(self) -> Instruction:
        return self.instructions[-1]


@dataclass
class LLVMFunction:
    name: str
    arguments: list[tuple[str, str]]  # name, type
    blocks: list[BasicBlock]
    subprogram: int | None
    no_alias: frozenset[str] = frozenset()  # arguments declared __restrict__


@dataclass
class LLVMModule:
    functions: dict[str, LLVMFunction]
    defined: frozenset[str]  # every function with a body, read or not
    globals: dict[str, str]  # name -> text after the "="
    types: dict[str, str]  # name -> what the struct type consists of
    metadata: dict[int, str]


_PREFIXES = frozenset(["tail", "musttail", "notail"])
_TYPE_WORDS = frozenset(
    ["void", "half", "bfloat", "float", "double", "ptr", "label", "metadata", "token", "fp128", "x86_fp80"]
)


_CLOSING = {"{": "}", "[": "]", "<": ">"}
_CONSTANTS = {"true": True, "false": False, "null": None, "undef": UNDEFINED, "poison": UNDEFINED, "zeroinitializer": 0}


class _Line:
    """A cursor over the tokens of one instruction."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [(str(m.lastgroup), m.group(m.lastgroup or 0)) for m in _TOKEN.finditer(text)]
        self.at = 0

    def peek(self, ahead: int = 0) -> str:
        i = self.at + ahead
        return self.tokens[i][1] if i < len(self.tokens) else ""

    def kind(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def accept(self, text: str) -> bool:
        if self.peek() == text:
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise LLVMTextError(f"expected {text!r} at {self.peek()!r} in: {self.text.strip()}")

    def skip_group(self) -> None:
        """Skip a parenthesized group whose opening bracket is next."""
        depth = 0
        while True:
            token = self.take()
            depth += token in "([{" and token != ""
            depth -= token in ")]}" and token != ""
            if depth == 0:
                return

    def is_type(self) -> bool:
        t = self.peek()
        return t in _TYPE_WORDS or bool(re.fullmatch(r"i\d+", t)) or t in ("{", "[", "<") or t.startswith("%")

    def type(self) -> str:
        token = self.take()
        if token == "ptr":
            if not self.accept("addrspace"):
                return "ptr"
            self.skip_group()
            return HANDLE
        if token not in _CLOSING:
            return token
        parts = [token]
        while not self.accept(_CLOSING[token]):
            parts.append(self.type() if self.is_type() else self.take())
        return " ".join([*parts, _CLOSING[token]])

    def attributes(self) -> set[str]:
        """Skip parameter and return attributes; returns their names."""
        found = set()
        while self.kind() in ("word", "string") and not self.is_type() and not self.is_value_word():
            token = self.take()
            found.add(token)
            if self.peek() == "(":
                self.skip_group()
            elif token == "align":
                self.take()
        return found

    def is_value_word(self) -> bool:
        return self.peek().startswith('c"') or self.peek() in (*_CONSTANTS, "getelementptr", "splat")

    def value(self, type: str) -> Operand:
        kind, token = self.tokens[self.at]
        if kind == "name":
            self.take()
            name = token[1:].strip('"')
            return Local(name) if token[0] == "%" else Symbol(name)
        if kind == "number":
            self.take()
            return Const(type, _number(type, token))
        if token in _CONSTANTS:
            self.take()
            return Const(type, _CONSTANTS[token])
        if token == "getelementptr":
            return self.constant_address()
        if token in _CLOSING:
            return Const(type, self.constant_parts())
        if token == "splat":
            self.take()
            self.expect("(")
            element = self.typed_value()[1]
            self.expect(")")
            return Const(type, (element,) * _lanes(type))
        if kind == "string" and token.startswith("c"):
            self.take()
            return Const(type, tuple(Const("i8", byte) for byte in string_bytes(token)))
        raise LLVMTextError(f"a constant that tile code cannot use: {self.text.strip()}")

    def constant_parts(self) -> tuple[Operand, ...]:
        close = _CLOSING[self.take()]
        parts = []
        while not self.accept(close):
            parts.append(self.typed_value()[1])
            self.accept(",")
        return tuple(parts)

    def constant_address(self) -> Operand:
        self.take()
        while self.peek() != "(":
            if self.take() == "inrange":
                self.skip_group()
        self.expect("(")
        element = self.type()
        self.expect(",")
        base = self.value(self.type())
        offset = 0
        while self.accept(","):
            index = self.value(self.type())
            if element != "i8" or not isinstance(index, Const):
                raise LLVMTextError(f"an address that tile code cannot use: {self.text.strip()}")
            offset += int(index.value)
        self.expect(")")
        if not isinstance(base, Symbol):
            raise LLVMTextError(f"an address that tile code cannot use: {self.text.strip()}")
        return Symbol(base.name, base.offset + offset)

    def typed_value(self) -> tuple[str, Operand]:
        type = self.type()
        self.attributes()
        return type, self.value(type)

    def label(self) -> str:
        self.expect("label")
        return self.take()[1:].strip('"')

    def words(self) -> list[str]:
        """The words before the next type."""
        found = []
        while self.kind() == "word" and not self.is_type():
            found.append(self.take())
        return found


def _number(type: str, token: str) -> Any:
    if re.fullmatch(r"i\d+", type):
        return int(token)
    if token.startswith("0x"):
        if token[2] == "H":
            return struct.unpack("<e", int(token[3:], 16).to_bytes(2, "little"))[0]
        if token[2] == "R":
            return struct.unpack("<f", (int(token[3:], 16) << 16).to_bytes(4, "little"))[0]
        return struct.unpack("<d", int(token[2:], 16).to_bytes(8, "little"))[0]
    return float(token)


def parse_instruction(text: str) -> Instruction:
    """One instruction. What no tile code needs becomes ``unsupported``, with the reason as its detail."""
    debug = re.search(r"!dbg !(\d+)", text)
    line = _Line(text)
    name = None
    if line.kind() == "name" and line.peek(1) == "=":
        name = line.take()[1:].strip('"')
        line.take()
    while line.peek() in _PREFIXES:
        line.take()
    op = line.take()
    instruction = Instruction(name, op, "void", debug=int(debug.group(1)) if debug else None)
    try:
        if op not in _READERS:
            raise LLVMTextError(f"the instruction '{op}' has no meaning in tile code")
        _READERS[op](line, instruction)
    except LLVMTextError as e:
        return Instruction(name, "unsupported", "void", detail=str(e), debug=instruction.debug)
    return instruction


# Instructions by their syntax. ``typed`` is an operand with its type before it, ``same`` one of the type that came
# last as ``type``, ``operands`` several ``typed``; ``of``, ``predicate``, ``indices``, ``lane`` are details. What comes
# after an arrow is the type of the result: that of an operand, or a name. All else stands there as it is.
_SYNTAX = """
add sub mul udiv sdiv urem srem shl lshr ashr and or xor: flags type same , same
fadd fsub fmul fdiv frem: flags type same , same
trunc zext sext fptrunc fpext fptoui fptosi uitofp sitofp ptrtoint inttoptr bitcast addrspacecast: flags typed to type
icmp fcmp: predicate type same , same -> i1
select: flags typed , typed , typed -> 1
fneg freeze: flags typed -> 0
load: flags type , typed
store: flags typed , typed
getelementptr: flags of , operands -> 0
extractvalue: typed indices
insertvalue: typed , typed indices -> 0
unreachable:
"""


def _follow(line: _Line, i: Instruction, syntax: str) -> None:
    """Read what ``syntax`` says, a right side of ``_SYNTAX``."""
    parts, _, result = syntax.partition("->")
    for part in parts.split():
        if part in _PARTS:
            _PARTS[part](line, i)
        else:
            line.expect(part)
    if result:
        result = result.strip()
        i.type = i.types[int(result)] if result.isdigit() else result


def _flags(line: _Line, i: Instruction) -> None:
    i.flags = frozenset(line.words())


def _type(line: _Line, i: Instruction) -> None:
    i.type = line.type()


def _typed(line: _Line, i: Instruction) -> None:
    type, value = line.typed_value()
    i.types.append(type)
    i.operands.append(value)


def _same(line: _Line, i: Instruction) -> None:
    i.types.append(i.type)
    i.operands.append(line.value(i.type))


def _operands(line: _Line, i: Instruction) -> None:
    _typed(line, i)
    while line.peek() == "," and not line.peek(1).startswith("!") and line.peek(1) != "align":
        line.take()
        _typed(line, i)


def _of(line: _Line, i: Instruction) -> None:
    i.detail = line.type()


def _predicate(line: _Line, i: Instruction) -> None:
    *flags, i.detail = line.words()
    i.flags = frozenset(flags)


def _label(line: _Line, i: Instruction) -> None:
    i.labels.append(line.label())


def _indices(line: _Line, i: Instruction) -> None:
    i.detail = []
    while line.accept(",") and line.kind() == "number":
        i.detail.append(int(line.take()))


def _lane(line: _Line, i: Instruction) -> None:
    line.expect(",")
    index = line.typed_value()[1]
    if not isinstance(index, Const):
        raise LLVMTextError(f"an element of a vector whose index is known only at run time: {line.text.strip()}")
    i.detail = [int(index.value)]


_PARTS: dict[str, Callable[[_Line, Instruction], None]] = {
    "flags": _flags,
    "type": _type,
    "typed": _typed,
    "same": _same,
    "operands": _operands,
    "of": _of,
    "predicate": _predicate,
    "label": _label,
    "indices": _indices,
    "lane": _lane,
}


def _return(line: _Line, i: Instruction) -> None:
    if not line.accept("void"):
        _typed(line, i)


def _branch(line: _Line, i: Instruction) -> None:
    _follow(line, i, "label" if line.peek() == "label" else "typed , label , label")


def _switch(line: _Line, i: Instruction) -> None:
    _follow(line, i, "typed , label [")
    i.detail = []
    while not line.accept("]"):
        _, case = line.typed_value()
        line.expect(",")
        i.detail.append(case.value if isinstance(case, Const) else None)
        i.labels.append(line.label())


def _phi(line: _Line, i: Instruction) -> None:
    _follow(line, i, "flags type")
    while line.accept("["):
        i.operands.append(line.value(i.type))
        line.expect(",")
        i.labels.append(line.take()[1:].strip('"'))
        line.expect("]")
        line.accept(",")


def _allocate(line: _Line, i: Instruction) -> None:
    i.detail, i.type = line.type(), "ptr"
    if line.accept(",") and line.is_type():
        _typed(line, i)


def _call(line: _Line, i: Instruction) -> None:
    flags = set()
    while not line.is_type():
        token = line.take()
        flags.add(token)
        if line.peek() == "(":
            line.skip_group()
        elif token == "align":
            line.take()
    i.flags = frozenset(flags)
    i.type = line.type()
    if line.peek() == "(":
        line.skip_group()
    if line.peek() == "asm":
        raise LLVMTextError("inline assembly is not available in tile code")
    callee = line.take()
    if not callee.startswith("@"):
        raise LLVMTextError("calls through pointers and virtual functions are not available in tile code")
    i.detail = callee[1:].strip('"')
    line.expect("(")
    if i.detail.startswith(("llvm.lifetime", "llvm.assume", "llvm.dbg", "llvm.experimental.noalias")):
        return
    while not line.accept(")"):
        _typed(line, i)
        line.accept(",")


def _extract_element(line: _Line, i: Instruction) -> None:
    """As ``extractvalue``: the vectors here are structs that the calling convention passes so."""
    _follow(line, i, "typed lane")
    i.op, i.type = "extractvalue", i.types[0].split()[3]


def _insert_element(line: _Line, i: Instruction) -> None:
    """As ``insertvalue``."""
    _follow(line, i, "typed , typed lane -> 0")
    i.op = "insertvalue"


def _shuffle(line: _Line, i: Instruction) -> None:
    """``detail`` holds the indices of the elements in both operands, or None for those without a value."""
    _follow(line, i, "typed , typed , typed")
    mask = i.operands.pop()
    count = _lanes(i.types.pop())
    assert isinstance(mask, Const)
    lanes = mask.value if isinstance(mask.value, tuple) else (mask,) * count
    i.detail = [None if lane.value is UNDEFINED else int(lane.value) for lane in lanes]
    i.type = " ".join(("<", str(count), *i.types[0].split()[2:]))


def _lanes(type: str) -> int:
    """How many elements a vector type has."""
    return int(type.split()[1])


def string_bytes(token: str) -> bytes:
    """The bytes of a constant string, as ``c"..."``."""
    return re.sub(rb"\\([0-9A-Fa-f]{2})", lambda m: bytes.fromhex(m[1].decode()), token[2:-1].encode())


def constant_text(definition: str) -> str:
    """The characters of a constant string from the definition of its global variable."""
    start = definition.find(' c"')
    if start < 0:
        return ""
    return string_bytes(definition[start + 1 : definition.index('"', start + 3) + 1]).decode()


def parse_constant(definition: str) -> tuple[str, Const] | None:
    """Type and value of a constant global variable from its definition; None for one that may change, or that is
    defined elsewhere."""
    match = re.search(r"(?:^| )constant (.*)", definition)
    if match is None or re.search(r"\bexternal\b", definition[: match.start()]) is not None:
        return None
    try:
        type, value = _Line(match.group(1)).typed_value()
    except LLVMTextError:
        return None
    return (type, value) if isinstance(value, Const) else None


_READERS: dict[str, Callable[[_Line, Instruction], None]] = {
    **{
        op: functools.partial(_follow, syntax=syntax)
        for ops, _, syntax in (row.partition(":") for row in _SYNTAX.strip().splitlines())
        for op in ops.split()
    },
    "ret": _return,
    "br": _branch,
    "switch": _switch,
    "phi": _phi,
    "alloca": _allocate,
    "call": _call,
    "extractelement": _extract_element,
    "insertelement": _insert_element,
    "shufflevector": _shuffle,
}

_DEFINE = re.compile(r'^define [^@]*@("[^"]*"|[-\w.$]+)\((.*)\)([^()]*(?:\([^()]*\)[^()]*)*)\{$')
_LABEL = re.compile(r'^("[^"]*"|[-\w.$]+):')


def parse_module(text: str, wanted: set[str]) -> LLVMModule:
    """The functions called ``wanted``, and the globals and metadata of the module."""
    functions: dict[str, LLVMFunction] = {}
    defined: set[str] = set()
    variables: dict[str, str] = {}
    metadata: dict[int, str] = {}
    types: dict[str, str] = {}
    lines = iter(text.split("\n"))
    for line in lines:
        if line.startswith("define "):
            match = _DEFINE.match(line)
            if match is None:
                raise LLVMTextError(f"a function that tile code cannot use: {line}")
            name = match.group(1).strip('"')
            defined.add(name)
            body = []
            for inner in lines:
                if inner == "}":
                    break
                body.append(inner)
            if name in wanted:
                functions[name] = _function(name, match.group(2), match.group(3), body)
        elif line.startswith("%"):
            name, _, rest = line[1:].partition(" = type ")
            types[name.strip('"')] = _Line(rest).type()
        elif line.startswith("@"):
            name, _, rest = line[1:].partition(" = ")
            variables[name.strip('"')] = rest
        elif line.startswith("!"):
            number, _, rest = line[1:].partition(" = ")
            if number.isdigit():
                metadata[int(number)] = rest
    return LLVMModule(functions, frozenset(defined), variables, types, metadata)


def _function(name: str, arguments: str, suffix: str, body: list[str]) -> LLVMFunction:
    line = _Line(arguments)
    found = []
    no_alias = set()
    while line.peek():
        type = line.type()
        attributes = line.attributes()
        found.append((line.take()[1:].strip('"'), type))
        if "noalias" in attributes:
            no_alias.add(found[-1][0])
        line.accept(",")
    subprogram = re.search(r"!dbg !(\d+)", suffix)
    blocks: list[BasicBlock] = []
    pending = ""
    for text in body:
        label = _LABEL.match(text)
        if label:
            blocks.append(BasicBlock(label.group(1).strip('"'), []))
        elif text.startswith("  ") and not text.lstrip().startswith(("#dbg", ";")):
            pending += text
            if "switch" in pending and "[" in pending and "]" not in pending:
                pending += " "
                continue
            blocks[-1].instructions.append(parse_instruction(pending))
            pending = ""
    return LLVMFunction(name, found, blocks, int(subprogram.group(1)) if subprogram else None, frozenset(no_alias))
