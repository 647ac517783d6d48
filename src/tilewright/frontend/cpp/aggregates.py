"""Structs that are values: each becomes one value per scalar inside it, so that translation never sees them.

So do the vectors as which the calling convention of the target passes structs of floats.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from tilewright.frontend.cpp import llvm_form as llvm
from tilewright.frontend.cpp.layout import Layouts

_OPENING = ("{", "[", "%", "<")
_WHOLE = ("phi", "select", "freeze", "load")  # what makes every part of a struct


def split_aggregates(function: llvm.LLVMFunction, layouts: Layouts) -> llvm.LLVMFunction:
    """``function`` without ``insertvalue``, ``extractvalue``, and phis, selections, loads and stores of structs."""
    if not any(t.startswith(_OPENING) for b in function.blocks for i in b.instructions for t in (i.type, *i.types)):
        return function
    return _Splitter(function, layouts).run()


class _Splitter:
    def __init__(self, function: llvm.LLVMFunction, layouts: Layouts) -> None:
        self.function = function
        self.layouts = layouts
        self.definitions = {str(i.name): i for b in function.blocks for i in b.instructions if i.name is not None}
        self.parts: dict[str, list[llvm.Operand]] = {}
        self.stores = itertools.count()

    def run(self) -> llvm.LLVMFunction:
        blocks = []
        for block in self.function.blocks:
            instructions = [new for i in block.instructions for new in self._replaced(i)]
            # Phis come first, also those that a struct was split into.
            instructions.sort(key=lambda i: i.op != "phi")
            blocks.append(llvm.BasicBlock(block.name, instructions))
        return replace(self.function, blocks=blocks)

    def _replaced(self, i: llvm.Instruction) -> list[llvm.Instruction]:
        if i.op in ("insertvalue", "shufflevector") or (i.op == "extractvalue" and self._is_split(i)):
            return []
        if i.op in ("phi", "select", "freeze") and i.type.startswith(_OPENING):
            return self._per_part(i)
        if i.op == "load" and i.type.startswith(_OPENING):
            return self._loads(i)
        if i.op == "store" and i.types[0].startswith(_OPENING):
            return self._stores(i)
        return [replace(i, operands=[self._scalar(o) for o in i.operands])]

    def _is_split(self, i: llvm.Instruction) -> bool:
        """Whether the parts of what ``i`` takes apart are known; they are not when a call or a load made it."""
        whole = i.operands[0]
        seen: set[str] = set()
        while isinstance(whole, llvm.Local):
            source = self.definitions.get(whole.name)
            if source is None or source.op not in ("insertvalue", "extractvalue", "shufflevector", *_WHOLE):
                return False
            if source.op in _WHOLE or source.op == "shufflevector" or whole.name in seen:
                return True
            seen.add(whole.name)
            whole = source.operands[0]
        return True

    def _per_part(self, i: llvm.Instruction) -> list[llvm.Instruction]:
        # The condition of a selection is one for all parts, or a vector of them.
        first = 1 if i.op == "select" and not i.types[0].startswith(_OPENING) else 0
        types = i.types[first:] or [i.type] * len(i.operands)
        columns = [self._parts(o, t) for o, t in zip(i.operands[first:], types)]
        leaves = [[scalar for _, scalar in self.layouts.of(t).leaves()] for t in types]
        made = []
        for k, (_, type) in enumerate(self.layouts.of(i.type).leaves()):
            operands = [*map(self._scalar, i.operands[:first]), *(self._scalar(c[k]) for c in columns)]
            scalars = [*i.types[:first], *(scalar[k] for scalar in leaves)] if i.types else []
            made.append(replace(i, name=f"{i.name}.{k}", type=type, operands=operands, types=scalars))
        return made

    def _loads(self, i: llvm.Instruction) -> list[llvm.Instruction]:
        made: list[llvm.Instruction] = []
        for k, (offset, type) in enumerate(self.layouts.of(i.type).leaves()):
            address = self._address(made, f"{i.name}.{k}.address", i, i.operands[0], offset)
            made.append(replace(i, name=f"{i.name}.{k}", type=type, operands=[address]))
        return made

    def _stores(self, i: llvm.Instruction) -> list[llvm.Instruction]:
        made: list[llvm.Instruction] = []
        type = i.types[0]
        parts = self._parts(i.operands[0], type)
        for k, (part, (offset, scalar)) in enumerate(zip(parts, self.layouts.of(type).leaves())):
            name = f"stored.{next(self.stores)}.{k}.address"
            address = self._address(made, name, i, i.operands[1], offset)
            made.append(replace(i, operands=[self._scalar(part), address], types=[scalar, "ptr"]))
        return made

    def _address(
        self, made: list[llvm.Instruction], name: str, i: llvm.Instruction, pointer: llvm.Operand, offset: int
    ) -> llvm.Operand:
        """``pointer`` moved by ``offset`` bytes; ``made`` gets the instruction for it."""
        if offset == 0:
            return pointer
        operands, types = [pointer, llvm.Const("i64", offset)], ["ptr", "i64"]
        made.append(llvm.Instruction(name, "getelementptr", "ptr", operands, types, detail="i8", debug=i.debug))
        return llvm.Local(name)

    def _scalar(self, operand: llvm.Operand) -> llvm.Operand:
        """``operand`` with a part of a struct named directly."""
        while isinstance(operand, llvm.Local):
            source = self.definitions.get(operand.name)
            if source is None or source.op != "extractvalue" or not self._is_split(source):
                break
            parts = self._taken(source)
            if len(parts) != 1:
                break
            operand = parts[0]
        return operand

    def _taken(self, i: llvm.Instruction) -> list[llvm.Operand]:
        start, count = self._range(i.types[0], i.detail)
        return self._parts(i.operands[0], i.types[0])[start : start + count]

    def _parts(self, operand: llvm.Operand, type: str) -> list[llvm.Operand]:
        """The scalars of a struct, in order."""
        layout = self.layouts.of(type)
        if isinstance(operand, llvm.Const):
            return [scalar for _, scalar in layout.constants(operand)]
        assert isinstance(operand, llvm.Local)
        known = self.parts.get(operand.name)
        if known is not None:
            return known
        source = self.definitions.get(operand.name)
        found: list[llvm.Operand]
        if source is not None and source.op == "insertvalue":
            found = list(self._parts(source.operands[0], type))
            start, count = self._range(type, source.detail)
            inner = self._parts(source.operands[1], source.types[1]) if count != 1 else [source.operands[1]]
            found[start : start + count] = inner
        elif source is not None and source.op == "extractvalue":
            found = self._taken(source)
        elif source is not None and source.op == "shufflevector":
            both = [part for o, t in zip(source.operands, source.types) for part in self._parts(o, t)]
            scalar = next(layout.leaves())[1]
            found = [llvm.Const(scalar, llvm.UNDEFINED) if lane is None else both[lane] for lane in source.detail]
        else:
            found = [llvm.Local(f"{operand.name}.{k}") for k, _ in enumerate(layout.leaves())]
        self.parts[operand.name] = found
        return found

    def _range(self, type: str, path: list[int]) -> tuple[int, int]:
        """Which scalars of ``type`` lie under ``path``: the first one and how many."""
        layout, start = self.layouts.of(type), 0
        for index in path:
            start += sum(len(list(layout.member(k)[1].leaves())) for k in range(index))
            layout = layout.member(index)[1]
        return start, len(list(layout.leaves()))
