"""Control flow of functions as LLVM text: their blocks, what follows these, and cycles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tilewright.frontend.cpp.llvm_instruction import LABEL, instruction
from tilewright.ir.reachable import reachable


def blocks_of(lines: Iterable[str]) -> dict[str, list[str]]:
    """The lines of each block with its label, by name; the first one may have none."""
    blocks: dict[str, list[str]] = {}
    found: list[str] = []
    for line in lines:
        label = LABEL.match(line)
        if label or not blocks:
            found = blocks[f"%{label[1]}" if label else ""] = []
        found.append(line)
    return blocks


def successors(lines: Iterable[str]) -> list[str]:
    """The blocks that a block branches to."""
    return [label for line in lines for label in instruction(line).labels]


def condition_of(lines: Iterable[str]) -> str:
    """The value by which a block branches, "" if it has one way to go on."""
    return next((i.values[0] for i in map(instruction, lines) if i.op in ("br", "switch") and i.args), "")


def definitions_of(lines: Iterable[str]) -> dict[str, str]:
    """The line that defines each variable."""
    return {i.result: line for line in lines if (i := instruction(line)).result}


def components(within: set[str], edges: Mapping[str, Sequence[str]]) -> list[set[str]]:
    """The strongly connected components with a cycle, of the graph ``edges`` among the nodes ``within``."""

    def after(name: str) -> Iterator[str]:
        return (n for n in edges[name] if n in within)

    reach = {name: set(reachable(after(name), after)) for name in within}
    groups = {frozenset(n for n in reach[name] if name in reach[n]) for name in within if name in reach[name]}
    return [set(group) for group in sorted(groups, key=sorted)]


def loops(edges: Mapping[str, Sequence[str]]) -> Iterator[tuple[set[str], set[str]]]:
    """The cycles of the graph ``edges``, those inside of others, too; each with the nodes at which it is entered."""
    pending = [set(edges)]
    while pending:
        for loop in components(pending.pop(), edges):
            headers = {n for name, after in edges.items() if name not in loop for n in after} & loop
            pending.append(loop - (headers or set(sorted(loop)[:1])))
            yield loop, headers
