"""Loops of SIMT kernels in which a thread waits until another one has written something.

Threads of a block take turns, so that such a loop must let the others go on: it gets a place, behind each iteration
that does not leave it, at which the kernel is split.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tilewright.cpp.host.control_flow import blocks_of, definitions_of, loops, successors
from tilewright.cpp.host.uniform import LOCAL
from tilewright.frontend.cpp.calls import FUNCTION, NAME
from tilewright.ir.reachable import reachable

SPIN = 6  # the kind of such a place
_READS = re.compile(r" (?:load (?:volatile|atomic)|atomicrmw|cmpxchg) ")
_INCOMING = re.compile(rf"\[ [^,]+, ({LOCAL}) \]")


def reading(text: str, kernels: Iterable[str]) -> set[str]:
    """The functions among ``kernels`` that read what may change at any time, or call a function that does."""
    return _readers({m[1].strip('"'): m.group() for m in FUNCTION.finditer(text)}).intersection(kernels)


def _readers(functions: Mapping[str, str]) -> set[str]:
    """The functions, by their text, that read so, or lead to one that does."""
    users: dict[str, set[str]] = {}
    for name, body in functions.items():
        for other in _names(body):
            users.setdefault(other, set()).add(name)
    found = (name for name, body in functions.items() if _READS.search(body))
    return set(reachable(found, lambda name: users.get(name, set())))


def spinning(text: str, names: set[str]) -> set[str]:
    """The functions among ``names`` that have such loops, in the module ``text`` as of ``with_spins``."""
    functions = {m[1].strip('"'): m.group() for m in FUNCTION.finditer(text)}
    read = _readers(functions)
    return {name for name in names & read if _Function(functions[name], read).spins()}


def with_spins(text: str, kernels: set[str], barrier: str) -> tuple[str, set[str]]:
    """The module ``text``, whose functions have no variables in memory but those with addresses, with calls of
    ``barrier`` in such loops of ``kernels``; and those of them that have some."""
    functions = {m[1].strip('"'): m.group() for m in FUNCTION.finditer(text)}
    read = _readers(functions)
    changed: set[str] = set()
    for name in kernels & set(functions):
        edited = _Function(functions[name], read).edited(barrier)
        if edited != functions[name]:
            text = text.replace(functions[name], edited, 1)
            changed.add(name)
    return text, changed


def _names(text: str) -> set[str]:
    return {name.strip('"') for name in re.findall(NAME, text)}


class _Function:
    def __init__(self, text: str, reading: set[str]) -> None:
        self.head, *lines = text.split("\n")
        self.reading = reading
        self.blocks = blocks_of(lines)
        self.edges = {name: successors(block) for name, block in self.blocks.items()}
        self.definitions = definitions_of(lines)

    def spins(self) -> list[tuple[set[str], set[str]]]:
        """The loops that wait, and their headers."""
        return [(loop, headers) for loop, headers in loops(self.edges) if self._waits(loop)]

    def edited(self, barrier: str) -> str:
        count = 0
        for loop, headers in self.spins():
            for name in sorted(loop):
                if headers & set(self.edges[name]):
                    block = self.blocks[name]
                    at = next(i for i, line in enumerate(block) if line.startswith(("  br ", "  switch ")))
                    call = f"  %tw.spin{count} = call i32 @{barrier}(i32 {SPIN}, i32 0, ptr @{barrier}, i32 0)"
                    block.insert(at, call)
                    count += 1
        return "\n".join([self.head, *(line for block in self.blocks.values() for line in block)])

    def _waits(self, loop: set[str]) -> bool:
        """Whether all that leaves ``loop`` depends on what it reads."""
        conditions = [self._condition(name) for name in loop if set(self.edges[name]) - loop]
        return bool(conditions) and all(self._depends(value, loop) for value in conditions)

    def _condition(self, name: str) -> str:
        branch = next((line for line in self.blocks[name] if re.match(r"  (?:br i1|switch) ", line)), "")
        match = re.match(rf"  (?:br i1|switch \w+) ({LOCAL}),", branch)
        return match[1] if match is not None else ""

    def _depends(self, value: str, loop: set[str]) -> bool:
        lines = {line for name in loop for line in self.blocks[name]}
        seen, pending = set[str](), [value]
        while pending:
            at = pending.pop()
            line = self.definitions.get(at, "")
            if at in seen or not line or line not in lines:
                continue
            seen.add(at)
            if _READS.search(line) or (" call " in line and self.reading & _names(line)):
                return True
            if " = phi " in line:
                ways = [name for name in _INCOMING.findall(line) if name in loop]
                # Where ways meet, the value is that of the branch before.
                pending += [self._condition(name) for name in loop] if len(ways) > 1 else []
            pending += re.findall(LOCAL, line.split(" = ", 1)[1])
        return False
