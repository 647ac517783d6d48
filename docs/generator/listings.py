"""Listings of a kernel on its way to machine code, made when the site is built."""

from __future__ import annotations

import difflib
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as ct
from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.transforms.pipelines import OPTIMIZE

_PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LANGUAGES = {"Tile IR": "mlir", "LLVM IR": "llvm", "assembly": "gas"}
_LONGEST = 90  # lines of a listing


class Walk:
    """The kernel of a page: its programs run, and the first kernel that they define is the one that is shown."""

    def __init__(self, page: str) -> None:
        names: dict[str, Any] = {"ct": ct, "np": np, "__name__": "page"}
        self._folder = tempfile.TemporaryDirectory()
        for number, code in enumerate(_PROGRAM.findall(page)):
            path = Path(self._folder.name) / f"page_{number}.py"
            path.write_text(code, encoding="utf-8")
            with ct.use_backend("cpu"):
                exec(compile(code, str(path), "exec", dont_inherit=True), names)
        kernel = next(v for v in names.values() if isinstance(v, ct.kernel))
        self._specialization = kernel.inspect().specializations[0]
        self._key = str(kernel.inspect())

    def listing(self, name: str) -> str:
        """A stage, ``key``, or ``passes``: what each pass changed."""
        if name == "key":
            return _block(self._key, "text")
        if name == "passes":
            return self._passes()
        language = next((found for end, found in _LANGUAGES.items() if name.endswith(end)), "text")
        return _block(self._specialization.stage(name), language)

    def _passes(self) -> str:
        # Values get names, so that a pass that removes one does not renumber the rest.
        named = re.sub(r"%(\d+)", r"%v\1", print_function(self._specialization.function))
        function = parse_function(named)
        before = print_function(function).splitlines()
        parts = [f"The front end delivers {_ops(before)}."]
        for p in OPTIMIZE:
            function = p.run(function)
            after = print_function(function).splitlines()
            if after == before:
                parts.append(f"`{p.name}` changes nothing here.")
            else:
                changes = list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]
                kept = [line for line in changes if not line.startswith("@@")]
                parts.append(f"`{p.name}` leaves {_ops(after)}:\n\n{_block(chr(10).join(kept), 'diff')}")
            before = after
        return "\n\n".join(parts)


def _ops(lines: list[str]) -> str:
    return f"{sum('(' in line for line in lines[1:])} ops"


def _block(text: str, language: str) -> str:
    lines = text.rstrip().splitlines()
    if len(lines) > _LONGEST:
        lines = [*lines[:_LONGEST], f"... {len(lines) - _LONGEST} more lines ..."]
    return "\n".join([f"```{language}", *lines, "```"])
