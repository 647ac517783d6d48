"""Cycles of control flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def components(within: set[str], edges: Mapping[str, Sequence[str]]) -> list[set[str]]:
    """The strongly connected components with a cycle, of the graph ``edges`` among the nodes ``within``."""
    reach: dict[str, set[str]] = {}
    for start in sorted(within):
        seen: set[str] = set()
        stack = [start]
        while stack:
            for n in edges[stack.pop()]:
                if n in within and n not in seen:
                    seen.add(n)
                    stack.append(n)
        reach[start] = seen
    cyclic = {name for name in within if name in reach[name]}
    groups = {frozenset({name, *(n for n in reach[name] if name in reach[n])}) for name in cyclic}
    return [set(group) for group in sorted(groups, key=sorted)]
