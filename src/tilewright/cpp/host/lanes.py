"""Numbers of lanes and warps in SIMT kernels, as LLVM knows them: neighbours have neighbouring lanes, and one warp.

Whoever runs the lanes of a warp together says by ``WITHIN`` which one a thread is, where the first one's number is a
multiple of 32, and otherwise 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.cpp.host.control_flow import definitions_of
from tilewright.cpp.host.guards import IN_BLOCK, IN_PLANE
from tilewright.frontend.cpp.llvm_instruction import instruction

WITHIN = "%tw.within"
LANES = 32
_SIGNED = ("sdiv", "srem")  # of numbers in the grid, which may be negative there


def by_lanes(lines: Sequence[str]) -> tuple[list[str], bool]:
    """``lines`` with such numbers, and whether one of them is of the grid, so that blocks must be whole warps wide."""
    definitions = definitions_of(lines)
    stored: dict[str, list[str]] = {}
    for i in map(instruction, lines):
        if i.op == "store" and i.variable:
            stored.setdefault(i.variable, []).append(i.values[0])

    def plain(value: str) -> str:
        i = instruction(definitions.get(value, ""))
        if i.op == "load" and len(stored.get(i.variable, ())) == 1:
            return plain(stored[i.variable][0])
        return (
            plain(i.values[0])
            if i.op in ("add", "bitcast") and i.type == "i32" and i.values[1:] in ((), ("0",))
            else value
        )

    def is_of_block(value: str) -> bool:
        return plain(value) in ("%tw.c0", IN_PLANE, IN_BLOCK)

    def is_of_grid(value: str) -> bool:
        i = instruction(definitions.get(plain(value), ""))
        products = (
            [instruction(definitions.get(plain(b), "")) for a, b in (i.values, i.values[::-1]) if is_of_block(a)]
            if i.op == "add"
            else []
        )
        return any(each.op == "mul" and "%tw.c6" in map(plain, each.values) for each in products)

    made, of_grid = list[str](), False
    for line in lines:
        i = instruction(line)
        by = int(i.values[1]) if len(i.values) == 2 and i.values[1].isdigit() and i.type == "i32" else 0
        warp = by >= 5 if i.op in ("lshr", "ashr") else by % LANES == 0 < by if i.op in ("udiv", "sdiv") else False
        lane = by == (LANES - 1 if i.op == "and" else LANES) if i.op in ("and", "urem", "srem") else False
        grid = (warp or lane) and i.op not in _SIGNED and is_of_grid(i.values[0])
        if not ((warp or lane) and (grid or is_of_block(i.values[0]))):
            made.append(line)
            continue
        of_grid |= grid
        own, rest = f'%"tw.first.{i.result[1:].strip(chr(34))}', line[i.end :]
        made.append(f'  {own}" = sub i32 {i.values[0]}, {WITHIN}{rest}')
        if warp:
            made.append(f'  {i.result} = {i.op} i32 {own}", {by}{rest}')
        else:
            made.append(f'  {own}.lane" = and i32 {own}", {LANES - 1}{rest}')
            made.append(f'  {i.result} = add i32 {own}.lane", {WITHIN}{rest}')
    return made, of_grid
