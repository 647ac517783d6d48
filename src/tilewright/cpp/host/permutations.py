"""Exchanges of SIMT kernels whose lanes read words of lanes that are known before the kernel runs, as those of shuffles
by a constant distance: what they read is a permutation of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.cpp.host.control_flow import definitions_of
from tilewright.cpp.host.fission import Split
from tilewright.cpp.host.guards import IN_BLOCK, IN_PLANE
from tilewright.cpp.host.lanes import LANES, WITHIN
from tilewright.frontend.cpp.llvm_instruction import Instruction, instruction

_MOST = 4  # words that a lane reads; more are looked up in memory
_BYTES = {"i32": 4, "float": 4, "i64": 8, "double": 8, "half": 2, "bfloat": 2, "i16": 2, "i8": 1, "ptr": 8}
_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
}
_STEPS: Mapping[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << (b & 63),
    "lshr": lambda a, b: a >> (b & 63),
}


@dataclass(frozen=True)
class Reads:
    """What a region reads of an exchange before it: of each line that loads a word, the lanes that gave those of all
    lanes, the words of these together if the line loads a vector."""

    word: str
    lines: Mapping[str, tuple[int, ...]]


def reads(kernel: Split) -> dict[int, Reads]:
    """What regions behind exchanges read, by their numbers, if that is known. Whoever runs them has lanes that are
    neighbours along x, the first one at a multiple of their number."""
    lines = kernel.lines
    stores: dict[str, list[Instruction]] = {}
    for i in map(instruction, lines):
        if i.op == "store" and i.variable:
            stores.setdefault(i.variable, []).append(i)
    once = {n: each[0].values[0] for n, each in stores.items() if len(each) == 1 and n in kernel.allocas}
    known = _Known(definitions_of(lines), once)
    found = {}
    for k, barrier in enumerate(kernel.barriers, 1):
        if barrier.mask and barrier.fixed_mask:
            own = {line for block in kernel.regions[k] for line in block.lines}
            those = _loads(lines, barrier.result, once) if barrier.result else []
            table = None if those is None else {line: known.lanes(line, barrier.result, barrier.word) for line in those}
            if table is not None and len(table) <= _MOST and own.issuperset(table) and all(table.values()):
                found[k] = Reads(barrier.word, table)
    return found


def _loads(lines: Sequence[str], result: str, once: Mapping[str, str]) -> list[str] | None:
    """The lines that load what the pointer ``result`` leads to; None if it is used for anything else."""
    leading, found = {result}, list[str]()
    changed = True
    while changed:
        changed, found = False, []
        for line in lines:
            i = instruction(line)
            if i.result == result or leading.isdisjoint(i.names):
                continue
            if i.op == "store" and i.values[0] in leading and once.get(i.variable) == i.values[0]:
                led = i.variable
            elif i.op == "load" and (i.variable in once or i.words):
                led = i.result if i.variable in once else ""
            elif i.op == "load":
                found.append(line)
                continue
            else:
                led = i.result if i.op in ("getelementptr", "bitcast") else ""
            if not led:
                return None
            changed |= led not in leading
            leading.add(led)
    return found


class _Known:
    """Values that depend on the lane alone."""

    def __init__(self, definitions: Mapping[str, str], once: Mapping[str, str]) -> None:
        self._definitions = definitions
        self._once = once
        self._values: dict[tuple[str, int], int | None] = {}

    def lanes(self, line: str, result: str, word: str) -> tuple[int, ...]:
        """The lanes whose words ``line`` loads through the pointer ``result``; none if that is not known."""
        i, size = instruction(line), _BYTES[word]
        pointer = i.values[0]
        offsets = [self._offset(pointer, result, lane) for lane in range(LANES)]
        if i.type == f"<{LANES} x {word}>":
            return tuple(range(LANES)) if set(offsets) == {0} else ()
        if _BYTES.get(i.type, size + 1) > size or any(offset is None or offset % size for offset in offsets):
            return ()
        # What is behind the last lane, and before the first one, is read and not used.
        return tuple(offset // size % LANES for offset in offsets if offset is not None)

    def _offset(self, pointer: str, result: str, lane: int) -> int | None:
        """The bytes from ``result`` to where ``pointer`` points."""
        if pointer == result:
            return 0
        i = instruction(self._definitions.get(pointer, ""))
        if i.op == "load" and i.variable in self._once:
            return self._offset(self._once[i.variable], result, lane)
        if i.op == "bitcast":
            return self._offset(i.values[0], result, lane)
        if i.op != "getelementptr" or len(i.args) != 2 or i.type not in _BYTES:
            return None
        before, index = self._offset(i.values[0], result, lane), self._value(i.values[1], i.args[1].type, lane)
        return None if before is None or index is None else before + _BYTES[i.type] * _signed(index, i.args[1].type)

    def _value(self, value: str, type: str, lane: int) -> int | None:
        """The bits of ``value`` in ``lane``."""
        if value in ("true", "false"):
            return int(value == "true")
        if not value.startswith("%"):
            return int(value) & _ones(type) if value.lstrip("-").isdigit() else None
        if (value, lane) not in self._values:
            self._values[value, lane] = None  # what depends on itself is not known
            self._values[value, lane] = self._result(value, type, lane)
        return self._values[value, lane]

    def _result(self, value: str, type: str, lane: int) -> int | None:
        if value in ("%tw.c12", WITHIN):
            return lane
        i = instruction(self._definitions.get(value, ""))
        if i.op == "load":
            return self._value(self._once[i.variable], type, lane) if i.variable in self._once else None
        if i.op in ("zext", "sext", "trunc", "bitcast"):
            inner = self._value(i.values[0], i.type, lane)
            return None if inner is None else (_signed(inner, i.type) if i.op == "sext" else inner) & _ones(i.to)
        first = instruction(self._definitions.get(i.values[0], "")) if i.op == "and" else i
        if first.op == "sub" and first.values[1] == WITHIN and i.values[1] == str(LANES - 1):
            return 0
        if i.op == "and" and i.values[1].isdigit() and int(i.values[1]) < LANES and self._is_number(i.values[0]):
            return lane & int(i.values[1])
        if i.op not in _STEPS and i.op not in ("icmp", "select", "ashr"):
            return None
        types = ["i1", i.args[1].type, i.args[1].type] if i.op == "select" else [i.type] * len(i.args)
        values = [self._value(v, t, lane) for v, t in zip(i.values, types)]
        return _computed(i, [v for v in values if v is not None]) if None not in values else None

    def _is_number(self, value: str) -> bool:
        """Whether ``value`` is the number of a thread in its row, plane or block."""
        if value in ("%tw.c0", IN_PLANE, IN_BLOCK):
            return True
        i = instruction(self._definitions.get(value, ""))
        if i.op == "load":
            return i.variable in self._once and self._is_number(self._once[i.variable])
        return i.op == "add" and i.values[1] == "0" and self._is_number(i.values[0])


def _computed(i: Instruction, values: Sequence[int]) -> int:
    if i.op == "select":
        return values[1] if values[0] else values[2]
    if i.op == "ashr":
        return _signed(values[0], i.type) >> values[1] & _ones(i.type)
    if i.op == "icmp":
        how = next(word for word in i.words if word[-2:] in _COMPARISONS)
        a, b = (_signed(value, i.type) if how[0] == "s" else value for value in values)
        return int(_COMPARISONS[how[-2:]](a, b))
    return _STEPS[i.op](values[0], values[1]) & _ones(i.type)


def _ones(type: str) -> int:
    return (1 << int(type[1:])) - 1


def _signed(value: int, type: str) -> int:
    bits = int(type[1:])
    return value - (1 << bits) if value >> (bits - 1) else value
