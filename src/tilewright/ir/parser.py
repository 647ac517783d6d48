"""Reads the text form of Tile IR that ``ir.printer`` writes. Comments start with ``#`` and end with the line."""

from __future__ import annotations

import enum
import functools
import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from tilewright.ir import enums, types
from tilewright.ir import ops as _ops  # declares every op
from tilewright.ir.core import Block, Function, Op, Param, Value
from tilewright.ir.dtypes import DType, dtype_from_short
from tilewright.ir.enums import PaddingMode
from tilewright.ir.hints import ByTarget
from tilewright.ir.layouts import LinearLayout
from tilewright.ir.location import UNKNOWN, Loc
from tilewright.ir.opdef import TABLES, Arity, IRError, create
from tilewright.ir.verifier import VerificationError, verify

__all__ = ["IRParseError", "parse_function"]

assert _ops

_TOKEN = re.compile(
    r"""(?P<space>\s+|\#(?!layout<)[^\n]*)
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<number>-?(?:\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\d+|inf\b))
      | (?P<value>%\w+)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<punct>[(){}\[\],:=<>!?^@.\#])""",
    re.VERBOSE,
)

_ENUMS: dict[str, type[enum.Enum]] = {
    name: cls for name, cls in vars(enums).items() if isinstance(cls, type) and issubclass(cls, enum.Enum)
}
_T = TypeVar("_T")
_KEYWORDS: dict[str, Any] = {"none": None, "true": True, "false": False, "inf": float("inf"), "nan": float("nan")}


class IRParseError(Exception):
    """Text that is not Tile IR; the message starts with ``line:column``."""


def parse_function(text: str) -> Function:
    """The well-formed function that ``text`` describes. Raises IRParseError with the position of the mistake."""
    parser = _Parser(text)
    try:
        function = parser.function()
    except RecursionError:
        raise parser.error("this is nested too deeply") from None
    parser.expect_end()
    try:
        verify(function)
    except VerificationError as e:
        raise parser.error(e.message, parser.positions[e.where]) from None
    return function


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise self.error(f"unexpected character {text[position]!r}", position)
            if match.lastgroup != "space":
                self.tokens.append((str(match.lastgroup), match.group(), position))
            position = match.end()
        self.tokens.append(("end", "end of text", len(text)))
        self.next = 0
        self.values: dict[str, Value] = {}  # what is defined here, and its names in order
        self.names: list[str] = []
        self.positions: dict[Op | Block, int] = {}  # where each op starts, and each block ends

    # -- tokens

    def error(self, message: str, position: int | None = None) -> IRParseError:
        if position is None:
            position = self.tokens[self.next][2]
        line = self.text.count("\n", 0, position) + 1
        column = position - self.text.rfind("\n", 0, position)
        return IRParseError(f"{line}:{column}: {message}")

    def peek(self) -> str:
        return self.tokens[self.next][1]

    def last(self) -> int:
        """Where the token that was read last starts."""
        return self.tokens[self.next - 1][2]

    def take(self, kind: str) -> str:
        found, text, _ = self.tokens[self.next]
        if found != kind:
            raise self.error(f"expected a {kind}, found {text!r}")
        self.next += 1
        return text

    def accept(self, text: str, *rest: str) -> bool:
        """Read ``text`` if it comes next, and ``rest``, which has to follow it."""
        if self.peek() != text:
            return False
        self.next += 1
        self.expect(*rest)
        return True

    def expect(self, *texts: str) -> None:
        for text in texts:
            if not self.accept(text):
                raise self.error(f"expected {text!r}, found {self.peek()!r}")

    def parts(self, *parts: str | Callable[[], Any]) -> list[Any]:
        """What the functions among ``parts`` read, in order; the texts have to stand between that."""
        found: list[Any] = []
        for part in parts:
            if isinstance(part, str):
                self.expect(part)
            else:
                found.append(part())
        return found

    def sequence(self, end: str, read: Callable[[], _T]) -> list[_T]:
        """Entries up to ``end``, with commas between them."""
        found: list[_T] = []
        while not self.accept(end):
            found.append(read())
            if self.peek() != end:
                self.expect(",")
        return found

    def expect_end(self) -> None:
        if self.tokens[self.next][0] != "end":
            raise self.error(f"unexpected {self.peek()!r} after the function")

    def integer(self) -> int:
        text = self.take("number")
        try:
            return int(text)
        except ValueError:
            raise self.error(f"expected an integer, found {text!r}") from None

    def string(self) -> str:
        text = self.take("string")
        try:
            value: str = json.loads(text)
        except ValueError as e:
            raise self.error(f"{text} is no string of JSON: {e}", self.last()) from None
        return value

    # -- types

    def element_type(self) -> types.ElementType:
        word = self.word()
        if word == "ptr":
            (inner,) = self.parts("<", self.word, ">")
            return types.PointerType(None if inner == "void" else self.dtype(inner))
        return self.dtype(word)

    def word(self) -> str:
        return self.take("word")

    def dtype_word(self) -> DType:
        return self.dtype(self.word())

    def dtype(self, short: str) -> DType:
        try:
            return dtype_from_short(short)
        except KeyError:
            raise self.error(f"unknown dtype {short!r}", self.last()) from None

    def extents(self) -> tuple[int | None, ...]:
        self.expect("[")
        return tuple(self.sequence("]", lambda: None if self.accept("?") else self.integer()))

    def static_extents(self) -> tuple[int, ...]:
        extents = self.extents()
        if None in extents:
            raise self.error("expected static extents")
        return extents  # type: ignore[return-value]

    def value_type(self) -> types.Type:
        if self.accept("view"):
            return self.tensor_view()
        if self.accept("partition"):
            extents = self.static_extents
            fields = ("<", "view", self.tensor_view, ",", extents, ",", extents, ",", self.padding, ",", extents, ">")
            return types.PartitionViewType(*self.parts(*fields))
        if self.accept("shared"):
            return self.shared_type()
        return self.tile_type()

    def tile_type(self) -> types.TileType:
        dtype = self.element_type()
        shape = self.static_extents() if self.peek() == "[" else ()
        wrong = types.check_tile_shape(shape)
        if wrong is not None:
            raise self.error(wrong, self.last())
        return types.TileType(dtype, shape, self.layout(shape) if self.peek() == "#" else None)

    def shared_type(self) -> types.SharedType:
        self.expect("<")
        start = self.tokens[self.next][2]
        tile = self.tile_type()
        copies = self.integer() if self.accept(",") else 1
        self.expect(">")
        if tile.layout is None or tile.is_pointer:
            raise self.error("a tile in shared memory has numbers and a layout", start)
        return types.SharedType(tile.element, tile.layout, copies)

    def layout(self, shape: tuple[int, ...]) -> LinearLayout:
        start = self.tokens[self.next][2]
        self.expect("#", "layout", "<")
        dims = self.sequence(">", self.layout_dimension)
        try:
            return LinearLayout.of(shape, dict(dims))
        except ValueError as e:
            raise self.error(str(e), start) from None

    def layout_dimension(self) -> tuple[str, list[tuple[int, ...]]]:
        name = self.word()
        self.expect("=", "[")
        return name, self.sequence("]", self.static_extents)

    def padding(self) -> PaddingMode:
        word = self.word()
        try:
            return PaddingMode(word)
        except ValueError:
            raise self.error(f"unknown padding mode {word!r}", self.last()) from None

    def tensor_view(self) -> types.TensorViewType:
        fields = ("<", self.dtype_word, ",", self.extents, ",", self.extents, ",", self.dtype_word, ">")
        return types.TensorViewType(*self.parts(*fields))

    # -- attributes and locations

    def attribute_value(self) -> Any:
        kind, text, _ = self.tokens[self.next]
        if kind == "string":
            return self.string()
        if kind == "number":
            self.next += 1
            return float(text) if any(c in text for c in ".eEn") else int(text)
        if self.accept("!"):
            return self.value_type()
        if self.accept("("):
            return tuple(self.sequence(")", self.attribute_value))
        if text in _KEYWORDS:
            self.next += 1
            return _KEYWORDS[text]
        if self.accept("by_target"):
            self.expect("(")
            start = self.last()
            try:
                return ByTarget(**self.entries(")"))
            except ValueError as e:
                raise self.error(str(e), start) from None
        if text in _ENUMS:
            self.next += 1
            self.expect(".")
            member = self.word()
            try:
                return _ENUMS[text][member]
            except KeyError:
                raise self.error(f"{text} has no member {member}") from None
        return self.element_type()

    def entries(self, end: str) -> dict[str, Any]:
        return dict(self.sequence(end, self.entry))

    def entry(self) -> tuple[str, Any]:
        key, value = self.parts(self.word, "=", self.attribute_value)
        return key, value

    def location(self) -> Loc:
        return self.parts("(", self.loc_chain, ")")[0] if self.accept("loc") else UNKNOWN

    def loc_chain(self) -> Loc:
        file, line, column = self.parts(self.string, ":", self.integer, ":", self.integer)
        end: tuple[int | None, int | None] = (None, None)
        if self.peek().startswith("-"):  # the tokenizer reads "-3:9" as the number -3
            end_line = -self.integer()
            self.expect(":")
            end = (end_line, self.integer())
        function = self.string()
        caller = self.loc_chain() if self.accept("at") else None
        return Loc(file, line, column, *end, function, caller)

    def has_attributes(self) -> bool:
        """Whether a list of attributes follows, and not a region."""
        if self.peek() != "{":
            return False
        (kind, _, _), (_, following, _) = self.tokens[self.next + 1 : self.next + 3]
        return kind == "word" and following == "="

    # -- functions and ops

    def define(self, value: Value, name: str, position: int | None = None) -> None:
        if name in self.values:
            raise self.error(f"{name} is defined twice", position)
        self.values[name] = value
        self.names.append(name)
        if not name[1:].isdigit():
            value.name = name[1:]

    def function(self) -> Function:
        self.expect("func", "@")
        name = self.string() if self.tokens[self.next][0] == "string" else self.word()
        while self.accept(":"):  # a C++ name: space::kernel
            self.expect(":")
            name += f"::{self.take('word')}"
        self.expect("(")
        body = Block()
        params = self.sequence(")", lambda: self.param(body))
        hints: dict[str, Any] = {}
        if self.accept("hints", "{"):
            hints = self.entries("}")
        may_alias = self.accept("may_alias")
        loc = self.location()
        self.expect("{")
        self.block_body(body)
        return Function(name, body, params, loc, hints, may_alias)

    def argument(self, block: Block) -> None:
        name, type = self.parts(functools.partial(self.take, "value"), ":", self.value_type)
        self.define(block.add_arg(type), name)

    def param(self, body: Block) -> Param:
        self.argument(body)
        argument, role = self.parts("=", self.string, ".", self.word)
        axis = self.integer() if self.accept(".") else None
        return Param(argument, role, axis, self.accept("noalias"))

    def block_body(self, block: Block) -> None:
        while not self.accept("}"):
            block.append(self.op())
        self.positions[block] = self.last()

    def operand(self) -> Value:
        name = self.take("value")
        if name not in self.values:
            raise self.error(f"{name} is not defined", self.last())
        return self.values[name]

    def op(self) -> Op:
        names = []
        while self.tokens[self.next][0] == "value":
            names.append(self.take("value"))
            if not self.accept(","):
                break
        if names:
            self.expect("=")
        start = self.tokens[self.next][2]
        op_name = self.word()
        if self.accept("."):  # of a dialect
            op_name += f".{self.take('word')}"
        cls = next((table[op_name] for table in TABLES if op_name in table), None)
        if cls is None:
            raise self.error(f"unknown op {op_name!r}", start)
        groups = self.operand_groups(cls)
        keywords = self.entries("}") if self.has_attributes() and self.accept("{") else {}
        declared = [self.value_type()] if self.accept(":") else []
        while declared and self.accept(","):
            declared.append(self.value_type())
        loc = self.location()
        for r in cls.spec.regions:
            if r.optional and self.peek() != "{":
                break
            self.expect("{")
            keywords[r.name] = self.region()
        try:
            op = create(cls, groups, keywords, loc)
        except IRError as e:
            raise self.error(str(e), start) from None
        self.positions[op] = start
        found = [r.type for r in op.results]
        if found != declared:
            raise self.error(f"{op_name} yields {list(map(str, found))}, not {list(map(str, declared))}", start)
        if len(names) != len(op.results):
            raise self.error(f"{op_name} has {len(op.results)} results, not {len(names)}", start)
        for name, result in zip(names, op.results):
            self.define(result, name, start)
        return op

    def region(self) -> Block:
        block, outer = Block(), len(self.names)
        if self.accept("^", "("):
            self.sequence(")", lambda: self.argument(block))
        self.block_body(block)
        for name in self.names[outer:]:
            del self.values[name]
        del self.names[outer:]
        return block

    def operand_groups(self, cls: type[Op]) -> list[Any]:
        groups: list[Any] = []
        self.expect("(")
        for i, f in enumerate(cls.spec.operands):
            if i:
                self.expect(",")
            if f.arity is Arity.MANY:
                self.expect("[")
                groups.append(self.sequence("]", self.operand))
            elif f.arity is Arity.OPTIONAL and self.accept("_"):
                groups.append(None)
            else:
                groups.append(self.operand())
        self.expect(")")
        return groups
