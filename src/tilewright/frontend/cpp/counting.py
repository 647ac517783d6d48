"""Recognizes loops that count: those become ``for``, which backends can pipeline and vectorize."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.frontend.cpp.cfg import Graph, NaturalLoop
from tilewright.frontend.cpp.llvm_form import Const, Instruction, Local, Operand
from tilewright.frontend.cpp.llvm_instruction import DIVISIONS
from tilewright.frontend.cpp.typecodes import LLVM_DTYPES, unsigned
from tilewright.frontend.cpp.values import Translation
from tilewright.ir.dtypes import DType

# The predicates under which a loop continues while its variable (on the left) is below the bound.
_BELOW = {"slt": False, "ult": True}
_MIRRORED = {"sgt": "slt", "ugt": "ult", "sge": "sle", "uge": "ule"}
_NEGATED = {
    "sge": "slt",
    "uge": "ult",
    "sle": "sgt",
    "ule": "ugt",
    "slt": "sge",
    "ult": "uge",
    "sgt": "sle",
    "ugt": "ule",
    "eq": "ne",
}
# These too end at the bound, for a variable that goes through every number and must not wrap around.
_UP_TO = {"sle": ("slt", "nsw"), "ule": ("ult", "nuw")}
_UNTIL = {"nsw": "slt", "nuw": "ult"}  # of ``ne``, by what the increment promises
_PURE = frozenset(
    ("add", "sub", "mul", "shl", "lshr", "ashr", "and", "or", "xor", "zext", "sext", "trunc", "icmp", "select")
)
_PURE_CALLS = ("__tw_num_blocks", "__tw_bid", "llvm.smin.", "llvm.smax.", "llvm.umin.", "llvm.umax.")


@dataclass
class CountedLoop:
    """``for (variable = lower; variable < upper; variable += step)`` over integers of ``dtype``.

    ``includes_upper`` makes the test ``variable <= upper``, where ``upper`` is not the greatest number. ``hoisted`` are
    instructions of the loop that compute the bound or the step; ``replaced`` names those that the counting itself
    replaces; ``body`` is the first block after the test.
    """

    variable: str
    lower: Operand
    upper: Operand
    step: Operand
    type: str
    dtype: DType
    body: str
    includes_upper: bool = False
    hoisted: list[Instruction] = field(default_factory=list)
    replaced: set[str] = field(default_factory=set)


def counted_loop(graph: Graph, loop: NaturalLoop, state: Translation) -> CountedLoop | None:
    """``loop`` as a counted loop, or None: its only exit must be the test at its start."""
    inside = {str(i.name): i for b in loop.blocks for i in graph.blocks[b].instructions if i.name}
    found = _test(graph, loop, state, inside)
    if found is None:
        return None
    test, phi, upper, predicate = found
    body = next(label for label in graph.blocks[loop.header].terminator.labels if label in loop.blocks)
    latch = loop.latches[0]
    lower = next(o for o, label in zip(phi.operands, phi.labels) if label != latch)
    after = phi.operands[phi.labels.index(latch)]
    increment = inside.get(after.name) if isinstance(after, Local) else None
    if increment is None or increment.op != "add":
        return None
    variable = Local(str(phi.name))
    if variable not in increment.operands or increment.operands[0] == increment.operands[1]:
        return None
    step = next(o for o in increment.operands if o != variable)
    includes_upper = predicate in _UP_TO
    if includes_upper:
        predicate, promise = _UP_TO[predicate]
        if promise not in increment.flags:
            return None
    elif predicate == "ne":
        predicate = next((p for promise, p in _UNTIL.items() if promise in increment.flags), "")
        if not predicate or not isinstance(step, Const) or step.value != 1:
            return None
    dtype = LLVM_DTYPES[phi.type]
    dtype = unsigned(dtype) if _BELOW[predicate] else dtype
    counted = CountedLoop(str(phi.name), lower, upper, step, phi.type, dtype, body, includes_upper)
    if isinstance(step, Const) and not (isinstance(step.value, int) and step.value > 0):
        return None
    if not all(_hoist(bound, inside, counted.hoisted) for bound in (upper, step)):
        return None
    moved = {test.name, *(i.name for i in counted.hoisted)}
    if any(i.op != "phi" and i.name not in moved for i in graph.blocks[loop.header].instructions[:-1]):
        return None
    # The final value of the variable is not a result of ``for``.
    if any(o in (variable, Local(str(test.name))) for phi in graph.blocks[loop.exits[0]].phis for o in phi.operands):
        return None
    counted.replaced.add(str(test.name))
    if state.uses[str(increment.name)] == 1:
        counted.replaced.add(str(increment.name))
    return counted


def _test(
    graph: Graph, loop: NaturalLoop, state: Translation, inside: dict[str, Instruction]
) -> tuple[Instruction, Instruction, Operand, str] | None:
    """The comparison of a variable that ends ``loop``, the variable, what it is compared with, and the predicate with
    which the loop goes on."""
    header = graph.blocks[loop.header]
    jump = header.terminator
    if len(loop.latches) != 1 or len(loop.exits) != 1 or len(jump.labels) != 2:
        return None
    leaving = [b for b in loop.blocks for t in graph.blocks[b].terminator.labels if t not in loop.blocks]
    if leaving != [loop.header] or not isinstance(jump.operands[0], Local):
        return None
    test = inside.get(jump.operands[0].name)
    if test is None or test.op != "icmp" or state.uses[str(test.name)] != 1:
        return None
    predicate = test.detail if jump.labels[0] in loop.blocks else _NEGATED.get(test.detail, "")
    variable, upper = test.operands
    phis = {Local(str(p.name)): p for p in header.phis}
    if predicate in _MIRRORED or (predicate == "ne" and upper in phis):
        predicate, variable, upper = _MIRRORED.get(predicate, predicate), upper, variable
    phi = phis.get(variable) if isinstance(variable, Local) else None
    if predicate not in (*_BELOW, *_UP_TO, "ne") or phi is None or phi.type not in LLVM_DTYPES:
        return None
    return test, phi, upper, predicate


def _is_pure(instruction: Instruction) -> bool:
    """Whether ``instruction`` can be executed where it would not have been."""
    if instruction.op in DIVISIONS:
        divisor = instruction.operands[1]
        return isinstance(divisor, Const) and divisor.value not in (0, -1)
    return instruction.op in _PURE or (instruction.op == "call" and instruction.detail.startswith(_PURE_CALLS))


def _hoist(operand: Operand, inside: dict[str, Instruction], hoisted: list[Instruction]) -> bool:
    """Whether ``operand`` is known before the loop, once ``hoisted`` has been computed."""
    if not isinstance(operand, Local) or operand.name not in inside:
        return True
    instruction = inside[operand.name]
    if not _is_pure(instruction) or not all(_hoist(o, inside, hoisted) for o in instruction.operands):
        return False
    if instruction not in hoisted:
        hoisted.append(instruction)
    return True
