"""Parameters and types in LLVM text."""

from __future__ import annotations


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
        return parameter.split()[0]
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
