"""Results that one iteration stores one after the other have places of their own in shared memory.

The copy engine stores a tile from shared memory. Triton gives all results of a kind one place there, and lets each wait
until the engine has read the one before. Where there is room, and no fewer blocks fit on a multiprocessor, only the
first waits here, for all that the last iteration left.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tilewright.backends.triton.lines import indent_of
from tilewright.backends.triton.options import RESERVED

VERSION = "1"  # of what is done, for caches

_ALLOC = re.compile(r"\s*(%\w+) = ttg\.local_alloc : \(\) -> !ttg\.memdesc<((?:\d+x)+)([a-z]+)(\d+)\w*, .*mutable>.*")
_STORE = re.compile(r"\s*ttg\.local_store %\w+(?:#\d+)?, (%\w+) : .*")
_WAIT = "ttng.async_tma_store_wait {pendings = 0 : i32"
_COPY = "ttng.async_tma_copy_local_to_global "
_FREE = "ttg.local_dealloc "


@dataclass(frozen=True)
class _Place:
    """A place in shared memory, the lines between which it exists, and those that put results there, in order."""

    name: str
    size: int
    first: int
    last: int
    stores: tuple[int, ...]


def separate(text: str, room: int) -> str:
    """The TTGIR module ``text`` where a block may have so many bytes of shared memory."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        found = _place(lines, at)
        if found is not None and _pays(lines, found, room):
            lines = _separated(lines, found)
        at += 1
    return "\n".join(lines)


def _place(lines: list[str], at: int) -> _Place | None:
    """What line ``at`` allocates, where several results are stored from there, and nothing else is done with it."""
    made = _ALLOC.fullmatch(lines[at])
    if made is None:
        return None
    name = made[1]
    end = next((k for k in range(at + 1, len(lines)) if indent_of(lines[k]) < indent_of(lines[at])), len(lines))
    uses = [k for k in range(at + 1, end) if re.search(rf"{name}\b", lines[k])]
    stores = [k for k in uses if (found := _STORE.fullmatch(lines[k])) is not None and found[1] == name]
    copies = [k for k in uses if _COPY in lines[k]]
    frees = [k for k in uses if _FREE in lines[k]]
    alike = len(stores) == len(copies) == len(frees) and 3 * len(stores) == len(uses)
    if len(stores) < 2 or not alike or not all(_WAIT in lines[k - 1] for k in stores):
        return None
    if not all(store < copy < stop for store, copy, stop in zip(stores, copies, [*stores[1:], frees[0]])):
        return None
    straight = all(
        indent_of(line) == indent_of(lines[stores[0]]) and not line.rstrip().endswith("{")
        for line in lines[stores[0] - 1 : copies[-1] + 1]
    )
    return _Place(name, _size(made), at, frees[-1], tuple(stores)) if straight else None


def _size(made: re.Match[str]) -> int:
    return math.prod(int(n) for n in made[2].split("x") if n) * int(made[4]) // 8


def _pays(lines: list[str], place: _Place, room: int) -> bool:
    """Whether there is room for more places like this one."""
    allocs = (made for line in lines[: place.last] if (made := _ALLOC.fullmatch(line)) is not None)
    before = sum(_size(made) for made in allocs) + RESERVED
    after = before + place.size * (len(place.stores) - 1)
    return 0 < (room + RESERVED) // before == (room + RESERVED) // after


def _separated(lines: list[str], place: _Place) -> list[str]:
    """All but the first result in places of their own."""
    names = [place.name, *(f"%place{place.name[1:]}_{k}" for k in range(1, len(place.stores)))]
    found = list(lines)
    found[place.first] = "\n".join(re.sub(rf"{place.name}\b", name, lines[place.first], count=1) for name in names)
    number = freed = 0
    for at in range(place.first + 1, place.last + 1):
        if at in place.stores[1:]:
            number += 1
            found[at - 1] = ""
        if _FREE in lines[at] and re.search(rf"{place.name}\b", lines[at]):
            found[at] = re.sub(rf"{place.name}\b", names[freed], lines[at])
            freed += 1
        else:
            found[at] = re.sub(rf"{place.name}\b", names[number], found[at])
    return "\n".join(found).split("\n")
