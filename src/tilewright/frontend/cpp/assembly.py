"""Inline PTX in SIMT code. What any processor has, such as the coordinates of a thread, becomes C++; of the rest a mark
is left: kernels that lead there are refused, and libraries keep what nobody uses."""

from __future__ import annotations

import re

from tilewright.frontend.cpp.attributes import blank, closing, mask
from tilewright.frontend.cpp.source import DEVICE, bodies

_STATEMENT = re.compile(r"\b(?:asm|__asm__|__asm)\b(?:\s|volatile|__volatile__|inline|goto)*(?=\()")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_OPERAND = re.compile(r'\s*(?:\[\w+\]\s*)?"[^"]*"\s*(?=\()')
_BIT = "(1u << ::__tw_simt::lane())"
_COORDINATES = {"tid": "threadIdx", "ntid": "blockDim", "ctaid": "blockIdx", "nctaid": "gridDim"}
_REGISTERS = {f"{name}.{axis}": f"{variable}.{axis}" for name, variable in _COORDINATES.items() for axis in "xyz"} | {
    "laneid": "::__tw_simt::lane()",
    "warpid": "(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32",
    "lanemask_eq": _BIT,
    "lanemask_lt": f"{_BIT} - 1",
    "lanemask_le": f"{_BIT} * 2 - 1",
    "lanemask_ge": f"~({_BIT} - 1)",
    "lanemask_gt": f"~({_BIT} * 2 - 1)",
    "clock": "clock()",
    "clock64": "clock64()",
}
_INSTRUCTIONS = {  # and the C++ with what the operands are
    r"mov\.[bu](?:32|64) %0, %([a-z_\d.]+)": "{0} = {register}",
    r"activemask\.b32 %0": "{0} = ::__activemask()",
    r"(?:prefetchu?|applypriority|discard|griddepcontrol)\b.*": "(void)0",
    r"(?:membar|fence)\.[\w.]+": "::__threadfence()",
    r"bar(?:rier)?\.sync(?:\.aligned)? 0": "::__syncthreads()",
    r"nanosleep\.u32 %0": "::__nanosleep({0})",
    r"trap": "::__trap()",
}


def without_assembly(text: str) -> str:
    """``text`` with C++, or a mark, in place of each statement of inline assembly in SIMT code."""
    masked, found = mask(text), dict[int, tuple[int, int]]()
    for match, start, end in bodies(masked, DEVICE):
        if "tile" not in match.group():
            for each in _STATEMENT.finditer(masked, start, end):
                found[each.start()] = each.end() + 1, closing(masked, each.end(), "()")
    for begin, (start, end) in sorted(found.items(), reverse=True):
        made = _as_cpp(text[start:end], masked[start:end]) or "::__tw_no_assembly()"
        text = f"{text[:begin]}{made}{blank(text[begin : end + 1])}{text[end + 1 :]}"
    return text


def _as_cpp(text: str, masked: str) -> str | None:
    """The C++ for what stands between the brackets of a statement; None where there is none."""
    depth, ends = 0, list[int]()
    for i, c in enumerate(masked):
        depth += (c == "(") - (c == ")")
        if c == ":" and not depth:
            ends.append(i)
    parts = [text[i:j] for i, j in zip([0, *(e + 1 for e in ends)], [*ends, len(text)])]
    written = "".join(re.sub(r"\\(?:.|\n)", " ", each[1:-1]) for each in _STRING.findall(parts[0]))  # without escapes
    instruction = re.sub(r"\s+", " ", written.replace("%%", "%")).strip(" ;{}")
    operands = [
        part[m.end() : closing(part, m.end(), "()") + 1] for part in parts[1:3] for m in _OPERAND.finditer(part)
    ]
    for pattern, cpp in _INSTRUCTIONS.items():
        match = re.fullmatch(pattern, instruction)
        if match is not None and (not match.groups() or match[1] in _REGISTERS):
            return cpp.format(*operands, register=_REGISTERS[match[1]] if match.groups() else "")
    return None
