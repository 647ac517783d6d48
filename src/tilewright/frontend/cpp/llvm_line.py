"""Types and constants of textual LLVM IR, token by token."""

from __future__ import annotations

import re
import struct
from typing import Any

from tilewright.frontend.cpp.llvm_form import HANDLE, UNDEFINED, Const, LLVMTextError, Local, Operand, Symbol

_TOKEN = re.compile(
    r"""\s*(?:(?P<name>[%@](?:"[^"]*"|[-\w.$]+))
      | (?P<meta>!(?:\d+|[\w.]+)?)
      | (?P<string>c?"[^"]*")
      | (?P<number>0x[HRKLM]?[0-9A-Fa-f]+|-?\d+(?:\.\d+(?:e[-+]?\d+)?)?|-?(?:inf|nan)\b)
      | (?P<word>[A-Za-z_.][\w.]*|\#\d+)
      | (?P<punct>\.\.\.|.))""",
    re.VERBOSE,
)
_TYPE_WORDS = frozenset(
    ["void", "half", "bfloat", "float", "double", "ptr", "label", "metadata", "token", "fp128", "x86_fp80"]
)


_CLOSING = {"{": "}", "[": "]", "<": ">"}
_CONSTANTS = {"true": True, "false": False, "null": None, "undef": UNDEFINED, "poison": UNDEFINED, "zeroinitializer": 0}


class Line:
    """A cursor over the tokens of a type or a constant."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [(str(m.lastgroup), m.group(m.lastgroup or 0)) for m in _TOKEN.finditer(text)]
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

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
            return Const(type, (element,) * lanes_of(type))
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
        return type, self.value(type)

    def label(self) -> str:
        self.expect("label")
        return self.take()[1:].strip('"')


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


def lanes_of(type: str) -> int:
    """How many elements a vector type has."""
    return int(type.split()[1])


def string_bytes(token: str) -> bytes:
    """The bytes of a constant string, as ``c"..."``."""
    return re.sub(rb"\\([0-9A-Fa-f]{2})", lambda m: bytes.fromhex(m[1].decode()), token[2:-1].encode())
