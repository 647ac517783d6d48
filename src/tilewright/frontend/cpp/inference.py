"""The IR types of LLVM values, found before translation where control flow merges."""

from __future__ import annotations

from tilewright.frontend.cpp.llvm_form import HANDLE, Const, Instruction, LLVMFunction, Local
from tilewright.frontend.cpp.typecodes import LLVM_DTYPES, element_type, tile_type
from tilewright.ir.types import PointerType, TileType

_SAME_AS_OPERANDS = {"phi": 0, "select": 1, "freeze": 0, "getelementptr": 0}


def merged_types(function: LLVMFunction, arguments: dict[str, TileType]) -> dict[str, TileType]:
    """The type of each phi of ``function``: integers are signed, pointers and tiles take the type of a known source."""
    definitions = {i.name: i for b in function.blocks for i in b.instructions if i.name is not None}
    phis = [i for i in definitions.values() if i.op == "phi"]
    found = {str(i.name): _search(Local(str(i.name)), i.type, definitions, arguments, set()) for i in phis}
    return {name: type or TileType(PointerType(None)) for name, type in found.items()}


def _search(
    operand: object, type: str, definitions: dict[str, Instruction], arguments: dict[str, TileType], visited: set[str]
) -> TileType | None:
    if type in LLVM_DTYPES:
        return TileType(LLVM_DTYPES[type])
    if isinstance(operand, Const) or not isinstance(operand, Local):
        return None
    if operand.name in arguments:
        return arguments[operand.name]
    if operand.name in visited:
        return None
    visited.add(operand.name)
    instruction = definitions.get(operand.name)
    if instruction is None:  # part of what is refused when it is translated
        return None
    if instruction.op in _SAME_AS_OPERANDS:
        first = _SAME_AS_OPERANDS[instruction.op]
        last = first + 1 if instruction.op == "getelementptr" else None
        for source in instruction.operands[first:last]:
            found = _search(source, type, definitions, arguments, visited)
            if found is not None:
                return found
    elif instruction.op == "call" and instruction.detail.startswith("__tw_") and instruction.operands:
        if not isinstance(instruction.operands[0], Const):
            return None
        code = int(instruction.operands[0].value)
        return tile_type(code) if type == HANDLE else TileType(element_type(code))
    return None
