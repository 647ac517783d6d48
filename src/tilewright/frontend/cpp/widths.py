"""Integers of widths that tile code does not have, such as a struct of three bytes that is passed as one number.

Each becomes an integer of the next width that exists, whose upper bits are zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.frontend.cpp.llvm_form import UNDEFINED, BasicBlock, Const, Instruction, LLVMFunction, Local, Operand

_WIDTHS = (8, 16, 32, 64)
_CLEAN = frozenset(["and", "or", "xor", "lshr", "udiv", "urem"])  # of clean operands, these give clean results
_SIGNED = frozenset(["ashr", "sdiv", "srem"])
_SAME_TYPE = frozenset(["phi", "select", "freeze"])


def widen_integers(function: LLVMFunction) -> LLVMFunction:
    """``function`` with integers of 8, 16, 32 and 64 bits only, but for those that are wider still."""
    if not any(_is_odd(t) for b in function.blocks for i in b.instructions for t in (i.type, *i.types)):
        return function
    names = (f"widened.{n}" for n in range(1 << 30))
    blocks = [
        BasicBlock(b.name, [new for i in b.instructions for new in _Widener(i, names).run()]) for b in function.blocks
    ]
    return replace(function, blocks=blocks)


def _bits(type: str) -> int:
    return int(type[1:]) if type[:1] == "i" and type[1:].isdigit() else 0


def _is_odd(type: str) -> bool:
    return 1 < _bits(type) < 64 and _bits(type) not in _WIDTHS


def _wide(type: str) -> str:
    return f"i{next(w for w in _WIDTHS if w >= _bits(type))}" if _is_odd(type) else type


class _Widener:
    """What replaces one instruction."""

    def __init__(self, instruction: Instruction, names: Iterator[str]) -> None:
        self.i = instruction
        self.names = names
        self.made: list[Instruction] = []

    def run(self) -> list[Instruction]:
        i = self.i
        operand_type = i.types[0] if i.types else i.type
        if not any(map(_is_odd, (i.type, *i.types))):
            return [i]
        if i.op in _SAME_TYPE or i.op in _CLEAN or i.op in ("icmp", "switch", "uitofp"):
            self._retyped()
        elif i.op in _SIGNED or i.op == "sitofp":
            self._retyped(signed=True)
        elif i.op in ("add", "sub", "mul", "shl", "fptoui", "fptosi"):
            self._masked(self._emit(i.op, _wide(i.type), [self._value(o, i.type) for o in i.operands]))
        elif i.op in ("trunc", "zext"):
            self._masked(self._resized(self._value(i.operands[0], operand_type), _wide(operand_type), "zext"))
        elif i.op == "sext":
            extended = self._extended(self._value(i.operands[0], operand_type), operand_type)
            self._masked(self._resized(extended, _wide(operand_type), "sext"))
        elif i.op == "load" and _bits(i.type) % 8 == 0:
            self._load()
        elif i.op == "store" and _bits(operand_type) % 8 == 0:
            self._store()
        else:
            return [i]
        return self.made

    def _emit(self, op: str, type: str, operands: list[Operand], name: str | None = None) -> Local:
        result = Local(name or next(self.names))
        types = [type] * len(operands)
        self.made.append(Instruction(result.name, op, type, operands, types, debug=self.i.debug))
        return result

    def _convert(self, op: str, value: Operand, source: str, target: str) -> Local:
        result = self._emit(op, target, [value])
        self.made[-1].types = [source]
        return result

    def _value(self, operand: Operand, type: str) -> Operand:
        if not isinstance(operand, Const) or not _is_odd(type):
            return operand
        number = 0 if operand.value is UNDEFINED else int(operand.value) % (1 << _bits(type))
        return Const(_wide(type), number)

    def _masked(self, value: Operand) -> None:
        """``value``, cut to the width of the result, as the result."""
        type = self.i.type
        mask = (1 << _bits(type)) - 1 if _is_odd(type) else -1
        self._emit("and", _wide(type), [value, Const(_wide(type), mask)], self.i.name)

    def _resized(self, value: Operand, source: str, widen: str) -> Operand:
        target = _wide(self.i.type)
        if source == target:
            return value
        return self._convert(widen if _bits(source) < _bits(target) else "trunc", value, source, target)

    def _extended(self, value: Operand, type: str) -> Operand:
        """``value`` with its sign in the upper bits too."""
        if not _is_odd(type):
            return value
        shift = Const(_wide(type), _bits(_wide(type)) - _bits(type))
        return self._emit("ashr", _wide(type), [self._emit("shl", _wide(type), [value, shift]), shift])

    def _retyped(self, signed: bool = False) -> None:
        i = self.i
        types = i.types or [i.type] * len(i.operands)
        operands = [self._value(o, t) for o, t in zip(i.operands, types)]
        if signed or (i.op == "icmp" and i.detail.startswith("s")):
            operands = [self._extended(o, t) for o, t in zip(operands, types)]
        new = replace(i, type=_wide(i.type), operands=operands, types=[*map(_wide, i.types)], flags=frozenset())
        if i.op == "switch":
            new.detail = [None if case is None else case % (1 << _bits(types[0])) for case in i.detail]
        self.made.append(new)
        if i.op in _SIGNED:
            new.name = next(self.names)
            self._masked(Local(new.name))

    # -- memory, where the number has no padding

    def _pieces(self, type: str, pointer: Operand) -> Iterator[tuple[int, str, Operand]]:
        """The parts of ``type`` that have widths of tile code: first bit, type, and where it lies."""
        start = 0
        while start < _bits(type):
            width = next(w for w in reversed(_WIDTHS) if start + w <= _bits(type))
            address = pointer
            if start:
                address = self._emit("getelementptr", "ptr", [pointer, Const("i64", start // 8)])
                self.made[-1].types, self.made[-1].detail = ["ptr", "i64"], "i8"
            yield start, f"i{width}", address
            start += width

    def _load(self) -> None:
        wide = _wide(self.i.type)
        whole: Operand = Const(wide, 0)
        for start, type, address in self._pieces(self.i.type, self.i.operands[0]):
            loaded = self._convert("load", address, "ptr", type)
            part = loaded if type == wide else self._convert("zext", loaded, type, wide)
            whole = self._emit("or", wide, [whole, self._emit("shl", wide, [part, Const(wide, start)])])
        self._masked(whole)

    def _store(self) -> None:
        type = self.i.types[0]
        value = self._value(self.i.operands[0], type)
        for start, part, address in self._pieces(type, self.i.operands[1]):
            shifted = self._emit("lshr", _wide(type), [value, Const(_wide(type), start)])
            number = shifted if part == _wide(type) else self._convert("trunc", shifted, _wide(type), part)
            self.made.append(Instruction(None, "store", "void", [number, address], [part, "ptr"], debug=self.i.debug))
