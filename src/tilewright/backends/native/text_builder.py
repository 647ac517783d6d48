"""An IR builder whose instructions are little more than the text that LLVM reads: most of what llvmlite takes for a
module is the objects of instructions, their checks, and formatting them afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from llvmlite import ir

from tilewright.backends.external import external

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
_Made = TypeVar("_Made", bound="Written")


class Written(ir.Instruction):  # type: ignore[misc]
    """An instruction whose text is made of its operands, between ``head`` and ``tail``, when its module is complete.

    ``reference`` is then how others name its result, if it has one, and ``typed`` that with its type; ``line`` begins
    with what defines it.
    """

    __slots__ = ("head", "is_read", "line", "operands", "opname", "reference", "tail", "type", "typed")

    def __init__(self, type_: ir.Type, opname: str, operands: Sequence[ir.Value], head: str, tail: str) -> None:
        self.line = ""
        self.is_read = False  # by anything that stays
        self.type = type_
        self.opname = opname
        self.operands = operands
        self.head = head
        self.tail = tail

    def get_reference(self) -> str:
        return self.reference

    def __str__(self) -> str:
        given = ", ".join(
            [v.typed if isinstance(v, Written) else f"{v.type} {v.get_reference()}" for v in self.operands]
        )
        return f"{self.line}{self.head}{given}{self.tail}"


class Computed(Written):
    """An instruction without effects of those that often nobody reads, which then are left out."""

    __slots__ = ()


class Binary(Written):
    """An instruction that says the type of its operands once."""

    __slots__ = ()

    def __str__(self) -> str:
        x, y = self.operands
        first = x.typed if isinstance(x, Written) else f"{x.type} {x.get_reference()}"
        return f"{self.line}{self.head}{first}, {y.get_reference()}{self.tail}"


class Phi(Written):
    """A phi of the ``incoming`` values from ``blocks``."""

    __slots__ = ("blocks", "incoming")

    def __init__(self, type_: ir.Type, tail: str) -> None:
        self.incoming: list[ir.Value] = []
        self.blocks: list[ir.Block] = []
        super().__init__(type_, "phi", self.incoming, "phi", tail)

    def add_incoming(self, value: ir.Value, block: ir.Block) -> None:
        self.incoming.append(value)
        self.blocks.append(block)

    def __str__(self) -> str:
        pairs = zip(self.incoming, self.blocks)
        given = ", ".join([f"[{v.get_reference()}, {block.get_reference()}]" for v, block in pairs])
        return f"{self.line}phi {self.type} {given}{self.tail}"


class TextBuilder(ir.IRBuilder):  # type: ignore[misc]
    """``llvmlite.ir.IRBuilder``, whose most frequent instructions are ``Written``.

    It leaves checking types to LLVM. Results have numbers, which LLVM reads faster than names.
    """

    _location: ir.DIValue | None = None

    def __init__(self, block: ir.Block) -> None:
        super().__init__(block)
        self._line = ""  # that of the source, as instructions end
        self._intrinsics: dict[str, str] = {}  # how calls of them begin

    @property
    def debug_metadata(self) -> ir.DIValue | None:
        """Where in the source what is written from here on comes from."""
        return self._location

    @debug_metadata.setter
    def debug_metadata(self, location: ir.DIValue | None) -> None:
        if location is self._location:
            return
        self._location = location
        self._line = "" if location is None else f", !dbg {location.get_reference()}"

    def write(self, made: _Made) -> _Made:
        """Insert an instruction."""
        self._block.instructions.insert(self._anchor, made)
        self._anchor += 1
        return made

    def compute(self, type_: ir.Type, opname: str, operands: Sequence[ir.Value], head: str, tail: str) -> Computed:
        """Insert an instruction without effects, see ``Computed``."""
        return self.write(Computed(type_, opname, operands, head, tail + self._line))

    def phi(self, typ: ir.Type, name: str = "", flags: Sequence[str] = ()) -> Phi:
        return self.write(Phi(typ, self._line))

    def fneg(self, value: ir.Value, name: str = "", flags: Sequence[str] = ()) -> Written:
        return self.write(Written(value.type, "fneg", (value,), "fneg ", self._line))

    def call(self, fn: ir.Value, args: Sequence[ir.Value], *names: str, **how: Any) -> ir.Instruction:
        if names or how or not isinstance(fn, ir.Function) or fn.calling_convention or fn.function_type.var_arg:
            return super().call(fn, args, *names, **how)
        # Intrinsics of all targets have no effects.
        free = fn.name.startswith("llvm.") and not fn.name.startswith("llvm.nvvm.")
        return self._called(fn.function_type.return_type, fn.get_reference(), args, effects=not free)

    def intrinsic(self, name: str, result: ir.Type, args: Sequence[ir.Value]) -> Computed:
        """Call an intrinsic function without effects, which is declared the first time."""
        if name not in self._intrinsics:
            function = external(self.module, name, result, [v.type for v in args])
            self._intrinsics[name] = f"call {result} {function.get_reference()}("
        return self.compute(result, "call", args, self._intrinsics[name], ")")

    def _called(self, result: ir.Type, callee: str, args: Sequence[ir.Value], *, effects: bool) -> Written:
        if isinstance(result, ir.VoidType):
            result, effects = _VOID, True
        kind = Written if effects else Computed
        return self.write(kind(result, "call", args, f"call {result} {callee}(", ")" + self._line))

    def select(
        self, cond: ir.Value, lhs: ir.Value, rhs: ir.Value, name: str = "", flags: Sequence[str] = ()
    ) -> Written:
        return self.write(Written(lhs.type, "select", (cond, lhs, rhs), "select ", self._line))

    def load(
        self, ptr: ir.Value, name: str = "", align: int | None = None, typ: ir.Type | None = None
    ) -> ir.Instruction:
        if typ is None:  # a stack variable knows it
            return super().load(ptr, name, align)
        how = "" if align is None else f", align {align}"
        return self.write(Written(typ, "load", (ptr,), f"load {typ}, ", how + self._line))

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
        head = f"getelementptr {source_etype}, "
        return self.write(Written(ptr.type, "getelementptr", (ptr, *indices), head, self._line))

    def insert_element(self, vector: ir.Value, value: ir.Value, idx: ir.Value, name: str = "") -> Written:
        return self.write(Written(vector.type, "insertelement", (vector, value, idx), "insertelement ", self._line))

    def shuffle_vector(self, vector1: ir.Value, vector2: ir.Value, mask: ir.Constant, name: str = "") -> Written:
        operands, type_ = (vector1, vector2, mask), ir.VectorType(vector1.type.element, mask.type.count)
        return self.write(Written(type_, "shufflevector", operands, "shufflevector ", self._line))

    def extract_value(self, agg: ir.Value, idx: int, name: str = "") -> Written:
        return self.compute(agg.type.elements[idx], "extractvalue", (agg,), "extractvalue ", f", {idx}")

    def assembly(
        self, result: ir.Type, text: str, constraints: Sequence[str], args: Sequence[ir.Value], *, effects: bool
    ) -> Written:
        """Inline assembly, as ``asm`` makes it, whose parameters have the types of ``args``."""
        callee = f'asm {"sideeffect " if effects else ""}"{text}", "{",".join(constraints)}"'
        return self._called(result, callee, args, effects=effects)


def _binary(opname: str) -> Callable[..., ir.Instruction]:
    def method(self: TextBuilder, lhs: ir.Value, rhs: ir.Value, name: str = "", flags: Sequence[str] = ()) -> Written:
        head = f"{opname} {' '.join(flags)} " if flags else opname + " "
        return self.write(Binary(lhs.type, opname, (lhs, rhs), head, self._line))

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
        head = f"icmp {kind if kind in ('eq', 'ne') else sign + kind} "
        made = ir.VectorType(_I1, lhs.type.count) if isinstance(lhs.type, ir.VectorType) else _I1
        return self.write(Binary(made, "icmp", (lhs, rhs), head, self._line))

    return method


TextBuilder.icmp_signed, TextBuilder.icmp_unsigned = _comparison("s"), _comparison("u")
for _name in _BINARY:
    setattr(TextBuilder, _KEYWORDS.get(_name, _name), _binary(_name))
for _name in _CASTS:
    setattr(TextBuilder, _name, _cast(_name))


def text_of(module: ir.Module) -> str:
    """The text of ``module``, which is complete, without instructions that nobody reads: they are ``Computed``."""
    for function in module.functions:
        _number([x for block in function.blocks for x in block.instructions])
        for block in function.blocks:
            block.instructions = [str(x) for x in block.instructions if type(x) is not Computed or x.is_read]
    return str(module)


def _number(instructions: list[ir.Instruction]) -> None:
    """Find out which of the ``instructions`` of a function are read, and number those that stay."""
    staying = [x for x in instructions if type(x) is not Computed]
    for x in staying:  # which grows
        for v in x.operands:
            if type(v) is Computed and not v.is_read:
                v.is_read = True
                staying.append(v)
    names: dict[int, str] = {}  # of types, by their identity
    number = 0
    for x in instructions:
        if isinstance(x, Written) and x.type is not _VOID and (type(x) is not Computed or x.is_read):
            kind = names.get(id(x.type)) or names.setdefault(id(x.type), str(x.type))
            x.reference = reference = f"%{number}"
            x.typed = f"{kind} {reference}"
            x.line = reference + " = "
            number += 1
