"""An IR builder that writes the text of an instruction when it is made: most of what llvmlite takes for a module is the
objects of instructions, their checks, and formatting them afterwards."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

_BINARY = (
    "add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "shl", "lshr", "ashr", "and", "or", "xor",
    "fadd", "fsub", "fmul", "fdiv", "frem",
)  # fmt: skip
_CASTS = (
    "trunc", "zext", "sext", "fptrunc", "fpext", "bitcast", "fptoui", "uitofp", "fptosi", "sitofp",
    "ptrtoint", "inttoptr",
)  # fmt: skip
_KEYWORDS = {"and": "and_", "or": "or_"}
_COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_I1, _VOID = ir.IntType(1), ir.VoidType()


class Written(ir.Instruction):  # type: ignore[misc]
    """An instruction whose text is there: ``reference`` is how others name its result, if it has one."""

    def __init__(
        self, block: ir.Block, type_: ir.Type, opname: str, operands: Sequence[ir.Value], reference: str, text: str
    ) -> None:
        self.parent = block
        self.type = type_
        self.opname = opname
        self.operands = operands
        self.reference = reference
        self.text = text
        self.metadata: dict[str, Any] = {}

    def get_reference(self) -> str:
        return self.reference

    def __str__(self) -> str:
        return self.text

    def __format__(self, how: str) -> str:
        return str(self)  # which to find out takes as long


class Computed(Written):
    """An instruction without effects of those that often nobody reads, whose text is made at the end: ``text`` is what
    stands before the operands, and ``tail`` what stands behind them."""

    tail: str
    read = False  # whether anything that stays names it

    def get_reference(self) -> str:
        if not self.read:
            self.read = True
            found = [self]
            while found:  # no recursion: a sum may be long
                for x in found.pop().operands:
                    if isinstance(x, Computed) and not x.read:
                        x.read = True
                        found.append(x)
        return self.reference

    def __str__(self) -> str:
        return f"{self.reference} = {self.text}{_given(self.operands)}{self.tail}"


def _given(operands: Sequence[ir.Value]) -> str:
    return ", ".join([f"{v.type} {v.get_reference()}" for v in operands])


class Phi(Written):
    """A phi, whose text is made when it has all that comes in."""

    def __init__(self, block: ir.Block, type_: ir.Type, reference: str, line: str) -> None:
        super().__init__(block, type_, "phi", (), reference, line)
        self._incoming: list[str] = []

    def add_incoming(self, value: ir.Value, block: ir.Block) -> None:
        self._incoming.append(f"[{value.get_reference()}, {block.get_reference()}]")

    def __str__(self) -> str:
        return f"{self.reference} = phi {self.type} {', '.join(self._incoming)}{self.text}"


class TextBuilder(ir.IRBuilder):  # type: ignore[misc]
    """``llvmlite.ir.IRBuilder``, whose most frequent instructions are ``Written``.

    It leaves checking types to LLVM. Results have names of their own; those of arguments and blocks begin otherwise.
    """

    def __init__(self, block: ir.Block) -> None:
        super().__init__(block)
        # Of the function, which may have several builders.
        self._numbers = vars(block.function).setdefault("numbers", itertools.count(1))
        self._computed: list[Computed] = []
        self._line = ""  # that of the source, as instructions end

    @property
    def debug_metadata(self) -> ir.DIValue | None:
        """Where in the source what is written from here on comes from."""
        return self._location

    @debug_metadata.setter
    def debug_metadata(self, location: ir.DIValue | None) -> None:
        self._location = location
        self._line = "" if location is None else f", !dbg {location.get_reference()}"

    def write(self, type_: ir.Type, opname: str, operands: Sequence[ir.Value], text: str) -> Written:
        """Insert an instruction with a result: ``text`` is what stands behind its name, without the metadata."""
        name = self._new_name()
        made = Written(self._block, type_, opname, operands, name, f"{name} = {text}{self._line}")
        self._insert_written(made)
        return made

    def compute(self, type_: ir.Type, opname: str, operands: Sequence[ir.Value], head: str, tail: str) -> Computed:
        """Insert an instruction without effects, see ``Computed``."""
        made = Computed(self._block, type_, opname, operands, self._new_name(), head)
        made.tail = tail + self._line
        self._computed.append(made)
        self._insert_written(made)
        return made

    def leave_out_unread(self) -> None:
        """Take what nobody reads out of the function, which is complete."""
        unread = {x for x in self._computed if not x.read}
        for block in {x.parent for x in unread}:
            block.instructions = [x for x in block.instructions if x not in unread]

    def _insert(self, instr: ir.Instruction) -> None:
        """One of llvmlite's, which names its operands at the end."""
        super()._insert(instr)
        for v in instr.operands:
            v.get_reference()

    def write_effect(self, opname: str, operands: Sequence[ir.Value], text: str) -> Written:
        """Insert an instruction without a result."""
        made = Written(self._block, _VOID, opname, operands, "", text + self._line)
        self._insert_written(made)
        return made

    def _new_name(self) -> str:
        return f"%${next(self._numbers)}"

    def _insert_written(self, made: Written) -> None:
        self._block.instructions.insert(self._anchor, made)
        self._anchor += 1

    def phi(self, typ: ir.Type, name: str = "", flags: Sequence[str] = ()) -> Phi:
        made = Phi(self._block, typ, self._new_name(), self._line)
        self._insert_written(made)
        return made

    def fneg(self, value: ir.Value, name: str = "", flags: Sequence[str] = ()) -> Written:
        return self.write(value.type, "fneg", (value,), f"fneg {value.type} {value.get_reference()}")

    def call(self, fn: ir.Value, args: Sequence[ir.Value], *names: str, **how: Any) -> ir.Instruction:
        if names or how or not isinstance(fn, ir.Function) or fn.calling_convention or fn.function_type.var_arg:
            return super().call(fn, args, *names, **how)
        result = fn.function_type.return_type
        head = f"call {result} {fn.get_reference()}("
        if isinstance(result, ir.VoidType):
            return self.write_effect("call", (fn, *args), f"{head}{_given(args)})")
        if fn.name.startswith("llvm.") and not fn.name.startswith("llvm.nvvm."):  # those of all targets
            return self.compute(result, "call", args, head, ")")
        return self.write(result, "call", (fn, *args), f"{head}{_given(args)})")

    def select(
        self, cond: ir.Value, lhs: ir.Value, rhs: ir.Value, name: str = "", flags: Sequence[str] = ()
    ) -> Written:
        return self.write(lhs.type, "select", (cond, lhs, rhs), f"select {_given((cond, lhs, rhs))}")

    def load(
        self, ptr: ir.Value, name: str = "", align: int | None = None, typ: ir.Type | None = None
    ) -> ir.Instruction:
        if typ is None:  # a stack variable knows it
            return super().load(ptr, name, align)
        how = "" if align is None else f", align {align}"
        return self.write(typ, "load", (ptr,), f"load {typ}, {_given((ptr,))}{how}")

    def gep(
        self,
        ptr: ir.Value,
        indices: Sequence[ir.Value],
        inbounds: bool = False,
        name: str = "",
        source_etype: ir.Type | None = None,
    ) -> ir.Instruction:
        if source_etype is None or inbounds:
            return super().gep(ptr, indices, inbounds, name, source_etype)
        operands = ptr, *indices
        return self.write(ptr.type, "getelementptr", operands, f"getelementptr {source_etype}, {_given(operands)}")

    def insert_element(self, vector: ir.Value, value: ir.Value, idx: ir.Value, name: str = "") -> Written:
        operands = vector, value, idx
        return self.write(vector.type, "insertelement", operands, f"insertelement {_given(operands)}")

    def shuffle_vector(self, vector1: ir.Value, vector2: ir.Value, mask: ir.Constant, name: str = "") -> Written:
        operands, type_ = (vector1, vector2, mask), ir.VectorType(vector1.type.element, mask.type.count)
        return self.write(type_, "shufflevector", operands, f"shufflevector {_given(operands)}")

    def extract_value(self, agg: ir.Value, idx: int, name: str = "") -> Written:
        return self.compute(agg.type.elements[idx], "extractvalue", (agg,), "extractvalue ", f", {idx}")

    def assembly(
        self, result: ir.Type, text: str, constraints: Sequence[str], args: Sequence[ir.Value], *, effects: bool
    ) -> Written:
        """Inline assembly, as ``asm`` makes it, whose parameters have the types of ``args``."""
        head = f'call {result} asm {"sideeffect " if effects else ""}"{text}", "{",".join(constraints)}"('
        if isinstance(result, ir.VoidType):
            return self.write_effect("call", args, f"{head}{_given(args)})")
        if not effects:
            return self.compute(result, "call", args, head, ")")
        return self.write(result, "call", args, f"{head}{_given(args)})")


def _binary(opname: str) -> Callable[..., ir.Instruction]:
    def method(self: TextBuilder, lhs: ir.Value, rhs: ir.Value, name: str = "", flags: Sequence[str] = ()) -> Written:
        how = f"{opname} {' '.join(flags)}" if flags else opname
        text = f"{how} {lhs.type} {lhs.get_reference()}, {rhs.get_reference()}"
        return self.write(lhs.type, opname, (lhs, rhs), text)

    return method


def _cast(opname: str) -> Callable[..., ir.Value]:
    def method(self: TextBuilder, value: ir.Value, typ: ir.Type, name: str = "") -> ir.Value:
        kind = value.type
        if kind is typ or kind == typ:
            return value
        return self.compute(typ, opname, (value,), f"{opname} ", f" to {typ}")

    return method


def _comparison(sign: str) -> Callable[..., Written]:
    def method(self: TextBuilder, cmpop: str, lhs: ir.Value, rhs: ir.Value, name: str = "") -> Written:
        kind = _COMPARISONS[cmpop]
        text = f"icmp {kind if kind in ('eq', 'ne') else sign + kind} {lhs.type} {lhs.get_reference()}, "
        made = ir.VectorType(_I1, lhs.type.count) if isinstance(lhs.type, ir.VectorType) else _I1
        return self.write(made, "icmp", (lhs, rhs), text + rhs.get_reference())

    return method


TextBuilder.icmp_signed, TextBuilder.icmp_unsigned = _comparison("s"), _comparison("u")
for _name in _BINARY:
    setattr(TextBuilder, _KEYWORDS.get(_name, _name), _binary(_name))
for _name in _CASTS:
    setattr(TextBuilder, _name, _cast(_name))
