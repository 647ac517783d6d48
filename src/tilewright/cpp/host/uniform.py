"""Which variables of a SIMT kernel are the same for all threads of a block, whenever they meet at a barrier.

These are variables that get, at places which all threads reach or none does, what parameters, the coordinates of the
block, and other such variables give. Threads part at branches that depend on anything else, until the paths join again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.cpp.host.control_flow import condition_of, definitions_of, successors
from tilewright.frontend.cpp.llvm_instruction import instruction
from tilewright.ir.reachable import reachable

_OF_THREAD = {"%tw.c0", "%tw.c1", "%tw.c2", "%tw.c12", "%tw.thread", "%tw.flat", "%tw.rank", "%tw.within"}  # threadIdx


@dataclass(frozen=True)
class Block:
    """A basic block: ``barrier`` is the one that it ends at, counted from 1; those that are ``gone`` do not follow."""

    label: str
    lines: list[str]
    barrier: int = 0
    gone: frozenset[str] = frozenset()

    def successors(self) -> list[str]:
        """The blocks that follow it before a barrier does."""
        return [name for name in successors(self.lines) if name not in self.gone] if not self.barrier else []


def uniform(regions: Sequence[Sequence[Block]], candidates: set[str], variables: Iterable[str]) -> set[str]:
    """The variables among ``candidates`` that are uniform; these are loaded from and stored to, and nothing else.
    ``variables`` are all, of which each thread has its own at an address of its own."""
    lines = list(dict.fromkeys(line for region in regions for block in region for line in block.lines))
    definitions = definitions_of(lines) | {name: f"  {name} = alloca i8" for name in variables}
    found = set(candidates)
    while True:
        known = uniform_values(definitions, found)
        parted = {label for region in regions for label in _parted(region, known)}
        wrong = {
            name
            for region in regions
            for block in region
            for line in block.lines
            if (name := _set_apart(line, known, block.label in parted)) in found
        }
        if not wrong:
            return found
        found -= wrong


def _set_apart(line: str, known: Mapping[str, bool], parted: bool) -> str | None:
    """The variable that ``line`` stores to, if threads may store different values, or not all of them."""
    i = instruction(line)
    if i.op != "store" or not i.variable:
        return None
    return i.variable if parted or not i.is_plain or not same_value(i.values[0], known) else None


def same_value(operand: str, known: Mapping[str, bool]) -> bool:
    """Whether ``operand`` is the same for all threads, as ``uniform_values`` found."""
    return known.get(operand, operand not in _OF_THREAD)


def uniform_values(definitions: Mapping[str, str], variables: set[str]) -> dict[str, bool]:
    """Whether each value that an instruction defines is uniform, if ``variables`` are."""
    known: dict[str, bool] = dict.fromkeys(definitions, False)
    pending = list(definitions.items())
    while True:
        changed = False
        for name, line in pending:
            if known[name]:
                continue
            i = instruction(line)
            if i.variable:
                same = i.variable in variables
            else:
                same = i.is_pure and all(same_value(operand, known) for operand in i.names)
            known[name] = same
            changed |= same
        if not changed:
            return known


def _parted(region: Sequence[Block], known: Mapping[str, bool]) -> set[str]:
    """The blocks of a region that some threads may run while others do not."""
    blocks = {f"%{block.label}": block for block in region}
    after = {name: block.successors() for name, block in blocks.items()}
    joins = post_dominators(after)
    found: set[str] = set()
    for name, block in blocks.items():
        condition = condition_of(block.lines)
        if len(set(after[name])) < 2 or same_value(condition, known):
            continue
        found |= _before(joins[name] - {name}, after, name)
    return {blocks[name].label for name in found}


def _before(joined: set[str], after: Mapping[str, Sequence[str]], name: str) -> set[str]:
    """The blocks on the ways from the block ``name`` until the first of ``joined``."""
    return set(reachable(set(after[name]) - joined, lambda other: set(after[other]) - joined))


def post_dominators(after: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
    """The blocks that every way from a block to the end of a region passes."""
    all_blocks = set(after)
    result = {name: set(all_blocks) if after[name] else {name} for name in after}
    changed = True
    while changed:
        changed = False
        for name in after:
            if after[name]:
                common = set.intersection(*(result[other] for other in after[name])) | {name}
                if common != result[name]:
                    result[name] = common
                    changed = True
    return result
