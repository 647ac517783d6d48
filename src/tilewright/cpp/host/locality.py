"""How far apart in memory the threads of a SIMT kernel, and the iterations of its loops, are that follow each other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tilewright.cpp.host.control_flow import blocks_of, definitions_of, successors
from tilewright.frontend.cpp.llvm_instruction import LIFETIME, Instruction, instruction
from tilewright.frontend.cpp.llvm_module import Definition

INDEX = "__tw_simt_index"  # gives the coordinates of a thread
_FAR = 2  # stands for distances of more than one element
_COSTS = (0, 1, 4)  # of an access as far from the one before
_SCALARS = {"i8", "i16", "i32", "i64", "half", "bfloat", "float", "double"}
_ROW = 16  # threads that are neighbours: what changes from one such group to the next is near
_SHORT_FUNCTION = 64  # lines
_THREAD = ""  # stands for the number of a thread, where others are the variables of loops


class Locality:
    """A function, which has no variables in memory but those with addresses."""

    def __init__(self, text: str) -> None:
        self.head, *lines = text.split("\n")
        self.blocks = blocks_of(lines)
        self.edges = {name: successors(block) for name, block in self.blocks.items()}
        self.definitions = definitions_of(lines)
        self._same: dict[str, bool] = {}
        self._distances: dict[tuple[str, str], int] = {}

    def text(self) -> str:
        return "\n".join([self.head, *(line for block in self.blocks.values() for line in block)])

    def definition(self, value: str) -> Instruction:
        return instruction(self.definitions.get(value, ""))

    def gains(self, loop: Iterable[str], header: str) -> bool:
        """Whether ``loop`` touches memory that is nearer to that of the thread before than to that of the iteration
        before, or none that changes."""
        threads = iterations = 0
        for i in (instruction(line) for name in loop for line in self.blocks[name]):
            if i.pointer is not None:
                threads += _COSTS[self._distance(i.pointer.value, _THREAD)]
                iterations += _COSTS[self._distance(i.pointer.value, header)]
        return threads < iterations or not iterations

    def is_same(self, value: str) -> bool:
        """Whether ``value`` is the same for all threads that have done as many iterations."""
        i = self.definition(value)
        if not i.result:
            return True
        if value not in self._same:
            self._same[value] = True  # of a variable of a loop, but for what else it depends on
            given = [each for each, _ in i.incoming] if i.op == "phi" else i.values
            plain = i.op in ("phi", "load", "freeze") or i.is_pure
            same = int(i.values[0]) > 2 if i.callee == INDEX else plain and i.op != "alloca"
            self._same[value] = same and all(map(self.is_same, given))
        return self._same[value]

    def _distance(self, value: str, of: str) -> int:
        """How far ``value`` is from that of the thread before, or of the iteration before of the loop whose header is
        ``of``: 0, 1 or ``_FAR``, in elements of what a pointer is to."""
        if (value, of) not in self._distances:
            self._distances[value, of] = 0  # what it adds to itself is in ``_step``
            self._distances[value, of] = self._found(self.definition(value), of)
        return self._distances[value, of]

    def _found(self, i: Instruction, of: str) -> int:
        if not i.result or i.op == "alloca":
            return 0
        if i.callee == INDEX:
            return int(of == _THREAD and i.values[0] == "0")
        if i.op == "phi":
            own = any(instruction(line).result == i.result for line in self.blocks.get(of, ()))
            given = [value for value, _ in i.incoming]
            return self._step(i) if own else max(self._distance(value, of) for value in given)
        each = [self._distance(value, of) for value in i.values]
        if i.op in ("add", "sub", "or", "zext", "sext", "trunc", "bitcast", "freeze"):
            return min(sum(each), _FAR)
        if i.op in ("and", "urem", "srem", "udiv", "sdiv", "lshr", "ashr") and i.values[1].isdigit():
            by, steps = int(i.values[1]), of == _THREAD and each[0] == 1
            among = by + (i.op == "and") if i.op in ("and", "urem", "srem") else 0  # what remains goes up to there
            count = among or (1 << by if i.op in ("lshr", "ashr") else by)
            if steps and count >= _ROW and not (i.op == "and" and count & by):
                return int(among > 0)
        if i.op == "getelementptr" and (not any(each[1:]) or (i.type in _SCALARS and len(each) == 2)):
            return min(sum(each), _FAR)
        if i.op == "getelementptr" and not any(each[:-1]) and i.type.rpartition(" ")[2].rstrip("]") in _SCALARS:
            return each[-1]
        return _FAR if any(each) else 0

    def _step(self, phi: Instruction) -> int:
        """What a loop adds to its variable."""
        steps = (self.definition(value) for value, _ in phi.incoming)
        adds = [i for i in steps if phi.result in i.values]
        one = all(set(i.values) - {phi.result} <= {"1", "-1"} for i in adds)
        return 1 if adds and one and all(i.op == "add" or i.type in _SCALARS for i in adds) else _FAR


def short_functions(functions: Mapping[str, Definition]) -> set[str]:
    """The functions that compute what they return without loops, and so few instructions that they are inlined."""
    found: set[str] = set()
    bodies = {name: each.body for name, each in functions.items()}
    pending = {name for name, body in bodies.items() if body.count("\n") < _SHORT_FUNCTION and "!llvm.loop" not in body}
    while True:
        more = {name for name in pending if all(computes(line, found) for line in bodies[name].split("\n"))}
        if not more:
            return found
        found |= more
        pending -= more


def computes(line: str, functions: Collection[str]) -> bool:
    i = instruction(line)
    own = i.is_pure or i.op in ("ret", "alloca", "]", "br", "phi") or i.callee in functions
    return own or not i.op or bool(i.variable) or i.callee.startswith((LIFETIME, "llvm.dbg."))
