"""Which variables of a SIMT kernel carry a value from one region to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.cpp.host.uniform import Block
from tilewright.frontend.cpp.llvm_instruction import instruction


def carried(regions: Sequence[Sequence[Block]], types: Mapping[str, str]) -> set[str]:
    """The variables, given with their types, that some region may load before it has stored to them. They are loaded
    from and stored to, and nothing else."""
    return {name for region in regions for name in _loaded_first(region, types)}


def live(regions: Sequence[Sequence[Block]], types: Mapping[str, str]) -> list[set[str]]:
    """For each region the variables whose values it, or one behind it, may use; given as for ``carried``."""
    found = [_loaded_first(region, types) for region in regions]
    follow = [{block.barrier for block in region if block.barrier} for region in regions]
    kept = [set(types) - _always_stored(region, types) for region in regions]
    changed = True
    while changed:
        changed = False
        for k, after in enumerate(follow):
            more = {name for other in after for name in found[other]} & kept[k] - found[k]
            found[k] |= more
            changed |= bool(more)
    return found


def _always_stored(region: Sequence[Block], types: Mapping[str, str]) -> set[str]:
    before = _stored_before(region, types)
    ends = [block for block in region if block.barrier]
    return set.intersection(set(types), *(before[f"%{block.label}"] | _stored(block, types) for block in ends))


def _stored_before(region: Sequence[Block], types: Mapping[str, str]) -> dict[str, set[str]]:
    """What is stored to on every way to each block."""
    blocks = {f"%{block.label}": block for block in region}
    stored = {name: _stored(block, types) for name, block in blocks.items()}
    before = {name: set(types) for name in blocks}
    before[f"%{region[0].label}"] = set()
    changed = True
    while changed:
        changed = False
        for name, block in blocks.items():
            for other in block.successors():
                both = before[other] & (before[name] | stored[name])
                changed |= both != before[other]
                before[other] = both
    return before


def _loaded_first(region: Sequence[Block], types: Mapping[str, str]) -> set[str]:
    before = _stored_before(region, types)
    found: set[str] = set()
    for block in region:
        name = f"%{block.label}"
        known = set(before[name])
        for line in block.lines:
            i = instruction(line)
            if i.variable not in types:
                continue
            if i.op == "load":
                found |= {i.variable} - known
            elif i.type == types[i.variable]:
                known.add(i.variable)
    return found


def _stored(block: Block, types: Mapping[str, str]) -> set[str]:
    """The variables that a block writes all of."""
    stores = (i for i in map(instruction, block.lines) if i.op == "store")
    return {i.variable for i in stores if i.variable in types and i.type == types[i.variable]}
