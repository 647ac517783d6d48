"""Kernels without a file: of ``python -c`` and of prompts."""

from __future__ import annotations

import linecache
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tilewright as ct

COMMAND = """
import numpy as np
import tilewright as ct
@ct.kernel
def bad(x):
    ct.laod(x, (0,), (4,))
one = ct.kernel(lambda x: ct.store(x, (0,), ct.ones((4,), ct.float64)))
exec("@ct.kernel\\ndef other(x): ct.store(x, (0,), 1)")
x = np.zeros(4)
ct.launch(None, (1,), one, (x,), backend="reference")
assert x.all()
for kernel in (bad, other):
    try:
        ct.launch(None, (1,), kernel, (x,), backend="reference")
    except ct.TileError as e:
        print(e)
"""


def test_of_a_command() -> None:
    done = subprocess.run([sys.executable, "-c", COMMAND], capture_output=True, text=True, timeout=60, check=True)
    assert "<python -c>:6:5: the module tilewright has no 'laod'" in done.stdout
    assert "    6 |     ct.laod(x, (0,), (4,))" in done.stdout
    assert "the source of other() cannot be read" in done.stdout  # nor is another text shown for it


def test_of_a_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "@ct.kernel\ndef one(x):\n    ct.store(x, (0,), ct.ones((4,), ct.float64))\n"
    names: dict[str, Any] = {"ct": ct}
    exec(compile(text, "<input-7>", "exec"), names)
    kept = {"<input-7>": text.splitlines(True)}
    monkeypatch.setattr(linecache, "_getlines_from_code", lambda code: kept.get(code.co_filename, []), raising=False)
    x = np.zeros(4)
    ct.launch(None, (1,), names["one"], (x,), backend="reference")
    assert x.all()
