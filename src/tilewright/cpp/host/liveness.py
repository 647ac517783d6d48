"""Which variables of a SIMT kernel carry a value from one region to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.cpp.host.uniform import ACCESS, Block


def carried(regions: Sequence[Sequence[Block]], types: Mapping[str, str]) -> set[str]:
    """The variables, given with their types, that some region may load before it has stored to them. They are loaded
    from and stored to, and nothing else."""
    return {name for region in regions for name in _loaded_first(region, types)}


def _loaded_first(region: Sequence[Block], types: Mapping[str, str]) -> set[str]:
    blocks = {f"%{block.label}": block for block in region}
    stored = {name: _stored(block, types) for name, block in blocks.items()}
    before = {name: set(types) for name in blocks}  # what is stored to on every way to a block
    before[f"%{region[0].label}"] = set()
    changed = True
    while changed:
        changed = False
        for name, block in blocks.items():
            for other in block.successors():
                both = before[other] & (before[name] | stored[name])
                changed |= both != before[other]
                before[other] = both
    found: set[str] = set()
    for name, block in blocks.items():
        known = set(before[name])
        for line in block.lines:
            match = ACCESS.match(line)
            if match is None or match["name"] not in types:
                continue
            if not line.startswith("  store "):
                found |= {match["name"]} - known
            elif _is_whole(line, types[match["name"]]):
                known.add(match["name"])
    return found


def _stored(block: Block, types: Mapping[str, str]) -> set[str]:
    accesses = ((line, ACCESS.match(line)) for line in block.lines if line.startswith("  store "))
    return {m["name"] for line, m in accesses if m and m["name"] in types and _is_whole(line, types[m["name"]])}


def _is_whole(store: str, type: str) -> bool:
    """Whether a store writes all of a variable of ``type``."""
    return store.startswith(f"  store {type} ")
