"""Kernel names that spell out a signature, and back.

``scale_Kt2_A2f32_x0d16v16_x1t1_zp16_Sf32_I128``: the function, ``_K`` and the calling convention, then the parameters.
A parameter starts with a capital letter: ``A`` array (rank and dtype), ``L`` list, ``T`` tuple (number of entries),
``S`` scalar (dtype), ``B``, ``I``, ``F`` constant (0 or 1; decimal; the bits of a float64). Of an array, ``x`` and an
axis hold what is promised of that axis, and ``z`` what is promised of the whole. ``n`` is the minus sign.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any

from tilewright.compilation.constraints import (
    ArrayConstraint,
    ConstantConstraint,
    ListConstraint,
    ParameterConstraint,
    ScalarConstraint,
    TupleConstraint,
    alias_groups,
)
from tilewright.compilation.convention import CallingConvention
from tilewright.ir.dtypes import ALL_DTYPES, DType, int32, int64

# letter -> (field of ArrayConstraint, what it holds where nothing is promised)
_AXIS_FACTS: dict[str, tuple[str, int | None]] = {
    "s": ("shape_constant", None),
    "d": ("shape_divisible_by", 1),
    "t": ("stride_constant", None),
    "v": ("stride_divisible_by", 1),
    "l": ("stride_lower_bound_incl", None),
}
_DTYPES: dict[str, DType] = {d.short: d for d in ALL_DTYPES}
_NAME = re.compile(r"(.+)_K([a-z]\d+)((?:_[A-Za-z0-9]+)*)")


def mangle(function_name: str, convention: CallingConvention, parameters: Sequence[ParameterConstraint]) -> str:
    """The mangled name; TypeError when ``function_name`` is no identifier."""
    if not isinstance(function_name, str) or not function_name.isidentifier():
        raise TypeError(f"function_name is {function_name!r}; it must be an identifier")
    numbers: dict[str, int] = {}
    for _, names in alias_groups(parameters):
        for name in names:
            numbers.setdefault(name, len(numbers))
    texts = [_mangled(p, numbers) for p in parameters]
    return "_".join([function_name, f"K{convention.code}", *texts])


def _mangled(p: ParameterConstraint, groups: dict[str, int]) -> str:
    if isinstance(p, ScalarConstraint):
        return f"S{p.dtype.short}"
    if isinstance(p, TupleConstraint):
        return "_".join([f"T{len(p.items)}", *(_mangled(item, groups) for item in p.items)])
    if isinstance(p, ListConstraint):
        return f"L{_group_list(p.alias_groups, groups)}{'i' * p.elements_may_alias}_{_mangled(p.element, groups)}"
    if isinstance(p, ArrayConstraint):
        return _mangled_array(p, groups)
    if isinstance(p.value, bool):
        return f"B{int(p.value)}"
    return f"I{_number(p.value)}" if isinstance(p.value, int) else f"F{struct.pack('>d', p.value).hex()}"


def _mangled_array(p: ArrayConstraint, groups: dict[str, int]) -> str:
    parts = [f"A{p.ndim}{p.dtype.short}"]
    for axis in range(p.ndim):
        facts = [(letter, getattr(p, name)[axis], default) for letter, (name, default) in _AXIS_FACTS.items()]
        text = "".join(f"{letter}{_number(value)}" for letter, value, default in facts if value != default)
        if text:
            parts.append(f"x{axis}{text}")
    divisor = "" if p.base_addr_divisible_by == 1 else f"p{p.base_addr_divisible_by}"
    flags = "i" * p.may_alias_internally + "w" * (p.index_dtype is int64)
    whole = f"{divisor}{_group_list(p.alias_groups, groups)}{flags}"
    return "_".join([*parts, *([f"z{whole}"] if whole else [])])


def _group_list(names: Sequence[str], groups: dict[str, int]) -> str:
    return "".join(f"g{n}" for n in sorted(groups[name] for name in names))


def _number(value: int) -> str:
    return str(value).replace("-", "n")


def demangle(symbol: str) -> tuple[str, CallingConvention, list[ParameterConstraint]]:
    """The parts of a mangled name. Alias groups are called ``group0``, ``group1``, ... ValueError for other names."""
    found = _NAME.fullmatch(symbol)
    if found is None:
        raise ValueError(f"{symbol!r} is no mangled kernel name")
    reader = _Reader(symbol, found[3].split("_")[1:])
    parameters = []
    while reader.tokens:
        parameters.append(reader.parameter())
    return found[1], CallingConvention.from_code(found[2]), parameters


class _Reader:
    """Takes the tokens of a mangled name one by one."""

    def __init__(self, symbol: str, tokens: list[str]) -> None:
        self.symbol = symbol
        self.tokens = tokens

    def error(self, why: str) -> ValueError:
        return ValueError(f"{self.symbol!r} is no mangled kernel name: {why}")

    def match(self, pattern: str, what: str) -> re.Match[str]:
        """The next token, which must match. ValueError, with the token, when it does not."""
        token = self.tokens.pop(0) if self.tokens else ""
        found = re.fullmatch(pattern, token)
        if found is None:
            raise self.error(f"{token!r} is no {what}")
        return found

    def dtype(self, short: str) -> DType:
        if short not in _DTYPES:
            raise self.error(f"{short!r} is no dtype")
        return _DTYPES[short]

    def parameter(self) -> ParameterConstraint:
        kind = self.tokens[0][:1] if self.tokens else ""
        if kind == "A":
            return self.array()
        if kind == "L":
            found = self.match(r"L((?:g\d+)*)(i?)", "list")
            groups = _group_names(found[1])
            return ListConstraint(self.array(), alias_groups=groups, elements_may_alias=bool(found[2]))
        found = self.match(r"(?:[TI](n?\d+)|S(\w+)|B([01])|F([0-9a-f]{16}))", "parameter")
        if kind == "T":
            return TupleConstraint(tuple(self.parameter() for _ in range(int(found[1]))))
        if kind == "S":
            return ScalarConstraint(self.dtype(found[2]))
        if kind == "F":
            return ConstantConstraint(struct.unpack(">d", bytes.fromhex(found[4]))[0])
        return ConstantConstraint(found[3] == "1" if kind == "B" else _parsed(found[1]))

    def array(self) -> ArrayConstraint:
        head = self.match(r"A(\d+)([a-z]\w*)", "array")
        rank = int(head[1])
        facts: dict[str, list[Any]] = {name: [default] * rank for name, default in _AXIS_FACTS.values()}
        while self.tokens and self.tokens[0].startswith("x"):
            found = self.match(r"x(\d+)((?:[sdtvl]n?\d+)+)", "axis")
            axis = int(found[1])
            if axis >= rank:
                raise self.error(f"an array of rank {rank} has no axis {axis}")
            for letter, number in re.findall(r"([sdtvl])(n?\d+)", found[2]):
                facts[_AXIS_FACTS[letter][0]][axis] = _parsed(number)
        whole = ["", "", "", ""]
        if self.tokens and self.tokens[0].startswith("z"):
            found = self.match(r"z(?:p(\d+))?((?:g\d+)*)(i?)(w?)", "property of an array")
            whole = [text or "" for text in found.groups()]
        return ArrayConstraint(
            self.dtype(head[2]),
            rank,
            index_dtype=int64 if whole[3] else int32,
            alias_groups=_group_names(whole[1]),
            may_alias_internally=bool(whole[2]),
            base_addr_divisible_by=int(whole[0] or 1),
            **facts,
        )


def _parsed(number: str) -> int:
    return int(number.replace("n", "-"))


def _group_names(text: str) -> tuple[str, ...]:
    return tuple(f"group{n}" for n in re.findall(r"\d+", text))
