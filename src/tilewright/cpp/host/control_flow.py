"""Control flow of functions as LLVM text: their blocks, what follows these, and cycles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tilewright.frontend.cpp.llvm_instruction import LABEL, instruction


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
    """The strongly connected components with a cycle, of the graph ``edges`` among the nodes ``within`` (Tarjan)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}  # of the nodes whose component is open, what they lead back to
    found: list[set[str]] = []
    for root in within:
        ways = [] if root in numbers else [(root, iter(edges[root]))]
        opened: list[str] = []
        while ways:
            name, after = ways[-1]
            if name not in numbers:
                numbers[name] = lowest[name] = len(numbers)
                opened.append(name)
            other = next((n for n in after if n in within and (n not in numbers or n in lowest)), None)
            if other is not None and other not in numbers:
                ways.append((other, iter(edges[other])))
            elif other is not None:
                lowest[name] = min(lowest[name], numbers[other])
            else:
                ways.pop()
                if ways:
                    lowest[ways[-1][0]] = min(lowest[ways[-1][0]], lowest[name])
                if lowest[name] == numbers[name]:
                    group = set(opened[opened.index(name) :])
                    del opened[-len(group) :]
                    for each in group:
                        del lowest[each]
                    if len(group) > 1 or name in edges[name]:
                        found.append(group)
    return sorted(found, key=sorted)


def loops(edges: Mapping[str, Sequence[str]]) -> Iterator[tuple[set[str], set[str]]]:
    """The cycles of the graph ``edges``, those inside of others, too; each with the nodes at which it is entered."""
    pending = [set(edges)]
    while pending:
        for loop in components(pending.pop(), edges):
            headers = {n for name, after in edges.items() if name not in loop for n in after} & loop
            pending.append(loop - (headers or set(sorted(loop)[:1])))
            yield loop, headers
