"""Loops of SIMT kernels that all threads of a block go through together, as their length is the same for all: they
become the outer loop, and that over the threads the inner one, which LLVM vectorizes.

One thread after another would run such a loop from its first to its last iteration. Where threads that are neighbours
touch neighbouring memory, as in a product of matrices, or the same, it gets a barrier that nobody needs (``strides``)
before every few iterations, which are unrolled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tilewright.cpp.host.control_flow import blocks_of, condition_of, definitions_of, loops, successors
from tilewright.cpp.host.fission import Transform
from tilewright.cpp.host.strides import INDEX, YIELD
from tilewright.frontend.cpp.llvm_instruction import LIFETIME, Instruction, instruction
from tilewright.frontend.cpp.llvm_module import Definition, parts_of, with_functions

_UNROLL = ("loop_simplify", "lcssa", "loop_rotate", "loop_unroll", "sroa", "simplify_cfg")
_SHORT = 64  # iterations of loops that are unrolled as a whole
_COUNT, _MOST = 8, 256  # iterations between barriers, and lines that these may be
_FAR = 2  # stands for distances of more than one element
_COSTS = (0, 1, 4)  # of an access as far from the one before
_SCALARS = {"i8", "i16", "i32", "i64", "half", "bfloat", "float", "double"}
_MARK = "tw.together"  # is called where these barriers are to be: calls of these are never copied
_DECLARED = f'declare void @"{_MARK}"()'
_THREAD = ""  # stands for the number of a thread, where others are the variables of loops


def with_interchange(text: str, kernels: Collection[str], barrier: str, transform: Transform) -> str:
    """The module ``text``, whose functions have no variables in memory but those with addresses, with calls of
    ``barrier`` in such loops of ``kernels``."""
    functions = parts_of(text).functions
    first = parts_of(text).free_number()
    nodes = {count: first + 2 * k for k, count in enumerate((_COUNT, _COUNT // 2, 1))}
    short = _short_functions(functions)
    found = {name: _marked(functions[name].text, nodes, short) for name in kernels if name in functions}
    edited = {name: code for name, code in found.items() if code != functions[name].text}
    if not edited:
        return text
    text = with_functions(text, edited, lambda each: edited[each.name])
    lines = [f"!{n} = distinct !{{!{n}, !{n + 1}}}" for n in nodes.values()]
    lines += [f'!{n + 1} = !{{!"llvm.loop.unroll.count", i32 {count}}}' for count, n in nodes.items()]
    text = transform("\n".join([text, _DECLARED, *lines, ""]), edited, _UNROLL)
    text = with_functions(text, edited, lambda each: _with_barriers(each.text, barrier))
    return text.replace(parts_of(text).declared[_MARK], "")


class _Function:
    def __init__(self, text: str, short: Collection[str] = ()) -> None:
        self._short = short
        self.head, *lines = text.split("\n")
        self.blocks = blocks_of(lines)
        self.edges = {name: successors(block) for name, block in self.blocks.items()}
        self.definitions = definitions_of(lines)
        self._same: dict[str, bool] = {}
        self._distances: dict[tuple[str, str], int] = {}

    def text(self) -> str:
        return "\n".join([self.head, *(line for block in self.blocks.values() for line in block)])

    def chosen(self) -> list[tuple[set[str], str]]:
        """The loops that are to be outer ones, and their headers."""
        every = list(loops(self.edges))
        long = [loop for loop, _ in every if not self._is_short(loop)]
        inner = [each for each in every if each[0] in long and not any(other < each[0] for other in long)]
        return [
            (loop, min(headers)) for loop, headers in inner if len(headers) == 1 and self._gains(loop, min(headers))
        ]

    def definition(self, value: str) -> Instruction:
        return instruction(self.definitions.get(value, ""))

    def _leaving(self, loop: set[str]) -> list[str]:
        return [condition_of(self.blocks[name]) for name in loop if set(self.edges[name]) - loop]

    def _is_short(self, loop: set[str]) -> bool:
        tests = [self.definition(value) for value in self._leaving(loop)]
        return any(i.op == "icmp" and i.values[1].isdigit() and int(i.values[1]) <= _SHORT for i in tests)

    def _gains(self, loop: set[str], header: str) -> bool:
        """Whether all threads leave ``loop`` together, and touch memory that is nearer to that of the thread before
        than to that of the iteration before."""
        leaving = self._leaving(loop)
        counts = [i.result for i in map(instruction, self.blocks[header]) if i.op == "phi" and i.type in ("i32", "i64")]
        if not leaving or not counts or not all(map(self._is_same, leaving)):
            return False
        threads = iterations = 0
        for line in (line for name in loop for line in self.blocks[name]):
            i = instruction(line)
            if i.pointer is None:
                quiet = i.callee == INDEX or _computes(line, self._short)
                if i.op in ("call", "invoke", "fence") and not quiet:
                    return False
            elif i.words or i.op in ("atomicrmw", "cmpxchg"):
                return False
            else:
                threads += _COSTS[self._distance(i.pointer.value, _THREAD)]
                iterations += _COSTS[self._distance(i.pointer.value, header)]
        return threads < iterations or not iterations

    def _is_same(self, value: str) -> bool:
        """Whether ``value`` is the same for all threads that have done as many iterations."""
        i = self.definition(value)
        if not i.result:
            return True
        if value not in self._same:
            self._same[value] = True  # of a variable of a loop, but for what else it depends on
            given = [each for each, _ in i.incoming] if i.op == "phi" else i.values
            plain = i.op in ("phi", "load", "freeze") or i.is_pure
            same = int(i.values[0]) > 2 if i.callee == INDEX else plain and i.op != "alloca"
            self._same[value] = same and all(map(self._is_same, given))
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


def _short_functions(functions: Mapping[str, Definition]) -> set[str]:
    """The functions that compute what they return without loops, and so few instructions that they are inlined."""
    found: set[str] = set()
    bodies = {name: each.body for name, each in functions.items()}
    pending = {name for name, body in bodies.items() if body.count("\n") < _SHORT and "!llvm.loop" not in body}
    while True:
        more = {name for name in pending if all(_computes(line, found) for line in bodies[name].split("\n"))}
        if not more:
            return found
        found |= more
        pending -= more


def _computes(line: str, functions: Collection[str]) -> bool:
    i = instruction(line)
    own = i.is_pure or i.op in ("ret", "alloca", "]", "br") or i.callee in functions
    return own or not i.op or bool(i.variable) or i.callee.startswith((LIFETIME, "llvm.dbg."))


def _marked(text: str, nodes: Mapping[int, int], short: Collection[str]) -> str:
    function = _Function(text, short)
    for loop, header in function.chosen():
        size = sum(bool(instruction(line).op) for name in loop for line in function.blocks[name])
        count = next((n for n in nodes if n * size <= _MOST), 1)
        latches = [name for name in loop if header in function.edges[name]]
        block = function.blocks[latches[0]]
        at = next(i for i, line in enumerate(block) if instruction(line).op == "br")
        if len(latches) == 1:
            block[at] = f"{block[at].partition(', !llvm.loop ')[0]}, !llvm.loop !{nodes[count]}"
        inside = [name for name in function.edges[header] if name in loop]
        start = inside[0] if len(inside) == 1 and len(function.edges[header]) > 1 else header
        block = function.blocks[start]
        at = max((i for i, line in enumerate(block) if instruction(line).op == "phi"), default=0)
        block.insert(at + 1, f'  call void @"{_MARK}"()')
    return function.text()


def _with_barriers(text: str, barrier: str) -> str:
    """A function with one barrier in each of its unrolled loops, and none outside of loops."""
    function, number = _Function(text), 0
    inner = [loop for loop, _ in loops(function.edges)]
    inner = [loop for loop in inner if not any(other < loop for other in inner)]
    for loop in [*inner, set(function.blocks)]:
        some = False
        for block in (block for name, block in function.blocks.items() if name in loop):
            for line in [line for line in block if instruction(line).callee == _MARK]:
                at = block.index(line)
                call = f"  %{_MARK}.{number} = call i32 @{barrier}(i32 {YIELD}, i32 0, ptr @{barrier}, i32 0)"
                block[at : at + 1] = [call] if loop in inner and not some else []
                number, some = number + 1, True
    return function.text()
