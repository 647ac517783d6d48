"""``printf``: the format becomes literal text and one conversion for each value."""

from __future__ import annotations

import re
from typing import NoReturn

from tilewright.frontend.cpp.llvm_form import HANDLE, Const, Instruction, Operand, Symbol
from tilewright.frontend.cpp.llvm_text import constant_text
from tilewright.frontend.cpp.typecodes import LLVM_DTYPES, signed, unsigned
from tilewright.frontend.cpp.values import Translation
from tilewright.ir.core import Value
from tilewright.ir.dtypes import DType, int8, int16
from tilewright.ir.errors import TileTypeError
from tilewright.ir.formatting import FLOATING, KINDS, SIGNED, conversions, joined
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.memory import Print

_SIGNED = SIGNED | {"c"}
_NARROW = {"hh": int8, "h": int16}


def print_formatted(state: Translation, i: Instruction) -> None:
    """Emit the ``print`` op for a call of ``printf``."""
    text = literal(state, i.operands[0])
    if text is None:
        state.fail("the format of printf must be a string literal", TileTypeError)
    if i.name is not None and i.name in state.uses:
        state.fail("printf gives no result in tile code")
    printer = _Printer(state, list(zip(i.operands[1:], i.types[1:])))
    for before, match in conversions(text):
        printer.parts.append(before)
        if match is not None:
            printer.convert(match)
    state.builder.emit_op(Print, printer.values, parts=joined(printer.parts), formats=tuple(printer.formats))


def literal(state: Translation, operand: Operand) -> str | None:
    """The text of the string literal at ``operand``; None for anything else."""
    if isinstance(operand, Symbol) and operand.name in state.module.globals:
        return constant_text(state.module.globals[operand.name])[operand.offset :].partition("\0")[0]
    return None


class _Printer:
    """The parts of one ``print`` op, and the arguments that are left for them."""

    def __init__(self, state: Translation, arguments: list[tuple[Operand, str]]) -> None:
        self.state = state
        self.arguments = arguments
        self.parts: list[str | None] = []
        self.formats: list[str] = []
        self.values: list[Value] = []

    def convert(self, match: re.Match[str]) -> None:
        written, kind = match.group(), match["kind"]
        if kind not in KINDS | {"s"} or "^" in written:
            self.state.fail(f"printf does not know the conversion at '{written}'", TileTypeError)
        width, precision = (self._size(match[size], written) for size in ("width", "precision"))
        exact = match["precision"] is not None
        field = f"{match['flags']}{width}{f'.{precision}' if exact else ''}"
        operand, type = self._next(written)
        if kind == "s":
            string = literal(self.state, operand)
            if string is None:
                self._refuse(written, "a string literal")
            cut = string[: int(precision or 0)] if exact else string
            self.parts.append(cut.ljust(int(width or 0)) if "-" in match["flags"] else cut.rjust(int(width or 0)))
            return
        self.parts.append(None)
        self.formats.append(f"%{field}{kind}")
        self.values.append(self._value(operand, type, match))

    def _next(self, written: str) -> tuple[Operand, str]:
        if not self.arguments:
            self.state.fail(f"printf has no argument for '{written}'", TileTypeError)
        return self.arguments.pop(0)

    def _size(self, size: str | None, written: str) -> str:
        """A width or precision; one that is an argument must be known at compile time."""
        if size != "*":
            return size or ""
        operand, _ = self._next(written)
        if not isinstance(operand, Const) or not isinstance(operand.value, int):
            self.state.fail(f"the width and precision in '{written}' must be compile-time constants", TileTypeError)
        return str(operand.value)

    def _value(self, operand: Operand, type: str, match: re.Match[str]) -> Value:
        """The argument as what the conversion reads it as."""
        state, written, kind = self.state, match.group(), match["kind"]
        if isinstance(operand, Symbol):
            self._refuse(written, "a pointer into an array" if kind == "p" else "a number")
        value = state.tile(operand) if type == HANDLE else state.value(operand, type)
        dtype = value.tile.dtype
        if kind == "p":
            if isinstance(dtype, DType):
                self._refuse(written, "a pointer")
            return value
        if kind in FLOATING:
            if not isinstance(dtype, DType) or not dtype.is_floating:
                self._refuse(written, "a floating point number")
            return value
        if not isinstance(dtype, DType) or dtype.is_floating:
            self._refuse(written, "an integer")
        if dtype.is_bool:
            return value
        number = state.coerce(value, signed(dtype) if kind in _SIGNED else unsigned(dtype))
        narrow = _NARROW.get(match["length"] or "")
        if narrow is None or type not in LLVM_DTYPES:
            return number
        return state.builder.emit(Cast, number, dtype=narrow if kind in _SIGNED else unsigned(narrow))

    def _refuse(self, written: str, wanted: str) -> NoReturn:
        self.state.fail(f"'{written}' of printf takes {wanted}", TileTypeError)
