"""Results that are stored one after the other have buffers of their own in shared memory.

The TMA unit stores a tile from shared memory. Triton gives all results of a kind one buffer there, and lets each wait
until the TMA unit has read the one before. Where there is room, and no fewer blocks fit on an SM, there is one
wait for all here: in a loop the first result waits for all that the last iteration left, elsewhere the last one waits
for all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.backends.triton.heuristics import RESERVED
from tilewright.backends.triton.lines import indent_of

_ALLOC = re.compile(r"\s*(%\w+) = ttg\.local_alloc : \(\) -> !ttg\.memdesc<((?:\d+x)+)([a-z]+)(\d+)\w*, .*mutable>.*")
_FILLED = re.compile(
    r"\s*(?P<name>%\w+) = ttg\.local_alloc %[\w#]+ : .* -> "
    r"(?P<type>!ttg\.memdesc<((?:\d+x)+)([a-z]+)(\d+)\w*, [^>]*>).*"
)
_STORE = re.compile(r"\s*ttg\.local_store %\w+(?:#\d+)?, (%\w+) : .*")
_WAIT = "ttng.async_tma_store_wait {pendings = 0 : i32"
_COPIED = re.compile(r"\s*ttng\.async_tma_copy_local_to_global %[\w#]+\[.*\] (%\w+) : .*")
_COPY = "ttng.async_tma_copy_local_to_global "
_FREE = "ttg.local_dealloc "


@dataclass(frozen=True)
class _SharedBuffer:
    """A buffer in shared memory, the lines between which it exists, and those that put results there, in order."""

    name: str
    size: int
    first: int
    last: int
    stores: tuple[int, ...]


def buffer_epilogues(text: str, room: int) -> str:
    """The TTGIR module ``text`` where a block may have so many bytes of shared memory."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        found = _shared_buffer(lines, at)
        if found is not None and _pays(lines, found, room):
            lines = _separated(lines, found)
        at += 1
    for results in _in_a_row(lines):
        if _fit(lines, results, room):
            _wait_for_all(lines, results)
    return "\n".join(lines)


def _shared_buffer(lines: list[str], at: int) -> _SharedBuffer | None:
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
    straight = _is_straight(lines[stores[0] - 1 : copies[-1] + 1])
    return _SharedBuffer(name, _size(made), at, frees[-1], tuple(stores)) if straight else None


def _size(made: re.Match[str]) -> int:
    shape, _, bits = made.groups()[-3:]
    return math.prod(int(n) for n in shape.split("x") if n) * int(bits) // 8


def _taken(line: str) -> int:
    """The bytes that ``line`` allocates, to be filled later."""
    made = _ALLOC.fullmatch(line)
    return _size(made) if made is not None else 0


def _as_many_blocks(before: int, after: int, room: int) -> bool:
    """Whether blocks of ``after`` bytes fit, and as many of them as of ``before`` bytes."""
    return 0 < (room + RESERVED) // (before + RESERVED) == (room + RESERVED) // (after + RESERVED)


def _pays(lines: list[str], buffer: _SharedBuffer, room: int) -> bool:
    """Whether there is room for more buffers like this one."""
    before = sum(map(_taken, lines[: buffer.last]))
    return _as_many_blocks(before, before + buffer.size * (len(buffer.stores) - 1), room)


def _separated(lines: list[str], buffer: _SharedBuffer) -> list[str]:
    """All but the first result in buffers of their own."""
    names = [buffer.name, *(f"%place{buffer.name[1:]}_{k}" for k in range(1, len(buffer.stores)))]
    found = list(lines)
    found[buffer.first] = "\n".join(re.sub(rf"{buffer.name}\b", name, lines[buffer.first], count=1) for name in names)
    number = freed = 0
    for at in range(buffer.first + 1, buffer.last + 1):
        if at in buffer.stores[1:]:
            number += 1
            found[at - 1] = ""
        if _FREE in lines[at] and re.search(rf"{buffer.name}\b", lines[at]):
            found[at] = re.sub(rf"{buffer.name}\b", names[freed], lines[at])
            freed += 1
        else:
            found[at] = re.sub(rf"{buffer.name}\b", names[number], found[at])
    return "\n".join(found).split("\n")


@dataclass(frozen=True)
class _Result:
    """A result that is put in a buffer of its own, and the lines that do this and that wait until it is stored."""

    name: str
    type: str
    size: int
    filled: int
    wait: int


def _in_a_row(lines: list[str]) -> Iterator[list[_Result]]:
    """The results that each straight line stores."""
    row: list[_Result] = []
    for at, line in enumerate(lines):
        found = _result(lines, at) if _WAIT in line else None
        if found is None:
            continue
        if row and not _is_straight(lines[row[-1].wait : at + 1]):
            yield row
            row = []
        row.append(found)
    yield row


def _result(lines: list[str], wait: int) -> _Result | None:
    """The result that line ``wait`` waits for, where nothing else is done with its buffer."""
    copy = _COPIED.fullmatch(lines[wait - 1])
    uses = [k for k, line in enumerate(lines) if copy is not None and re.search(rf"{copy[1]}\b", line)]
    made = _FILLED.fullmatch(lines[uses[0]]) if len(uses) == 2 and uses[1] == wait - 1 else None
    return _Result(made["name"], made["type"], _size(made), uses[0], wait) if made is not None else None


def _is_straight(lines: list[str]) -> bool:
    return all(indent_of(line) == indent_of(lines[0]) and not line.rstrip().endswith("{") for line in lines if line)


def _fit(lines: list[str], row: list[_Result], room: int) -> bool:
    """Whether there is room for all results of ``row`` at a time."""
    if len(row) < 2:
        return False
    before = lines[: row[0].filled]
    freed = {name for line in before for name in re.findall(rf"{_FREE}(%\w+)", line)}
    left = sum(_taken(line) for line in before if line.split(" = ", 1)[0].strip() not in freed)
    most, sizes = sum(map(_taken, before)), [r.size for r in row]
    return _as_many_blocks(max(most, left + max(sizes)), max(most, left + sum(sizes)), room)


def _wait_for_all(lines: list[str], row: list[_Result]) -> None:
    """The buffers exist until the wait after the last result, which is the only one."""
    for result in row[:-1]:
        lines[result.wait] = ""
    end = lines[row[-1].wait]
    indent = " " * indent_of(end)
    lines[row[-1].wait] = "\n".join([end, *(f"{indent}{_FREE}{r.name} : {r.type}" for r in row)])
