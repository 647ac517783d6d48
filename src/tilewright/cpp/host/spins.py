"""Loops of SIMT kernels in which a thread waits until another one has written something.

Threads of a block take turns, so that such a loop must let the others go on: it gets a place, behind each iteration
that does not leave it, at which the kernel is split. The runtime is told when a thread enters the loop, and where that
is if it does nothing but wait, so that it knows when nothing else can happen any more. Loops that change memory as well
say whether they go on by that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from tilewright.cpp.host.control_flow import blocks_of, components, condition_of, definitions_of, loops, successors
from tilewright.cpp.host.locality import INDEX
from tilewright.frontend.cpp.llvm_instruction import Instruction, instruction
from tilewright.frontend.cpp.llvm_module import Parts, called_from, names_in, parts_of, with_functions
from tilewright.frontend.cpp.locations import Locations
from tilewright.frontend.cpp.parameters import constant
from tilewright.ir.location import UNKNOWN
from tilewright.ir.reachable import reachable

_COLUMN_SHIFT = 20  # `column_shift` of simt.h
_CLOCKS = "llvm.read"
_ENDS = {"_ZSt9terminatev", "__cxa_begin_catch", "__gxx_personality_v0"}  # of functions that may not throw
SPIN = 6  # the kind of such a place
ENTERS = "__tw_simt_enters"  # tells the runtime that a thread comes to such a loop
_CHANGES_NOTHING = re.compile(r" atomicrmw (?:volatile )?(?:xchg|(?:add|sub|or|xor) ptr [^,]+, i\d+ 0\b)")
_VARIABLE = re.compile(r"^  (%\S+) = alloca ", re.M)
_STORED = re.compile(r"^  store .*, ptr ([^\s,]+)", re.M)
_INDIRECT = re.compile(r" (?:call|invoke) [^@\n]* %\S+\(")
_READS = (" load volatile ", " load atomic ", " atomicrmw ", " cmpxchg ")
_TILE_READS = re.compile(r"@_ZN4cuda5tiles\w*?\datomic_(?:load|compare_exchange|xchg)")


def reading(text: str, kernels: Iterable[str]) -> set[str]:
    """The functions among ``kernels`` that read what may change at any time, or call a function that does."""
    return _readers(parts_of(text)).intersection(kernels)


def _readers(parts: Parts) -> set[str]:
    """The functions of a module that read so, or lead to one that does."""
    return _leading_to({name for name, each in parts.functions.items() if _reads(each.text)}, parts)


def _changing(parts: Parts) -> set[str]:
    """The functions that change memory beside their own variables, or may, or lead to one that does."""
    found = {name for name in parts.declared if _CLOCKS in name or not name.startswith(("llvm.", INDEX))} - _ENDS
    texts = {name: each.text for name, each in parts.functions.items()}
    return _leading_to(found | {name for name, text in texts.items() if _writes(text) or " cmpxchg " in text}, parts)


def _writes(text: str) -> bool:
    own = set(_VARIABLE.findall(text))
    changes = (line for line in text.split("\n") if " atomicrmw " in line and not _CHANGES_NOTHING.search(line))
    return any(at not in own for at in _STORED.findall(text)) or any(changes) or _INDIRECT.search(text) is not None


def _leading_to(found: set[str], parts: Parts) -> set[str]:
    """``found``, and the functions that lead to one of them."""
    users: dict[str, set[str]] = {}
    for name, others in parts.calls.items():
        for other in others:
            users.setdefault(other, set()).add(name)
    return set(reachable(found, lambda name: users.get(name, set())))


def _reads(text: str) -> bool:
    return any(reads in text for reads in _READS) or _TILE_READS.search(text) is not None


def polling(text: str, kernels: Iterable[str]) -> set[str]:
    """The tile kernels among ``kernels`` that have loops, or call functions with loops, which read so."""
    parts = parts_of(text)
    read = _readers(parts)
    found = {name for name in read if _Function(parts.functions[name].text, read).polls()}
    return {kernel for kernel in kernels if found & called_from(parts.calls, [kernel])}


def spinning(text: str, names: set[str]) -> set[str]:
    """The functions among ``names`` that have such loops, in the module ``text`` as of ``with_spins``."""
    parts = parts_of(text)
    read = _readers(parts)
    return {name for name in names & read if _Function(parts.functions[name].text, read).spins()}


def with_spins(text: str, kernels: set[str], barrier: str) -> tuple[str, set[str]]:
    """The module ``text``, whose functions have no variables in memory but those with addresses, with calls of
    ``barrier`` in such loops of ``kernels``; and those of them that have some."""
    parts = parts_of(text)
    read = _readers(parts)
    places = _Places(Locations(parts.metadata))
    spins = {name: _Function(parts.functions[name].text, read) for name in kernels & read}
    changing = _changing(parts) if spins else set()
    edited = {name: each.edited(barrier, places, changing) for name, each in spins.items()}
    changed = {name for name, made in edited.items() if made != parts.functions[name].text}
    text = with_functions(text, changed, lambda each: edited[each.name])
    return "\n".join([text, *places.lines()]) if changed else text, changed


class _Places:
    """Operands that tell the runtime where something is."""

    def __init__(self, locations: Locations) -> None:
        self._locations = locations
        self._files: dict[str, str] = {}

    NONE = "ptr null, i32 {}"  # for a loop that changes memory: 0 where it goes on by that

    def operands(self, number: int | None) -> str:
        """The file and the line of a location, by the number of its metadata."""
        loc = UNKNOWN if number is None else self._locations.loc(number)
        file = self._files.setdefault(loc.file, f'@"tw.spin.{len(self._files)}"')
        return f"ptr {file}, i32 {loc.line | (loc.column + 1) << _COLUMN_SHIFT if loc.line else 0}"

    def lines(self) -> list[str]:
        return [f"{name} = private constant {constant(file)}" for file, name in self._files.items()]


class _Function:
    def __init__(self, text: str, reading: set[str]) -> None:
        self.head, *lines = text.split("\n")
        self.reading = reading
        self.blocks = blocks_of(lines)
        self.edges = {name: successors(block) for name, block in self.blocks.items()}
        self.definitions = definitions_of(lines)

    def definition(self, value: str) -> Instruction:
        return instruction(self.definitions.get(value, ""))

    def spins(self) -> list[tuple[set[str], set[str]]]:
        """The loops that wait, and their headers."""
        return [(loop, headers) for loop, headers in loops(self.edges) if self._waits(loop)]

    def polls(self) -> bool:
        return any(self._reads(line) for loop, _ in loops(self.edges) for name in loop for line in self.blocks[name])

    def edited(self, barrier: str, places: _Places, changing: set[str]) -> str:
        count = 0
        for loop, headers in self.spins():
            only, advances = self._only_waits(loop, changing), self._advances(loop, changing)
            for name in (name for name in self.blocks if headers & set(self.edges[name])):
                block = self.blocks[name]
                at, jump = next((i, j) for i, j in enumerate(map(instruction, block)) if j.op in ("br", "switch"))
                if name in loop:
                    place = places.operands(jump.debug) if only else places.NONE.format(0 if advances else -1)
                    block.insert(at, f"  %tw.spin{count} = call i32 @{barrier}(i32 {SPIN}, i32 0, {place})")
                    count += 1
                else:
                    block.insert(at, f"  call void @{ENTERS}()")
        return "\n".join([self.head, *(line for block in self.blocks.values() for line in block)])

    def _only_waits(self, loop: set[str], changing: set[str]) -> bool:
        """Whether an iteration that does not leave ``loop`` changes nothing, nor calls any of ``changing``."""
        lines = [line for name in loop for line in self.blocks[name]]
        return not _writes("\n".join(lines)) and not any(changing & names_in(line) for line in lines)

    def _waits(self, loop: set[str]) -> bool:
        """Whether all that leaves ``loop`` depends on what it reads."""
        ends = self._ends(loop)
        return bool(ends) and all(self._depends(end, loop, self._reads) for end in ends) and not self._retries(loop)

    def _advances(self, loop: set[str], changing: set[str]) -> bool:
        """Whether what leaves ``loop`` depends on what its own updates of memory find, as of a counter."""

        def updates(line: str) -> bool:
            return " cmpxchg " in line or _writes(line) or bool(changing & self.reading & names_in(line))

        return any(self._depends(end, loop, updates) for end in self._ends(loop))

    def _ends(self, loop: set[str]) -> list[str]:
        """The conditions that leave ``loop``."""
        return [condition_of(self.blocks[name]) for name in loop if set(self.edges[name]) - loop]

    def _retries(self, loop: set[str]) -> bool:
        """Whether each iteration of ``loop`` exchanges what it has read with another value, and is the last one unless
        somebody else came in between: that is never for others to end."""
        lines = [line for name in loop for line in self.blocks[name]]
        reads = [instruction(line) for line in lines if self._reads(line)]
        if len(reads) != 1 or reads[0].op != "cmpxchg":
            return False
        known, fresh = self._sources(reads[0].values[1]), (reads[0].result, "0")
        if fresh not in known or not known.isdisjoint((instruction(line).result, "") for line in lines):
            return False
        branches = {name: next(i for i in map(instruction, self.blocks[name]) if i.labels) for name in loop}
        ends = [
            name
            for name, branch in branches.items()
            if len(branch.labels) == 2
            for at, succeeds in enumerate((True, False))  # by the ways that its branch goes
            if branch.labels[at] not in loop and self._succeeded(branch.values[0], reads[0], known) == succeeds
        ]
        return any(not components(loop - {name}, self.edges) for name in ends)

    def _succeeded(self, value: str, exchange: Instruction, known: set[tuple[str, str]]) -> bool | None:
        """Whether the condition ``value`` says that ``exchange`` found what is ``known`` to be there; None if it says
        something else."""
        i = self.definition(value)
        if i.op == "extractvalue":
            return True if i.values == (exchange.result, "1") else None
        if i.op == "xor" and i.values[1] == "true":
            inner = self._succeeded(i.values[0], exchange, known)
            return None if inner is None else not inner
        if i.op != "icmp" or exchange.values[1] not in i.values or not i.words & {"eq", "ne"}:
            return None
        a, b = i.values
        found = self._sources(a if b == exchange.values[1] else b) <= known
        return "eq" in i.words if found else None

    def _sources(self, value: str) -> set[tuple[str, str]]:
        """The values that ``value`` is one of, with the number of a part of a result."""
        found, seen, pending = set[tuple[str, str]](), set[str](), [value]
        while pending:
            at = pending.pop()
            i = self.definition(at)
            if at in seen:
                continue
            seen.add(at)
            if i.op == "phi":
                pending += [each for each, _ in i.incoming]
            elif i.op in ("bitcast", "freeze", "select"):
                pending += i.values[i.op == "select" :]
            else:
                found.add((i.values[0], i.values[1]) if i.op == "extractvalue" else (at, ""))
        return found

    def _reads(self, line: str) -> bool:
        return _reads(line) or bool(self.reading & names_in(line))

    def _depends(self, value: str, loop: set[str], reads: Callable[[str], bool]) -> bool:
        """Whether ``value`` is computed in ``loop`` from what an instruction that ``reads`` gives."""
        lines = {line for name in loop for line in self.blocks[name]}
        seen, pending = set[str](), [value]
        while pending:
            at = pending.pop()
            line = self.definitions.get(at, "")
            if at in seen or not line or line not in lines:
                continue
            seen.add(at)
            i = instruction(line)
            if reads(line):
                return True
            if i.op == "phi":
                ways = [name for _, name in i.incoming if name in loop]
                # Where ways meet, the value is that of the branch before.
                pending += [condition_of(self.blocks[name]) for name in loop] if len(ways) > 1 else []
            pending += i.names
        return False
