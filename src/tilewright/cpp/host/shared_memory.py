"""Atomic and volatile accesses of split SIMT kernels to shared memory, as plain ones.

The threads of a block, which alone have it, run on one thread of the machine, and one after the other, or in step, from
one barrier to the next; volatile accesses are between barriers of their own (``in_step``).
"""

from __future__ import annotations

from collections import defaultdict

from tilewright.cpp.host.control_flow import definitions_of
from tilewright.frontend.cpp.llvm_instruction import Instruction, instruction
from tilewright.frontend.cpp.llvm_module import parts_of

OWN = "%tw.shared"  # how the names begin of values between which and memory other threads may be
_STEPS = ("add", "sub", "and", "or", "xor", "fadd", "fsub")
_COMPARED = {"max": "sgt", "min": "slt", "umax": "ugt", "umin": "ult"}
_UPDATES = {*_STEPS, *_COMPARED, "xchg"}  # what others do stays atomic
_ORDERS = (" monotonic", " acquire", " release", " seq_cst")


def changing(text: str) -> set[str]:
    """The functions of the module ``text`` with such atomic operations."""
    functions = parts_of(text).functions.values()
    return {each.name for each in functions if " = atomicrmw " in each.text or " = cmpxchg " in each.text}


def with_plain_accesses(function: str) -> str:
    """A kernel with such accesses in the place of those that are atomic or volatile."""
    lines = function.split("\n")
    definitions = definitions_of(lines)
    stored: defaultdict[str, list[str]] = defaultdict(list)
    for i in map(instruction, lines):
        if i.op == "store" and i.variable and i.type == "ptr":
            stored[i.variable].append(i.values[0])

    def is_shared(pointer: str) -> bool:
        seen = set[str]()
        while pointer not in seen:
            seen.add(pointer)
            i = instruction(definitions.get(pointer, ""))
            if i.variable and len(stored[i.variable]) == 1:
                pointer = stored[i.variable][0]
            elif i.op in ("getelementptr", "bitcast", "addrspacecast"):
                pointer = i.values[0]
        return i.callee.startswith("llvm.threadlocal.address.")

    def edited(number: int, line: str) -> str:
        i, own = instruction(line), f"{OWN}{number}"
        if i.pointer is None or not is_shared(i.pointer.value):
            return line
        if i.op in ("load", "store") and i.words:
            return _unordered(line, i)
        relaxed = i.words.isdisjoint(("acquire", "release", "acq_rel", "seq_cst"))
        if i.op == "atomicrmw" and relaxed and (how := next(iter(i.words & _UPDATES), "")):
            return "\n".join(_updated(own, i, how, line[i.end :]))
        return "\n".join(_exchanged(own, i, line[i.end :])) if i.op == "cmpxchg" and relaxed else line

    return "\n".join(edited(number, line) for number, line in enumerate(lines))


def _unordered(line: str, i: Instruction) -> str:
    """An atomic or volatile load or store as a plain one."""
    for word in (" atomic", " volatile", *_ORDERS):
        line = line.replace(word, "", 1) if word[1:] in i.words else line
    return line


def _updated(own: str, i: Instruction, how: str, rest: str) -> list[str]:
    to, value = i.args
    type, end = value.type, f"ptr {to.value}, align {i.alignment}{rest}"
    lines = [f"  {own}.old = load {type}, {end}"]
    if how in _COMPARED:
        lines += [f"  {own}.more = icmp {_COMPARED[how]} {type} {own}.old, {value.value}"]
        lines += [f"  {own}.new = select i1 {own}.more, {type} {own}.old, {type} {value.value}"]
    elif how == "xchg":
        lines += [f"  {own}.new = bitcast {type} {value.value} to {type}"]
    else:
        lines += [f"  {own}.new = {how} {type} {own}.old, {value.value}"]
    return [*lines, f"  store {type} {own}.new, {end}", f"  {i.result} = bitcast {type} {own}.old to {type}"]


def _exchanged(own: str, i: Instruction, rest: str) -> list[str]:
    to, old, new = i.args
    type, end = old.type, f"ptr {to.value}, align {i.alignment}{rest}"
    return [
        f"  {own}.old = load {type}, {end}",
        f"  {own}.same = icmp eq {type} {own}.old, {old.value}",
        f"  {own}.new = select i1 {own}.same, {type} {new.value}, {type} {own}.old",
        f"  store {type} {own}.new, {end}",
        f"  {own}.half = insertvalue {{ {type}, i1 }} poison, {type} {own}.old, 0",
        f"  {i.result} = insertvalue {{ {type}, i1 }} {own}.half, i1 {own}.same, 1",
    ]
