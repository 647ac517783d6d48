"""Parameters and types in LLVM text.

A kernel gets what is passed by value as bytes. Of classes with copy constructors, functions of the host get the address
of a copy: such parameters of kernels are marked with the number of these bytes.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from tilewright.frontend.cpp.calls import FUNCTION

_OBJECT = "tw.object"
MOST_ALIGNED = "align 64"  # for objects of any class
_BY_VALUE = re.compile(rf'\bbyval\((?P<type>.*?)\)(?= )|"{_OBJECT}"="(?P<bytes>\d+)"')
_INDIRECT = re.compile(
    r"^ +#dbg_declare\(ptr (?P<place>%[-\w.$]+), !(?P<variable>\d+), !DIExpression\(DW_OP_deref\)", re.M
)


def with_objects(text: str, kernels: Collection[str]) -> str:
    """The module ``text``, as the compiler wrote it, with marks at such parameters of ``kernels``."""
    metadata = dict(re.findall(r"^!(\d+) = (.*)$", text, re.M))

    def bytes_of(node: str) -> int:
        size = re.search(r"\bsize: (\d+)", metadata[node])
        inner = re.search(r"\b(?:type|baseType): !(\d+)", metadata[node])
        return int(size[1]) // 8 if size is not None else bytes_of(inner[1]) if inner is not None else 0

    def edited(match: re.Match[str]) -> str:
        head, code = match.group().split("\n", 1)
        for found in _INDIRECT.finditer(code) if match[1].strip('"') in kernels else ():
            kept = re.search(rf"^  store ptr (%[-\w.$]+), ptr {re.escape(found['place'])},", code, re.M)
            if kept is not None:
                mark = f'"{_OBJECT}"="{bytes_of(found["variable"])}" {kept[1]}'
                head = re.sub(rf"{re.escape(kept[1])}(?=[,)])", mark, head, count=1)
        return f"{head}\n{code}"

    return FUNCTION.sub(edited, text)


def by_value(parameter: str) -> str:
    """The type of what a parameter passes by value; "" if it is the address, or number, that it says."""
    found = _BY_VALUE.search(parameter)
    return "" if found is None else found["type"] or f"[{found['bytes']} x i8]"


def with_bytes(text: str) -> str:
    """The code ``text`` of kernels for GPUs, which get objects as bytes."""
    return re.sub(rf'"{_OBJECT}"="(\d+)"', rf"byval([\1 x i8]) {MOST_ALIGNED}", text)


def split_parameters(parameters: str) -> list[str]:
    """The parameters at the commas outside of brackets."""
    parts, depth = [""], 0
    for c in parameters:
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def parameter_type(parameter: str) -> str:
    """The type that a parameter begins with."""
    if parameter[0] not in "<[{":
        named = re.match(r'%"[^"]*"|\S+', parameter)
        return named[0] if named is not None else ""
    depth = 0
    for i, c in enumerate(parameter):
        depth += (c in "<[{") - (c in ">]}")
        if depth == 0:
            return parameter[: i + 1]
    return parameter


def constant(value: str) -> str:
    """A constant with ``value`` as a string of C."""
    data = value.encode()
    text = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\' else f"\\{b:02X}" for b in data)
    return f'[{len(data) + 1} x i8] c"{text}\\00"'
