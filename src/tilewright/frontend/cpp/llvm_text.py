"""Reads the functions of a textual LLVM module into a small in-memory form.

Only what optimized, scalar code contains is understood.
"""

from __future__ import annotations

import functools

from tilewright.frontend.cpp.llvm_form import (
    UNDEFINED,
    BasicBlock,
    Const,
    Instruction,
    LLVMFunction,
    LLVMModule,
    LLVMTextError,
)
from tilewright.frontend.cpp.llvm_instruction import LABEL, instruction
from tilewright.frontend.cpp.llvm_instruction import Instruction as Record
from tilewright.frontend.cpp.llvm_line import Line, lanes_of, string_bytes
from tilewright.frontend.cpp.llvm_module import Definition, parts_of

_SIMPLE = "add sub mul udiv sdiv urem srem shl lshr ashr and or xor fadd fsub fmul fdiv frem fneg freeze"
_CASTS = "trunc zext sext fptrunc fpext fptoui fptosi uitofp sitofp ptrtoint inttoptr bitcast addrspacecast"
# The operand whose type is that of the result.
_LIKE = dict.fromkeys((*_SIMPLE.split(), "getelementptr", "insertvalue", "insertelement"), 0) | {"select": 1}
_OTHERS = "icmp fcmp load store alloca call ret br switch phi extractvalue extractelement shufflevector unreachable"
_KNOWN = frozenset((*_LIKE, *_CASTS.split(), *_OTHERS.split()))
_ORDERED = "eq ne ugt uge ult ule sgt sge slt sle oeq ogt oge olt ole one ord ueq une uno true false"
_PREDICATES = frozenset(_ORDERED.split())
_SILENT = ("llvm.lifetime", "llvm.assume", "llvm.dbg", "llvm.experimental.noalias")  # calls that do nothing


def parse_instruction(text: str) -> Instruction:
    """One instruction. What no tile code needs becomes ``unsupported``, with the reason as its detail."""
    read = instruction(text)
    made = Instruction(_bare(read.result) or None, read.op, "void", flags=read.words, debug=read.debug)
    try:
        if read.op not in _KNOWN:
            raise LLVMTextError(f"the instruction '{read.op}' has no meaning in tile code")
        if read.op == "phi":
            made.type = type_of(read.type)
            made.operands = [Line(value).value(made.type) for value, _ in read.incoming]
            made.labels = [_bare(block) for _, block in read.incoming]
        else:
            _take_operands(made, read, text)
            _describe(made, read, text)
    except LLVMTextError as e:
        return Instruction(made.name, "unsupported", "void", detail=str(e), debug=made.debug)
    return made


def _bare(name: str) -> str:
    return name[1:].strip('"')


@functools.lru_cache(maxsize=1 << 12)
def type_of(text: str) -> str:
    """A type as ``Line`` writes it."""
    return Line(text).type()


def _take_operands(made: Instruction, read: Record, text: str) -> None:
    made.labels = [_bare(label) for label in read.labels]
    if read.op == "call" and not read.callee:
        found = "inline assembly is" if " asm " in text else "calls through pointers and virtual functions are"
        raise LLVMTextError(f"{found} not available in tile code")
    type, indices = "", list[int]()
    for each in () if read.callee.startswith(_SILENT) else read.args:
        if not each.type and read.op in ("extractvalue", "insertvalue"):
            indices.append(int(each.value))
        elif each.value != "void":
            type = type_of(each.type) if each.type else type
            made.types.append(type)
            made.operands.append(Line(each.value).value(type))
    made.detail = indices if indices else read.callee or None


def _describe(made: Instruction, read: Record, text: str) -> None:
    """The type of the result, and what is to be known beside the operands."""
    if read.op in _LIKE:
        made.type = made.types[_LIKE[read.op]]
    elif read.op == "call":
        made.type = type_of(read.type)
    elif read.op in ("icmp", "fcmp"):
        (made.detail,), made.type = read.words & _PREDICATES, "i1"
        made.flags -= _PREDICATES
    elif read.op == "load":
        made.type = type_of(read.type)
    elif read.to:
        made.type = type_of(read.to)
    elif read.op == "switch":
        line, made.detail = Line(text[text.index("[") + 1 : text.rindex("]")].strip()), []
        while line.peek():
            _, case = line.typed_value()
            made.detail.append(case.value if isinstance(case, Const) else None)
            line.expect(",")
            line.label()
    elif read.op == "shufflevector":
        _shuffle(made)
    if read.op in ("getelementptr", "alloca"):
        made.detail = type_of(read.type)
        made.type = made.type if read.op == "getelementptr" else "ptr"
    if read.op in ("extractelement", "insertelement"):
        _element(made, text)


def _element(i: Instruction, text: str) -> None:
    """As ``extractvalue`` and ``insertvalue``: the vectors here are structs that the calling convention passes so."""
    index, _ = i.operands.pop(), i.types.pop()
    if not isinstance(index, Const):
        raise LLVMTextError(f"an element of a vector whose index is known only at run time: {text.strip()}")
    i.detail = [int(index.value)]
    i.type = i.types[0].split()[3] if i.op == "extractelement" else i.type
    i.op = i.op.replace("element", "value")


def _shuffle(i: Instruction) -> None:
    """``detail`` holds the indices of the elements in both operands, or None for those without a value."""
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


def parse_module(text: str, wanted: set[str]) -> LLVMModule:
    """The functions called ``wanted``, and the globals and metadata of the module."""
    parts = parts_of(text)
    functions = {name: _function(parts.functions[name]) for name in wanted & parts.functions.keys()}
    types = {name[1:].strip('"'): Line(what).type() for name, what in parts.types.items()}
    return LLVMModule(functions, frozenset(parts.functions), parts.others, types, parts.metadata)


def _function(definition: Definition) -> LLVMFunction:
    found = [(_bare(each.split()[-1]), type_of(each)) for each in definition.parameters]
    no_alias = {_bare(words[-1]) for words in map(str.split, definition.parameters) if "noalias" in words}
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
