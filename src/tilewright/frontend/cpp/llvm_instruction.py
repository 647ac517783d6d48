"""Lines of functions in LLVM text as records: what a line defines, does, and names."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

_TOKEN = re.compile(r'[%@!#](?:"[^"]*"|[-\w.$]+)|"[^"]*"|-?[\w.]+(?:(?<=e)[+-]\d+)?|\S')
LIFETIME = "llvm.lifetime."  # how calls begin that say where variables live
_WITHIN = ("(", "inbounds", "nuw", "nsw", "nusw", "exact", "inrange")  # behind the word of a constant expression
DIVISIONS = ("udiv", "sdiv", "urem", "srem")
LABEL = re.compile(r'^("[^"]*"|[-\w.$]+):')  # of a block
_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}
_ORDERS = frozenset(("unordered", "monotonic", "acquire", "release", "acq_rel", "seq_cst", "syncscope"))
_COMPUTES = """
add sub mul udiv sdiv urem srem shl lshr ashr and or xor icmp select getelementptr bitcast zext sext trunc
sitofp uitofp fptosi fptoui fptrunc fpext fadd fsub fmul fdiv frem fneg fcmp
"""
_INTRINSICS = "threadlocal.address smin smax umin umax abs fabs minnum maxnum fmuladd fma sqrt"
_PURE, _PURE_CALLS = frozenset(_COMPUTES.split()), tuple(f"llvm.{name}." for name in _INTRINSICS.split())
_TYPE = re.compile(r"[%@[{<].*|i\d+|ptr|half|bfloat|float|double|void|label|metadata|token|x86_fp80|fp128")


@dataclass(frozen=True)
class Operand:
    """A value as it is written, where it stands in the line, its type, if that is said there, and its alignment."""

    type: str
    value: str
    start: int
    end: int
    alignment: int = 1

    @property
    def base(self) -> str:
        """The variable that the value is, or that a constant expression is made from; "" for other constants."""
        local = self.value.startswith("%")  # elsewhere such a name is that of a type
        return self.value if local else next((token for token in _TOKEN.findall(self.value) if token[0] == "@"), "")


@dataclass(frozen=True)
class Instruction:
    """A line. ``words`` are flags, predicates and orders; ``type`` is what is loaded, allocated or indexed, or that of
    the first operand, and of a cast that of the result in ``to``; ``labels`` are the blocks that it names."""

    result: str = ""
    op: str = ""
    words: frozenset[str] = frozenset()
    type: str = ""
    args: tuple[Operand, ...] = ()
    to: str = ""
    callee: str = ""
    labels: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # of local values, blocks and types, but for the result
    alignment: int = 1
    debug: int | None = None
    end: int = 0  # of the operation, before what is attached to it

    @property
    def values(self) -> tuple[str, ...]:
        """The operands as they are written."""
        return tuple(operand.value for operand in self.args)

    @property
    def pointer(self) -> Operand | None:
        """Where a load, a store or an atomic operation accesses memory."""
        return self.args[self.op == "store"] if self.op in ("load", "store", "atomicrmw", "cmpxchg") else None

    @property
    def incoming(self) -> list[tuple[str, str]]:
        """What a phi gets, and from which blocks."""
        pairs = (value[2:-2].rpartition(", ") for value in self.values)
        return [(value, block) for value, _, block in pairs]

    @property
    def is_pure(self) -> bool:
        """Whether it gives the same for the same operands, whatever memory holds."""
        return self.op in _PURE or self.callee.startswith(_PURE_CALLS)

    @property
    def is_plain(self) -> bool:
        """Whether a store, neither atomic nor volatile, is of a scalar whose value has a name or is a number."""
        return self.op == "store" and not self.words and self.type.isalnum() and " " not in self.values[0]

    @property
    def variable(self) -> str:
        """The local name that a load or store which is not atomic goes through; "" for others."""
        at = self.pointer if self.op in ("load", "store") and "atomic" not in self.words else None
        return at.value if at is not None and at.value.startswith("%") else ""


def renamed(line: str, names: Mapping[str, str]) -> str:
    """``line`` with others in the place of ``names``, of values, blocks and types."""
    parts, at = [], 0
    for token in _TOKEN.finditer(line):
        if token[0] in names:
            parts += [line[at : token.start()], names[token[0]]]
            at = token.end()
    return "".join([*parts, line[at:]]) if parts else line


def debug_of(line: str) -> int | None:
    """The number of the location that is attached to a line."""
    _, found, rest = line.partition("!dbg !")
    return int(rest.split(",", 1)[0]) if found else None


@functools.lru_cache(maxsize=1 << 16)
def instruction(line: str) -> Instruction:
    """The record of a line; one without an operation for labels and comments."""
    if not line.startswith("  ") or line.lstrip().startswith(("#", ";")):
        return Instruction()
    return _Reader(line).read()


class _Reader:
    """Reads one line. An item is a token, or all within a pair of brackets."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.items: list[tuple[int, int, str]] = []  # start, end, and the text, of a group its first bracket
        self.labels: list[str] = []
        self.names: list[str] = []
        self.debug: int | None = None
        self.end = len(line)
        pending: list[tuple[int, str]] = []
        last = ""
        for token in _TOKEN.finditer(line):
            text, start = token[0], token.start()
            if text[0] == "!" and not pending:  # attachments
                self.end = min(self.end, self.items[-1][0])
                self.debug = int(text[1:]) if last == "!dbg" else self.debug
                last = text
                continue
            if text[0] == "%":
                self.names.append(text)
                self.labels += [text] if last == "label" else []
            last = text
            if pending and text == _CLOSING[pending[-1][1]]:
                first, bracket = pending.pop()
                if not pending:
                    self.items.append((first, token.end(), bracket))
            elif text in _CLOSING:
                pending.append((start, text))
            elif not pending:
                self.items.append((start, token.end(), text))
        self.items = [item for item in self.items if item[1] <= self.end]

    def read(self) -> Instruction:
        result = ""
        if len(self.items) > 1 and self.items[1][2] == "=":
            result = self.names.pop(0)
            del self.items[:2]
        parts: list[list[tuple[int, int, str]]] = [[]]
        for item in self.items:
            if item[2] == ",":
                parts.append([])
            else:
                parts[-1].append(item)
        words, alignment = set(), 1
        while parts[0] and parts[0][0][2] in ("tail", "musttail", "notail"):
            words.add(parts[0].pop(0)[2])
        op = parts[0].pop(0)[2] if parts[0] else ""
        made = functools.partial(
            Instruction, result, op, labels=tuple(self.labels), names=tuple(self.names), debug=self.debug, end=self.end
        )
        if op in ("call", "invoke"):
            return self._call(parts[0], words, made)
        while parts[0] and not _TYPE.fullmatch(parts[0][0][2]):
            words.add(parts[0].pop(0)[2])
        to = ""
        if at := next((i for i, item in enumerate(parts[0]) if item[2] == "to"), 0):
            to = self._text(parts[0][at + 1 :])
            del parts[0][at:]
        alone = op in ("load", "alloca", "getelementptr")  # a type without a value comes first
        type, operands = self._text(parts.pop(0)) if alone else "", []
        for part in parts:
            while (part and part[-1][2] in _ORDERS) or (len(part) > 1 and part[-2][2] == "syncscope"):
                words.add(part.pop()[2])
            if part and part[0][2] == "align":
                alignment = int(part[1][2])
            elif part and part[0][2] != "label":
                operands.append(self._operand(part))
        type = type or next((each.type for each in operands), "")
        return made(frozenset(words), type, tuple(operands), to, alignment=alignment)

    def _call(
        self, items: list[tuple[int, int, str]], words: set[str], made: functools.partial[Instruction]
    ) -> Instruction:
        """A call of a function by its name, or, without one, through a pointer; its operands are the arguments."""
        at = next((i for i, item in enumerate(items) if item[2] == "(" and i and items[i - 1][2][0] in "%@"), 0)
        if not at:
            return made()
        start, end, _ = items[at]
        name = items[at - 1][2]
        inner = _Reader(f"  {self.line[start + 1 : end - 1]}")
        operands, part = [], list[tuple[int, int, str]]()
        for item in [*inner.items, (0, 0, ",")]:
            if item[2] == ",":
                operands += [inner._operand(part, start - 1)] if part else []
                part = []
            else:
                part.append(item)
        callee = name[1:].strip('"') if name[0] == "@" else ""
        type = next((k for k, item in enumerate(items[: at - 1]) if _TYPE.fullmatch(item[2])), 0)
        return made(frozenset(words), self._type(items[type:at]), tuple(operands), callee=callee)

    def _text(self, items: list[tuple[int, int, str]]) -> str:
        return self.line[items[0][0] : items[-1][1]] if items else ""

    def _type(self, items: list[tuple[int, int, str]]) -> str:
        return self._text(items[: 3 if len(items) > 1 and items[1][2] == "addrspace" else 1])

    def _operand(self, items: list[tuple[int, int, str]], moved: int = 0) -> Operand:
        """A value, behind its type and attributes where these are there."""
        first = len(items) - 1
        if items[-1][2] == "(":  # of a constant expression, which a word begins
            while first > 0 and items[first][2] in _WITHIN:
                first -= 1
        aligned = next((int(items[i + 1][2]) for i, item in enumerate(items[:first]) if item[2] == "align"), 1)
        type, value = self._type(items) if first else "", self._text(items[first:])
        return Operand(type, value, items[first][0] + moved, items[-1][1] + moved, aligned)
