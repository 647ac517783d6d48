"""PTX as text. What Triton cannot say in its forms is changed in it: parameters by value."""

from __future__ import annotations

import re
from collections.abc import Mapping


class UnexpectedPtx(Exception):
    """The PTX is not as this module expects it."""


def with_by_value_parameters(text: str, by_value_parameters: Mapping[int, int]) -> str:
    """``text`` whose parameters with these numbers are so many bytes instead of an address. UnexpectedPtx when it reads
    those addresses in another way than expected."""
    for number, size in by_value_parameters.items():
        name = rf"(\w+_param_{number})\b"
        text, declared = re.subn(
            rf"\.param \.u64 (?:\.ptr )?(?:\.global )?(?:\.align \d+ )?{name}",
            rf".param .align 64 .b8 \1[{size}]",
            text,
        )
        text, used = re.subn(rf"ld\.param\.b64(\s+%rd\d+), \[{name}\];", r"mov.b64\1, \2;", text)
        left = len(re.findall(name, text)) - declared - used
        if declared != 1 or left:
            raise UnexpectedPtx(f"{declared} declarations and {left} unknown uses of parameter {number}")
    return text
