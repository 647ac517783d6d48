"""Loops of SIMT kernels that stride by the threads of a block or grid: the threads of a block go through them together.

One thread after another would touch memory at every so many elements, each line of a cache once for each of its
elements. So such a loop gets a barrier that nobody needs, before each iteration, at which the kernel is split. Its
variable becomes what it was at first, and the number of the iteration times the stride, which is next to that of the
next thread. Threads that do several more iterations have another such barrier before all of these.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tilewright.cpp.host.control_flow import components, condition_of, successors
from tilewright.cpp.host.locality import INDEX, Locality, short_functions
from tilewright.frontend.cpp.llvm_instruction import Instruction, instruction, renamed
from tilewright.frontend.cpp.llvm_module import parts_of, with_functions
from tilewright.ir.reachable import reachable

YIELD = 5  # the kind of such a barrier
COUNTS = "%tw.stride."  # how the names begin of what counts iterations
_STEPS = ("add", "sub", "mul", "shl", "zext", "sext", "trunc")
_OF_BLOCKS = {*map(str, range(6, 12))}  # blockDim and gridDim
_LONGEST = 12  # instructions that compute a stride
_FEW = 8  # iterations
_SEVERAL, _MOST = 4, 40  # iterations behind one barrier, and lines that each of these may be


@dataclass(frozen=True)
class _Loop:
    """A loop with the ``phi`` of its variable, to which it adds ``by``, that ``steps`` compute; and its blocks but for
    the ``header``, of which ``entry`` is the first."""

    header: str
    entry: str
    body: Collection[str]
    phi: Instruction
    by: str
    steps: Sequence[str]

    @property
    def own(self) -> str:
        return f"{COUNTS}{self.header[1:].strip(chr(34))}"

    @property
    def location(self) -> str:
        return "" if self.phi.debug is None else f", !dbg !{self.phi.debug}"

    def at(self, name: str, kind: str, ahead: int = 0) -> list[str]:
        """Lines that give ``name`` the value of the variable in the iteration, or in one so far ``ahead``."""
        names = {instruction(step).result: f"{self.own}.{kind}{i}" for i, step in enumerate(self.steps)}
        lines, type, count = [renamed(step, names) for step in self.steps], self.phi.type, f"{self.own}.count"
        if ahead:
            lines.append(f"  {self.own}.{kind}.n = add {type} {count}, {ahead}{self.location}")
            count = f"{self.own}.{kind}.n"
        lines += [f"  {self.own}.{kind} = mul {type} {count}, {names.get(self.by, self.by)}{self.location}"]
        return [*lines, f"  {name} = add {type} {self.phi.incoming[0][0]}, {self.own}.{kind}{self.location}"]

    def begins(self, kind: str, barrier: str, count: int) -> list[str]:
        """Lines that wait before ``count`` iterations."""
        call = f"call i32 @{barrier}(i32 {YIELD}, i32 0, ptr @{barrier}, i32 0)"
        added = f"add {self.phi.type} {self.own}.count, {count}"
        return [f"  {self.own}.{kind} = {call}{self.location}", f"  {self.own}.{kind}.next = {added}{self.location}"]


def with_yields(text: str, kernels: Collection[str], barrier: str) -> str:
    """The module ``text``, whose functions have no variables in memory but those with addresses, with calls of
    ``barrier`` in such loops of ``kernels``."""
    short = short_functions(parts_of(text).functions)
    return with_functions(text, kernels, lambda each: _yielding(each.text, barrier, short))


def without_yields(text: str, barrier: str) -> str:
    """``text`` without the calls that ``with_yields`` made."""
    lines = []
    for line in text.split("\n"):
        i = instruction(line)
        yields = i.callee == barrier and i.values[0] == str(YIELD)
        lines.append(f"  {i.result} = add i32 0, 0" if yields else line)
    return "\n".join(lines)


def _yielding(text: str, barrier: str, short: Collection[str]) -> str:
    function = Locality(text)
    for header in list(function.blocks):
        loops = (_loop(function, header, instruction(line)) for line in function.blocks[header])
        loop = next((each for each in loops if each is not None), None)
        if loop and not any(instruction(line).callee == barrier for n in loop.body for line in function.blocks[n]):
            several = _Several(function, loop, barrier, {INDEX, *short})
            _yield_in(function.blocks, loop, barrier)
            if several.fits():
                several.insert()
    return function.text()


def _loop(function: Locality, header: str, phi: Instruction) -> _Loop | None:
    """The loop of the variable ``phi``, if the threads are to go through it together."""
    if phi.op != "phi" or phi.type not in ("i32", "i64") or len(phi.args) != 2:
        return None
    (first, _), (following, latch) = phi.incoming
    body = _body(function.blocks, header, latch)
    add = function.definition(following)
    if not body or add.op != "add" or phi.result not in add.values:
        return None
    by = next((value for value in add.values if value != phi.result), phi.result)
    steps = _steps(function, by)
    if steps is None:
        return None
    of_blocks = any(instruction(line).callee == INDEX for line in steps)
    if not of_blocks and (_is_short(function, header, by) or function.is_same(first)):
        return None
    if not of_blocks and not function.gains({header, *body}, header):
        return None
    entry = next(name for name in successors(function.blocks[header]) if name in body)
    return _Loop(header, entry, body, phi, by, steps)


def _body(blocks: Mapping[str, Sequence[str]], header: str, latch: str) -> set[str]:
    """The blocks of a loop but for its ``header``, if this goes to one of them, which nothing else does, or leaves."""
    before: dict[str, set[str]] = {}
    for name, lines in blocks.items():
        for other in successors(lines):
            before.setdefault(other, set()).add(name)
    found = set(reachable({latch} - {header}, lambda name: before.get(name, set()) - {header}))
    entries = [name for name in found if header in before.get(name, ())]
    return found if len(entries) == 1 and before[entries[0]] == {header} and len(before[header]) == 2 else set()


def _is_short(function: Locality, header: str, by: str) -> bool:
    """Whether a loop that strides by ``by`` ends at a constant, after a few iterations at most."""
    bound = function.definition(condition_of(function.blocks[header])).values[1:]
    return by.isdigit() and bound != () and bound[0].isdigit() and int(bound[0]) <= _FEW * int(by)


def _steps(function: Locality, by: str) -> list[str] | None:
    """The lines that compute ``by``, if it is the same for all threads, and the iterations of loops."""
    lines: list[str] = []
    pending = [by]
    while pending:
        line = function.definitions.get(pending.pop())
        if line is None:  # a parameter or a constant
            continue
        i = instruction(line)
        if len(lines) > _LONGEST or (i.values[0] not in _OF_BLOCKS if i.callee == INDEX else i.op not in _STEPS):
            return None
        lines = [line, *(other for other in lines if other != line)]
        pending += i.names
    return lines


def _yield_in(blocks: dict[str, list[str]], loop: _Loop, barrier: str) -> None:
    """Let the loop yield before each iteration. The numbers of values without a name stay."""
    phi, again = loop.phi, f"{loop.own}.again"
    (_, before), (_, latch) = phi.incoming
    numbered = f"  {loop.own}.count = phi {phi.type} [ 0, {before} ], [ {loop.own}.yield.next, {latch} ]{loop.location}"
    lines = [numbered if instruction(line).result == phi.result else line for line in blocks[loop.header]]
    last = max(i for i, line in enumerate(lines) if instruction(line).op == "phi")
    blocks[loop.header] = [*lines[: last + 1], *loop.at(phi.result, "first"), *lines[last + 1 :]]
    for name in loop.body:
        blocks[name] = [renamed(line, {phi.result: again}) for line in blocks[name]]
    blocks[loop.entry][1:1] = [*loop.begins("yield", barrier, 1), *loop.at(again, "body")]


class _Several:
    """Several iterations of a loop behind one barrier, for threads that do all of them."""

    def __init__(self, function: Locality, loop: _Loop, barrier: str, known: Collection[str]) -> None:
        """The loop as it is before it yields; functions that are ``known`` only compute something."""
        self._known = known
        self._blocks, self._loop, self._barrier = function.blocks, loop, barrier
        self._body = {name: function.blocks[name] for name in function.blocks if name in loop.body}
        lines = function.blocks[loop.header][1:]
        self._condition, self._ways = condition_of(lines), successors(lines)
        self._phis = [i for i in map(instruction, lines) if i.op == "phi"]
        self._others = [line for line in lines if (i := instruction(line)).op and i.op != "phi" and not i.labels]

    def fits(self) -> bool:
        """Whether the loop is a short one without others inside of it, that is left at its header only, by its variable
        only."""
        edges = {name: successors(lines) for name, lines in self._body.items()}
        inside = {*self._body, self._loop.header}
        code = [i for lines in self._body.values() for i in map(instruction, lines) if i.op]
        given = {phi.result for phi in self._phis} - {self._loop.phi.result}
        header = [instruction(line) for line in self._others]
        return (
            len(code) <= _MOST
            and inside.issuperset(name for after in edges.values() for name in after)
            and not components(set(self._body), edges)
            and all(i.is_pure or i.callee == INDEX for i in header)
            and given.isdisjoint(name for i in header for name in i.names)
            and all(i.op != "call" or i.callee in self._known or i.callee.startswith("llvm.") for i in code)
            and all(i.op not in ("alloca", "invoke") for i in code)
            and not any(instruction(line).op == "phi" for line in self._body[self._loop.entry])
            and self._condition.startswith("%")
        )

    def insert(self) -> None:
        """Let the loop, which yields by now, go on to copies of its blocks where a thread does them all."""
        loop, own = self._loop, self._loop.own
        test, first = f"{own[1:]}.tests", f"{own[1:]}.all"
        made = {f"%{test}": [f"{test}:", *self._tests(first)], f"%{first}": [f"{first}:"]}
        given = {phi.result: phi.result for phi in self._phis}
        made[f"%{first}"] += loop.begins("several", self._barrier, _SEVERAL)
        for number in range(_SEVERAL):
            lines, names = self._header(f"again{number}", number)
            made[f"%{first}"] += lines
            names = {**given, **names}
            copies, latch, given = self._copy(number, names)
            made.update(copies)
        made[f"%{first}"].append(f"  br label {self._name(0, loop.entry)}")
        others = {loop.entry: f"%{test}"}
        header = [renamed(line, others) if instruction(line).labels else line for line in self._blocks[loop.header]]
        given[f"{own}.count"] = f"{own}.several.next"
        for at, i in ((at, i) for at, i in enumerate(map(instruction, header)) if i.op == "phi"):
            header[at] = f"{header[at][: i.end]}, [ {given[i.result]}, {latch} ]{header[at][i.end :]}"
        pairs = [*self._blocks.items()]
        at = [name for name, _ in pairs].index(loop.header)
        self._blocks.clear()
        self._blocks.update([*pairs[:at], (loop.header, header), *made.items(), *pairs[at + 1 :]])

    def _name(self, number: int, name: str) -> str:
        return f'%"tw.several.{self._loop.header[1:].strip(chr(34))}.{number}.{name[1:].strip(chr(34))}"'

    def _header(self, kind: str, ahead: int) -> tuple[list[str], dict[str, str]]:
        """Lines that compute what the header does, so many iterations ahead, and the names of these values."""
        variable = f"{self._loop.own}.{kind}.first"
        names = {self._loop.phi.result: variable}
        lines = self._loop.at(variable, kind, ahead)
        for line in self._others:
            names[instruction(line).result] = self._name(ahead, f"%{kind}.{instruction(line).result[1:]}")
            lines.append(renamed(line, names))
        return lines, names

    def _tests(self, several: str) -> list[str]:
        """Lines that go on to the block ``several`` where the iterations behind this one are to be done, too."""
        lines, so, location = list[str](), "", self._loop.location
        way = "and" if self._ways[0] == self._loop.entry else "or"
        for ahead in range(1, _SEVERAL):
            found, names = self._header(f"test{ahead}", ahead)
            each, lines = names.get(self._condition, self._condition), [*lines, *found]
            if so:
                lines.append(f"  {self._loop.own}.so{ahead} = {way} i1 {so}, {each}{location}")
            so = f"{self._loop.own}.so{ahead}" if so else each
        ways = [f"label %{several}", f"label {self._loop.entry}"]
        return [*lines, f"  br i1 {so}, {', '.join(ways if way == 'and' else ways[::-1])}{location}"]

    def _copy(self, number: int, names: dict[str, str]) -> tuple[dict[str, list[str]], str, dict[str, str]]:
        """The blocks of an iteration with ``names`` in the place of the header's, the last one of them, and what the
        header's phis get of it."""
        loop, (_, latch) = self._loop, self._loop.phi.incoming[1]
        defined = [i.result for lines in self._body.values() for i in map(instruction, lines) if i.result]
        names = {**names, **{name: self._name(number, name) for name in (*defined, *self._body)}}
        last = number == _SEVERAL - 1
        names[loop.header] = loop.header if last else self._name(number + 1, loop.entry)
        copies = {}
        for name, lines in self._body.items():
            code = (re.sub(r", !llvm.loop !\d+", "", line) for line in lines[1:] if instruction(line).op)
            copies[names[name]] = [f"{names[name][1:]}:", *(renamed(line, names) for line in code)]
        ends = {phi.result: value for phi in self._phis for value, block in phi.incoming if block == latch}
        return copies, names[latch], {name: names.get(value, value) for name, value in ends.items()}
