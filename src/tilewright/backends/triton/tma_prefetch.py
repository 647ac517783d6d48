"""Loads of the TMA unit are pipelined in TTGIR, with no more memory than the tiles take; it is changed as text.

Where Triton does not pipeline a loop, each iteration starts a load and waits for it at once. Here the tile of the next
iteration is loaded into the buffer of this one as soon as the last MMA op that reads it has ended, and the wait comes
before the use. In a loop with several MMA ops, such as attention, a load has the time of the others to arrive; the
memory that a second buffer would take is better spent on another block.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.backends.triton.lines import (
    NAME,
    WAIT,
    Loop,
    carried_by,
    end_of,
    indent_of,
    innermost_loops,
    names_in,
    renamed,
    view_of,
)

_COPY = re.compile(r"\s*ttng\.async_tma_copy_global_to_local %\w+\[([^\]]*)\] (%\w+), (%\w+), (%\w+) : .*")
_SCALAR = re.compile(r"\s*(%\w+) = arith\.\w+ ")
_BRANCH = re.compile(r"(\s*)(?:%\w+(?::\d+)? = )?scf\.if (%\w+) .*\{")
_ORDERS = re.compile(r"tt\.atomic|pure = false|gpu\.barrier|ttg\.barrier|tt\.call")
_OPS = ("= ttg.local_alloc", "init_barrier", "barrier_expect", "async_tma_copy", "wait_barrier", "inval_barrier")
_MEMORY = re.compile(r" = (ttn?g\.(?!convert_layout)|scf\.)|local_")
_UNPIPELINED = "tt.num_stages"


@dataclass(frozen=True)
class _Load:
    """The lines of one load, by their numbers: ``tile`` and ``barrier`` are what they allocate."""

    tile: str
    barrier: str
    alloc: int
    made: int
    start: int
    expect: int
    copy: int
    wait: int
    end: int
    coordinates: str

    @property
    def gone(self) -> set[int]:
        return {self.alloc, self.made, self.start, self.expect, self.copy, self.wait, self.end}


def prefetch(text: str) -> str:
    """The TTGIR module ``text`` in which loads that were waited for at once are pipelined."""
    if "ttng.async_tma_copy_global_to_local " not in text:
        return text
    lines = text.split("\n")
    for loop in reversed(innermost_loops(lines)):
        ordered = any(_ORDERS.search(line) for line in lines[loop.head : loop.end])
        if _UNPIPELINED not in lines[loop.end] and not ordered:
            lines = _prefetched(lines, loop)
    return "\n".join(_late_waits(_early_starts(lines)))


def has_load_at_once(lines: list[str], loop: Loop) -> bool:
    """Whether ``loop`` has a load that cannot be pipelined, so that each iteration waits for it where it starts."""
    body, carried = range(loop.head + 1, loop.end), carried_by(lines[loop.head])
    loads = _loads(lines, loop.head + 1, loop.end, loop.indent + "  ")
    return any(_scalars(lines, load, body, carried) is None for load in loads)


def _loads(lines: list[str], first: int, last: int, indent: str) -> list[_Load]:
    """The loads of the block between two lines that are waited for at once."""
    found: list[_Load] = []
    for at in range(first, last):
        copy = _COPY.match(lines[at])
        if copy is None or not lines[at].startswith(indent + "ttng"):
            continue
        coordinates, tile, barrier, _ = copy.groups()
        uses = [i for i in range(first, last) if barrier in names_in([lines[i]])]
        allocs = [i for i in range(first, at) if lines[i].startswith(f"{indent}{tile} = ttg.local_alloc : () ->")]
        if len(allocs) == 1 and len(uses) == 6 and all(op in lines[i] for i, op in zip(uses, _OPS)) and uses[3] == at:
            made, start, expect, copied, wait, end = uses
            found.append(_Load(tile, barrier, allocs[0], made, start, expect, copied, wait, end, coordinates))
    return found


def _prefetched(lines: list[str], loop: Loop) -> list[str]:
    """``lines`` with the loads of ``loop`` one iteration ahead."""
    inside = loop.indent + "  "
    loads = []
    for load in _loads(lines, loop.head + 1, loop.end, inside):
        last = _last_use(lines, load, loop)
        scalars = _scalars(lines, load, range(loop.head + 1, loop.end), carried_by(lines[loop.head]))
        if last is not None and scalars is not None:
            loads.append((load, last, scalars))
    if not loads:
        return lines
    t, name = loop.type, f"%ahead{loop.head}"
    before = [
        f"{name}_one = arith.constant 1 : i32",
        f"{name}_any = arith.cmpi slt, {loop.lower}, {loop.upper} : {t}",
    ]
    top = [
        f"{name}_gone = arith.subi {loop.variable}, {loop.lower} : {t}",
        f"{name}_turn = arith.divui {name}_gone, {loop.step} : {t}",
        *([f"{name}_short = arith.trunci {name}_turn : i64 to i32"] if t == "i64" else []),
        f"{name}_parity = arith.andi {name}_{'short' if t == 'i64' else 'turn'}, {name}_one : i32",
        f"{name}_next = arith.addi {loop.variable}, {loop.step} : {t}",
        f"{name}_more = arith.cmpi slt, {name}_next, {loop.upper} : {t}",
    ]
    after, gone = [], set[int]()
    added: dict[int, list[str]] = {}
    names: dict[str, str] = {}
    for load, last, scalars in loads:
        own = {load.tile: f"{name}_tile{load.alloc}", load.barrier: f"{name}_barrier{load.made}"}
        names |= own
        before += [renamed(lines[i], own) for i in (load.alloc, load.made, load.start)]
        before += _started(lines, load, scalars, own, {loop.variable: loop.lower}, f"{name}_any", "first")
        wait = renamed(lines[load.wait], own)
        added.setdefault(load.wait, []).append(re.sub(r", %\w+", f", {name}_parity", wait, count=1))
        added.setdefault(last, []).extend(
            _started(lines, load, scalars, own, {loop.variable: f"{name}_next"}, f"{name}_more", "next")
        )
        after.append(renamed(lines[load.end], own))
        gone |= load.gone
    body = []
    for at in range(loop.head + 1, loop.end):
        body += [] if at in gone else [renamed(lines[at], names)]
        body += [inside + line.strip() for line in added.get(at, ())]
    start, along = _earliest(lines, loop, names_in(before))
    return [
        *lines[:start],
        *(lines[at] for at in along),
        *(loop.indent + line.strip() for line in before),
        *(line for at, line in enumerate(lines[start : loop.head + 1], start) if at not in along),
        *(inside + line for line in top),
        *body,
        lines[loop.end],
        *(loop.indent + line.strip() for line in after),
        *lines[loop.end + 1 :],
    ]


def _earliest(lines: list[str], loop: Loop, needed: set[str]) -> tuple[int, list[int]]:
    """How far before ``loop`` its first loads can start, and the lines that compute numbers for them and move along. It
    is no earlier than the last use of shared memory, for they may take the place of another tile."""
    at, along = loop.head, list[int]()
    while True:
        start = at - 1
        if lines[start].startswith(loop.indent + "})"):
            while not lines[start].startswith(loop.indent + "%"):
                start -= 1
        line = lines[start]
        name = NAME.match(line.strip())
        if not line.startswith(loop.indent + "%") or name is None or _MEMORY.search(line) or _ORDERS.search(line):
            return at, along
        if name[0] in needed:
            if _SCALAR.match(line) is None or "tensor<" in line:
                return at, along
            along.insert(0, start)
            needed = needed | names_in([line])
        at = start


def _started(
    lines: list[str],
    load: _Load,
    scalars: list[int],
    own: dict[str, str],
    variable: dict[str, str],
    condition: str,
    kind: str,
) -> list[str]:
    """The lines that start ``load`` where the variable of the loop has another value, if ``condition`` holds."""
    names = {**own, **variable}
    found = []
    for at in scalars:
        name = _SCALAR.match(lines[at])[1]  # type: ignore[index]
        names[name] = f"%{kind}{load.copy}_{at}"
        found.append(renamed(lines[at], names))
    starts = (renamed(lines[at], names) for at in (load.expect, load.copy))
    return [*found, *(re.sub(r", %\w+ :", f", {condition} :", line, count=1) for line in starts)]


def _scalars(lines: list[str], load: _Load, block: range, carried: Sequence[str]) -> list[int] | None:
    """The lines of a block that compute the coordinates of ``load``; None when they need more than numbers, or values
    that a loop carries."""
    inside = {m[0]: at for at in block for m in [NAME.match(lines[at].strip())] if m}
    found: set[int] = set()
    pending = NAME.findall(load.coordinates)
    while pending:
        name = pending.pop().split("#")[0]
        at = inside.get(name)
        if name in carried or (at is not None and (_SCALAR.match(lines[at]) is None or "tensor<" in lines[at])):
            return None
        if at is not None and at not in found:
            found.add(at)
            pending += NAME.findall(lines[at].split(" = ", 1)[1])
    return sorted(found)


def _last_use(lines: list[str], load: _Load, loop: Loop) -> int | None:
    """The last line of the body after which nothing reads the tile of ``load``; None when an MMA op may still run."""
    views, last, running = {load.tile}, None, set[str]()
    at = loop.head + 1
    while at < loop.end:
        end = end_of(lines, at)
        op = lines[at]
        if views & names_in(lines[at : end + 1]) and at not in load.gone:
            last = end
            if (view := view_of(op)) is not None:
                views.add(view)
            elif (wait := WAIT.match(op)) is not None:
                operands = wait[2].split(", ")
                views |= {f"{wait[1]}#{i}" for i, v in enumerate(operands) if v in views}
                running.difference_update(operands)
            elif "ttng.warp_group_dot " in op and "isAsync = true" in op:
                running.add(op.split(" = ")[0].strip())
        at = end + 1
    return None if running else last


def _early_starts(lines: list[str]) -> list[str]:
    """``lines`` in which the loads of a branch that are waited for at once start before it, where nothing before them
    orders memory."""
    at = 0
    while at < len(lines):
        branch = _BRANCH.match(lines[at])
        load = _movable(lines, at, branch[1]) if branch is not None else None
        if branch is None or load is None:
            at += 1
            continue
        grown = _before_branch(lines, *load, at, branch[2])
        at += next(i for i, line in enumerate(grown[at:]) if _BRANCH.match(line))
        lines = grown
    return lines


def _movable(lines: list[str], branch: int, indent: str) -> tuple[_Load, list[int]] | None:
    """The first load of a branch that can start before it, and the lines that compute its coordinates."""
    end = next(i for i in range(branch + 1, len(lines)) if lines[i].startswith(indent + "}"))
    for load in _loads(lines, branch + 1, end, indent + "  "):
        scalars = _scalars(lines, load, range(branch + 1, end), ())
        if scalars is not None and not any(_ORDERS.search(line) for line in lines[branch : load.copy]):
            return load, scalars
    return None


def _before_branch(lines: list[str], load: _Load, scalars: list[int], branch: int, condition: str) -> list[str]:
    """``lines`` with the start of ``load`` before the branch in line ``branch`` that ``condition`` takes."""
    indent = " " * indent_of(lines[branch])
    own = {load.tile: f"%early_tile{load.alloc}", load.barrier: f"%early_barrier{load.made}"}
    start = [renamed(lines[at], own) for at in (load.alloc, load.made, load.start)]
    start += _started(lines, load, scalars, own, {}, condition, "early")
    gone = load.gone - {load.wait}
    end = end_of(lines, branch)
    other = next(at for at in range(load.end, end + 1) if lines[at].startswith(indent + "}"))  # has names of its own
    return [
        *lines[:branch],
        *(indent + line.strip() for line in start),
        *(renamed(line, own) for at, line in enumerate(lines[branch:other], branch) if at not in gone),
        *lines[other : end + 1],
        indent + renamed(lines[load.end], own).strip(),
        *lines[end + 1 :],
    ]


def _late_waits(lines: list[str]) -> list[str]:
    """Loads outside of loops are waited for where their tiles are used, so that several are in flight."""
    body = next(at for at, line in enumerate(lines) if "tt.func " in line)
    indent = "    "
    moved: dict[int, list[str]] = {}
    gone: set[int] = set()
    for load in _loads(lines, body + 1, len(lines), indent):
        views, at = {load.tile}, load.end + 1
        while at < len(lines):
            end = end_of(lines, at)
            used = views & names_in(lines[at : end + 1])
            if used and (view := view_of(lines[at])) is not None:
                views.add(view)
            elif used:
                moved.setdefault(at, []).extend((lines[load.wait], lines[load.end]))
                gone |= {load.wait, load.end}
                break
            at = end + 1
    return [new for at, line in enumerate(lines) for new in (*moved.get(at, ()), *([] if at in gone else [line]))]
