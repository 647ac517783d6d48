"""Atomic and volatile accesses of split SIMT kernels to shared memory, as plain ones.

The threads of a block, which alone have it, run on one thread of the machine, and one after the other, or in step, from
one barrier to the next; volatile accesses are between barriers of their own (``in_step``).
"""

from __future__ import annotations

import re
from collections import defaultdict

from tilewright.cpp.host.control_flow import definitions_of
from tilewright.cpp.host.uniform import ACCESS, LOCAL
from tilewright.frontend.cpp.calls import FUNCTION

OWN = "%tw.shared"  # how the names begin of values between which and memory other threads may be
_STEPS = {name: f"{name} {{type}} {{old}}, {{value}}" for name in ("add", "sub", "and", "or", "xor", "fadd", "fsub")}
_COMPARED = {"max": "sgt", "min": "slt", "umax": "ugt", "umin": "ult"}
_HOW = "|".join((*_STEPS, *_COMPARED, "xchg"))  # what others do stays atomic
_ATOMIC = re.compile(
    rf"^  (?P<result>{LOCAL}) = atomicrmw (?:volatile )?(?P<how>{_HOW}) ptr (?P<to>{LOCAL}|@[^,]+), (?P<type>\w+) "
    r"(?P<value>[^,]+) monotonic, (?P<align>align \d+)(?P<rest>.*)$"
)
_EXCHANGE = re.compile(
    rf"^  (?P<result>{LOCAL}) = cmpxchg (?:weak )?(?:volatile )?ptr (?P<to>{LOCAL}|@[^,]+), (?P<type>\w+) "
    r"(?P<old>[^,]+), \w+ (?P<new>[^,]+) monotonic monotonic, (?P<align>align \d+)(?P<rest>.*)$"
)
_CHANGES = re.compile(r" = (?:atomicrmw|cmpxchg) ")
_ORDER = re.compile(r" (?:monotonic|acquire|release|seq_cst)(?=, align)")
_ORDERED = re.compile(r"^  (?:[^ ]+ = load|store) (?P<how>atomic |volatile )+.*, ptr (?P<to>[^ ,]+)")
_SHARED = re.compile(r" = (?:tail )?call [^@]*@llvm\.threadlocal\.address\.")
_BASE = re.compile(rf" = (?:getelementptr [^,]*, ptr|bitcast ptr|addrspacecast ptr) (?P<base>{LOCAL})(?=[, ]|$)")


def changing(text: str) -> set[str]:
    """The functions of the module ``text`` with such atomic operations."""
    return {match[1].strip('"') for match in FUNCTION.finditer(text) if _CHANGES.search(match[0])}


def with_plain_accesses(function: str) -> str:
    """A kernel with such accesses in the place of those that are atomic or volatile."""
    lines = function.split("\n")
    definitions = definitions_of(lines)
    stored: defaultdict[str, list[str]] = defaultdict(list)
    for line in lines:
        access = ACCESS.match(line)
        if access is not None and line.startswith("  store ptr "):
            stored[access["name"]].append(line.split()[2].rstrip(","))

    def is_shared(pointer: str) -> bool:
        line = definitions.get(pointer, "")
        if _SHARED.search(line):
            return True
        access, base = ACCESS.match(line), _BASE.search(line)
        if access is not None:
            values = stored[access["name"]]
            return len(values) == 1 and is_shared(values[0])
        return base is not None and is_shared(base["base"])

    def edited(number: int, line: str) -> str:
        own = f"{OWN}{number}"
        if (found := _ORDERED.match(line)) is not None and is_shared(found["to"]):
            return _ORDER.sub("", line.replace(f" {found['how']}", " ", 1))
        if (found := _ATOMIC.match(line)) is not None and is_shared(found["to"]):
            return "\n".join(_updated(own, found))
        if (found := _EXCHANGE.match(line)) is not None and is_shared(found["to"]):
            return "\n".join(_exchanged(own, found))
        return line

    return "\n".join(edited(number, line) for number, line in enumerate(lines))


def _updated(own: str, found: re.Match[str]) -> list[str]:
    how, type, value, rest = found["how"], found["type"], found["value"], found["rest"]
    same = f"bitcast {type} {own}.old to {type}"
    lines = [f"  {own}.old = load {type}, ptr {found['to']}, {found['align']}{rest}"]
    if how in _COMPARED:
        lines += [f"  {own}.more = icmp {_COMPARED[how]} {type} {own}.old, {value}"]
        lines += [f"  {own}.new = select i1 {own}.more, {type} {own}.old, {type} {value}"]
    elif how == "xchg":
        lines += [f"  {own}.new = bitcast {type} {value} to {type}"]
    else:
        lines += [f"  {own}.new = {_STEPS[how].format(type=type, old=f'{own}.old', value=value)}"]
    lines += [f"  store {type} {own}.new, ptr {found['to']}, {found['align']}{rest}"]
    return [*lines, f"  {found['result']} = {same}"]


def _exchanged(own: str, found: re.Match[str]) -> list[str]:
    type, rest = found["type"], found["rest"]
    return [
        f"  {own}.old = load {type}, ptr {found['to']}, {found['align']}{rest}",
        f"  {own}.same = icmp eq {type} {own}.old, {found['old']}",
        f"  {own}.new = select i1 {own}.same, {type} {found['new']}, {type} {own}.old",
        f"  store {type} {own}.new, ptr {found['to']}, {found['align']}{rest}",
        f"  {own}.half = insertvalue {{ {type}, i1 }} poison, {type} {own}.old, 0",
        f"  {found['result']} = insertvalue {{ {type}, i1 }} {own}.half, i1 {own}.same, 1",
    ]
