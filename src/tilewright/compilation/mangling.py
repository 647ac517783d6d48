"""Kernel names that spell out a signature, and back: the scheme of the original, so that its users find their kernels.

``scale_Kt2_A2f32_1v16_2t1_3i16_p16_Sf32_I128``: the function, ``_K`` and the calling convention, then the parameters.
A parameter starts with a capital letter: ``A`` array (rank and dtype), ``L`` list, ``T`` tuple (number of entries,
which follow), ``S`` scalar (dtype), ``B``, ``I``, ``F`` constant (0 or 1; decimal; the bits of a float64). Of an array,
each ``_`` is followed by a set of axes, as a hexadecimal number with a bit per axis, and what is promised of these; or
by what is promised of the whole. A ``_`` before a number is its minus sign.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any

from tilewright.compilation import constraints
from tilewright.compilation.convention import CallingConvention
from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType

# letter -> (field of ArrayConstraint, what it holds where nothing is promised)
_AXIS_FACTS: dict[str, tuple[str, int | None]] = {
    "s": ("shape_constant", None),
    "i": ("shape_divisible_by", 1),
    "t": ("stride_constant", None),
    "v": ("stride_divisible_by", 1),
    "l": ("stride_lower_bound_incl", None),
}
_INDEX = {dtypes.int32: "", dtypes.int64: "w", dtypes.uint32: "u"}
# The spellings that are not those of the IR.
_SPELLED = {"i1": "b8", "f8e4m3fn": "f8m3fn", "f8e5m2": "f8m2", "f8e8m0fnu": "f8m0fnu"}
_DTYPES: dict[str, DType] = {_SPELLED.get(d.short, d.short): d for d in dtypes.ALL_DTYPES}
_NAMES = {d: name for name, d in _DTYPES.items()}
_NAME = re.compile(r"(.+)_K([a-z]\d+)(?:_([A-Za-z0-9_]+))?")


def mangle(
    function_name: str, convention: CallingConvention, parameters: Sequence[constraints.ParameterConstraint]
) -> str:
    """The mangled name; TypeError when ``function_name`` is no identifier."""
    if not isinstance(function_name, str) or not function_name.isidentifier():
        raise TypeError(f"function_name is {function_name!r}; it must be an identifier")
    numbers: dict[str, int] = {}
    for _, names in constraints.alias_groups(parameters):
        for name in names:
            numbers.setdefault(name, len(numbers))
    texts = [_mangled(p, numbers) for p in parameters]
    return "_".join([function_name, f"K{convention.code}", *texts])


def _mangled(p: constraints.ParameterConstraint, groups: dict[str, int]) -> str:
    if isinstance(p, constraints.ScalarConstraint):
        return f"S{_NAMES[p.dtype]}"
    if isinstance(p, constraints.TupleConstraint):
        return f"T{len(p.items)}" + "".join(_mangled(item, groups) for item in p.items)
    if isinstance(p, constraints.ListConstraint):
        return f"L{_group_list(p.alias_groups, groups)}{'i' * p.elements_may_alias}{_mangled(p.element, groups)}"
    if isinstance(p, constraints.ArrayConstraint):
        return _mangled_array(p, groups)
    if isinstance(p.value, bool):
        return f"B{int(p.value)}"
    return f"I{_number(p.value)}" if isinstance(p.value, int) else f"F{struct.pack('>d', p.value).hex()}"


def _mangled_array(p: constraints.ArrayConstraint, groups: dict[str, int]) -> str:
    promised: dict[int, str] = {}  # by set of axes
    for letter, (name, nothing) in _AXIS_FACTS.items():
        numbers: dict[int, int] = {}
        for axis, number in enumerate(getattr(p, name)):
            if number != nothing:
                numbers[number] = numbers.get(number, 0) | 1 << axis
        for number, axes in numbers.items():
            promised[axes] = f"{promised.get(axes, '')}{letter}{_number(number)}"
    divisor = "" if p.base_addr_divisible_by == 1 else f"p{p.base_addr_divisible_by}"
    whole = f"{divisor}{_group_list(p.alias_groups, groups)}{'i' * p.may_alias_internally}{_INDEX[p.index_dtype]}"
    parts = [f"A{p.ndim}{_NAMES[p.dtype]}", *(f"{axes:x}{promised[axes]}" for axes in sorted(promised))]
    return "_".join([*parts, *([whole] if whole else [])])


def _group_list(names: Sequence[str], groups: dict[str, int]) -> str:
    return "".join(f"g{n}" for n in sorted(groups[name] for name in names))


def _number(value: int) -> str:
    return str(value).replace("-", "_")


def demangle(symbol: str) -> tuple[str, CallingConvention, list[constraints.ParameterConstraint]]:
    """The parts of a mangled name. Alias groups are called ``group0``, ``group1``, ... ValueError for other names."""
    if not isinstance(symbol, str):
        raise TypeError(f"symbol is {symbol!r}; it must be a string")
    found = _NAME.fullmatch(symbol)
    if found is None:
        raise ValueError(f"{symbol!r} is no mangled kernel name")
    reader = _Reader(symbol, found[3] or "")
    parameters = [reader.parameter()] if reader.rest else []
    while reader.rest:
        reader.match("_", "separator")
        parameters.append(reader.parameter())
    return found[1], CallingConvention.from_code(found[2]), parameters


class _Reader:
    """Takes the parts of a mangled name one by one."""

    def __init__(self, symbol: str, rest: str) -> None:
        self.symbol = symbol
        self.rest = rest

    def error(self, why: str) -> ValueError:
        return ValueError(f"{self.symbol!r} is no mangled kernel name: {why}")

    def take(self, pattern: str) -> re.Match[str] | None:
        """What is next, if it matches."""
        found = re.match(pattern, self.rest)
        if found is not None:
            self.rest = self.rest[found.end() :]
        return found

    def match(self, pattern: str, what: str) -> re.Match[str]:
        """What is next, which must match. ValueError when it does not."""
        found = self.take(pattern)
        if found is None:
            raise self.error(f"{self.rest!r} is no {what}")
        return found

    def dtype(self, name: str) -> DType:
        if name not in _DTYPES:
            raise self.error(f"{name!r} is no dtype")
        return _DTYPES[name]

    def parameter(self) -> constraints.ParameterConstraint:
        kind = self.rest[:1]
        if kind == "A":
            return self.array()
        if kind == "L":
            found = self.match(r"L((?:g\d+)*)(i?)", "list")
            groups = _group_names(found[1])
            return constraints.ListConstraint(self.array(), alias_groups=groups, elements_may_alias=bool(found[2]))
        found = self.match(r"(?:T(\d+)|I(_?\d+)|S([a-z0-9]+)|B([01])|F([0-9a-f]{16}))", "parameter")
        if kind == "T":
            return constraints.TupleConstraint(tuple(self.parameter() for _ in range(int(found[1]))))
        if kind == "S":
            return constraints.ScalarConstraint(self.dtype(found[3]))
        if kind == "F":
            return constraints.ConstantConstraint(struct.unpack(">d", bytes.fromhex(found[5]))[0])
        return constraints.ConstantConstraint(found[4] == "1" if kind == "B" else _parsed(found[2]))

    def array(self) -> constraints.ArrayConstraint:
        head = self.match(r"A(\d+)([a-z][a-z0-9]*)", "array")
        rank = int(head[1])
        facts: dict[str, list[Any]] = {name: [nothing] * rank for name, nothing in _AXIS_FACTS.values()}
        while found := self.take(r"_([0-9a-f]+)((?:[sitvl]_?\d+)+)"):
            axes = int(found[1], 16)
            if axes >> rank:
                raise self.error(f"an array of rank {rank} has no axis {axes.bit_length() - 1}")
            for letter, number in re.findall(r"([sitvl])(_?\d+)", found[2]):
                for axis in (a for a in range(rank) if axes >> a & 1):
                    facts[_AXIS_FACTS[letter][0]][axis] = _parsed(number)
        whole = self.take(r"_(?=[pgiwu])(?:p(\d+))?((?:g\d+)*)(i?)([wu]?)")
        divisor, groups, aliases, index = whole.groups() if whole else (None, "", "", "")
        return constraints.ArrayConstraint(
            self.dtype(head[2]),
            rank,
            index_dtype=next(d for d, letter in _INDEX.items() if letter == index),
            alias_groups=_group_names(groups),
            may_alias_internally=bool(aliases),
            base_addr_divisible_by=int(divisor or 1),
            **facts,
        )


def _parsed(number: str) -> int:
    return int(number.replace("_", "-"))


def _group_names(text: str) -> tuple[str, ...]:
    return tuple(f"group{n}" for n in re.findall(r"\d+", text))
