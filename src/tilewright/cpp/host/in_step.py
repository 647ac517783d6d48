"""Volatile stores of SIMT kernels, before and after which the lanes of a warp that are there wait for each other.

Much code was written for GPUs whose warps run in step: it reduces in shared memory, through pointers to volatile,
without ``__syncwarp``. So it gets here what it got there. Checked programs do not: CUDA calls that a race.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from tilewright.cpp.host.uniform import LOCAL
from tilewright.frontend.cpp.calls import FUNCTION

_STORE = re.compile(rf"^  store volatile [^\n]*, ptr (?P<to>{LOCAL}|@[^,\n]+)[^\n]*$", re.M)
_VARIABLE = re.compile(rf"^  ({LOCAL}) = alloca ", re.M)


def storing(text: str) -> set[str]:
    """The functions of the module ``text`` with such stores."""
    return {match[1].strip('"') for match in FUNCTION.finditer(text) if _stores(match.group())}


def in_step(text: str, kernels: Collection[str], exchange: str) -> str:
    """The module ``text`` with calls of ``exchange`` around those stores of ``kernels``."""
    call = f"call ptr @{exchange}(i32 0, i64 0, i32 4, ptr @{exchange}, i32 0)"

    def edited(match: re.Match[str]) -> str:
        function = match.group()
        for number, store in reversed(list(enumerate(_stores(function)))):
            before, after = (f"  %tw.step{number}.{side} = {call}\n" for side in ("before", "after"))
            end = store.end() + 1
            function = f"{function[: store.start()]}{before}{store.group()}\n{after}{function[end:]}"
        return function

    return FUNCTION.sub(lambda m: edited(m) if m[1].strip('"') in kernels else m.group(), text)


def _stores(function: str) -> list[re.Match[str]]:
    own = set(_VARIABLE.findall(function))  # which no other lane sees
    return [store for store in _STORE.finditer(function) if store["to"] not in own]
