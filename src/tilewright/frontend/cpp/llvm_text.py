"""Reads the functions of a textual LLVM module into a small in-memory form.

Only what optimized, scalar code contains is understood.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from tilewright.frontend.cpp.llvm_form import (
    UNDEFINED,
    BasicBlock,
    Const,
    Instruction,
    LLVMFunction,
    LLVMModule,
    LLVMTextError,
)
from tilewright.frontend.cpp.llvm_instruction import LABEL, debug_of
from tilewright.frontend.cpp.llvm_line import Line, lanes_of, string_bytes
from tilewright.frontend.cpp.llvm_module import Definition, parts_of

_PREFIXES = frozenset(["tail", "musttail", "notail"])


def parse_instruction(text: str) -> Instruction:
    """One instruction. What no tile code needs becomes ``unsupported``, with the reason as its detail."""
    line = Line(text)
    name = None
    if line.kind() == "name" and line.peek(1) == "=":
        name = line.take()[1:].strip('"')
        line.take()
    while line.peek() in _PREFIXES:
        line.take()
    op = line.take()
    instruction = Instruction(name, op, "void", debug=debug_of(text))
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


def _follow(line: Line, i: Instruction, syntax: str) -> None:
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


def _flags(line: Line, i: Instruction) -> None:
    i.flags = frozenset(line.words())


def _type(line: Line, i: Instruction) -> None:
    i.type = line.type()


def _typed(line: Line, i: Instruction) -> None:
    type, value = line.typed_value()
    i.types.append(type)
    i.operands.append(value)


def _same(line: Line, i: Instruction) -> None:
    i.types.append(i.type)
    i.operands.append(line.value(i.type))


def _operands(line: Line, i: Instruction) -> None:
    _typed(line, i)
    while line.peek() == "," and not line.peek(1).startswith("!") and line.peek(1) != "align":
        line.take()
        _typed(line, i)


def _of(line: Line, i: Instruction) -> None:
    i.detail = line.type()


def _predicate(line: Line, i: Instruction) -> None:
    *flags, i.detail = line.words()
    i.flags = frozenset(flags)


def _label(line: Line, i: Instruction) -> None:
    i.labels.append(line.label())


def _indices(line: Line, i: Instruction) -> None:
    i.detail = []
    while line.accept(",") and line.kind() == "number":
        i.detail.append(int(line.take()))


def _lane(line: Line, i: Instruction) -> None:
    line.expect(",")
    index = line.typed_value()[1]
    if not isinstance(index, Const):
        raise LLVMTextError(f"an element of a vector whose index is known only at run time: {line.text.strip()}")
    i.detail = [int(index.value)]


_PARTS: dict[str, Callable[[Line, Instruction], None]] = {
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


def _return(line: Line, i: Instruction) -> None:
    if not line.accept("void"):
        _typed(line, i)


def _branch(line: Line, i: Instruction) -> None:
    _follow(line, i, "label" if line.peek() == "label" else "typed , label , label")


def _switch(line: Line, i: Instruction) -> None:
    _follow(line, i, "typed , label [")
    i.detail = []
    while not line.accept("]"):
        _, case = line.typed_value()
        line.expect(",")
        i.detail.append(case.value if isinstance(case, Const) else None)
        i.labels.append(line.label())


def _phi(line: Line, i: Instruction) -> None:
    _follow(line, i, "flags type")
    while line.accept("["):
        i.operands.append(line.value(i.type))
        line.expect(",")
        i.labels.append(line.take()[1:].strip('"'))
        line.expect("]")
        line.accept(",")


def _allocate(line: Line, i: Instruction) -> None:
    i.detail, i.type = line.type(), "ptr"
    if line.accept(",") and line.is_type():
        _typed(line, i)


def _call(line: Line, i: Instruction) -> None:
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


def _extract_element(line: Line, i: Instruction) -> None:
    """As ``extractvalue``: the vectors here are structs that the calling convention passes so."""
    _follow(line, i, "typed lane")
    i.op, i.type = "extractvalue", i.types[0].split()[3]


def _insert_element(line: Line, i: Instruction) -> None:
    """As ``insertvalue``."""
    _follow(line, i, "typed , typed lane -> 0")
    i.op = "insertvalue"


def _shuffle(line: Line, i: Instruction) -> None:
    """``detail`` holds the indices of the elements in both operands, or None for those without a value."""
    _follow(line, i, "typed , typed , typed")
    mask = i.operands.pop()
    count = lanes_of(i.types.pop())
    assert isinstance(mask, Const)
    lanes = mask.value if isinstance(mask.value, tuple) else (mask,) * count
    i.detail = [None if lane.value is UNDEFINED else int(lane.value) for lane in lanes]
    i.type = " ".join(("<", str(count), *i.types[0].split()[2:]))


def constant_text(definition: str) -> str:
    """The characters of a constant string from the definition of its global variable."""
    start = definition.find(' c"')
    if start < 0:
        return ""
    return string_bytes(definition[start + 1 : definition.index('"', start + 3) + 1]).decode()


def parse_constant(definition: str) -> tuple[str, Const] | None:
    """Type and value of a constant global variable from its definition; None for one that may change, or that is
    defined elsewhere."""
    how, kind, value = f" {definition}".partition(" constant ")
    if not kind or "external" in how.split():
        return None
    try:
        type, found = Line(value).typed_value()
    except LLVMTextError:
        return None
    return (type, found) if isinstance(found, Const) else None


_READERS: dict[str, Callable[[Line, Instruction], None]] = {
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


def parse_module(text: str, wanted: set[str]) -> LLVMModule:
    """The functions called ``wanted``, and the globals and metadata of the module."""
    parts = parts_of(text)
    functions = {name: _function(parts.functions[name]) for name in wanted & parts.functions.keys()}
    types = {name[1:].strip('"'): Line(what).type() for name, what in parts.types.items()}
    return LLVMModule(functions, frozenset(parts.functions), parts.others, types, parts.metadata)


def _function(definition: Definition) -> LLVMFunction:
    line = Line(", ".join(definition.parameters))
    found = []
    no_alias = set()
    while line.peek():
        type = line.type()
        attributes = line.attributes()
        found.append((line.take()[1:].strip('"'), type))
        if "noalias" in attributes:
            no_alias.add(found[-1][0])
        line.accept(",")
    blocks: list[BasicBlock] = []
    pending = ""
    for text in definition.body.split("\n"):
        label = LABEL.match(text)
        if label:
            blocks.append(BasicBlock(label.group(1).strip('"'), []))
        elif text.startswith("  ") and not text.lstrip().startswith(("#dbg", ";")):
            pending += text
            if "switch" in pending and "[" in pending and "]" not in pending:
                pending += " "
                continue
            blocks[-1].instructions.append(parse_instruction(pending))
            pending = ""
    return LLVMFunction(definition.name, found, blocks, definition.subprogram, frozenset(no_alias))
