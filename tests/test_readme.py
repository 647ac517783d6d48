"""The README shows what happens."""

from __future__ import annotations

import linecache
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.frontend.cpp.toolchain import find_compiler

README = (Path(__file__).parents[1] / "README.md").read_text()
PROGRAM = re.search(r"```python\n(.*?)```", README, re.DOTALL)
CPP_PROGRAM = re.search(r"```python\n([^`]*cpp\.compile.*?)```", README, re.DOTALL)


def run(source: str) -> dict[str, Any]:
    linecache.cache["kernel.py"] = (len(source), None, source.splitlines(True), "kernel.py")
    namespace: dict[str, Any] = {}
    exec(compile(source, "kernel.py", "exec"), namespace)
    return namespace


def test_the_kernel_runs() -> None:
    assert PROGRAM is not None
    found = run(PROGRAM[1])
    e = np.exp(found["x"] - found["x"].max(1, keepdims=True))
    np.testing.assert_allclose(found["out"], e / e.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
def test_the_kernel_in_cpp_runs() -> None:
    assert CPP_PROGRAM is not None
    np.testing.assert_array_equal(run(CPP_PROGRAM[1])["values"], np.arange(1000, dtype=np.float32) * 2.5)


def test_the_mistake_is_reported_as_shown() -> None:
    assert PROGRAM is not None
    with pytest.raises(ct.TileTypeError) as caught:
        run(PROGRAM[1].replace("(row, 0), (1, TILE), padding_mode=ct.PaddingMode.NEG_INF)", "(row,), (1, TILE))"))
    shown = [line[4:] for line in README.splitlines() if line.startswith("    ")]
    start = next(i for i, line in enumerate(shown) if line.startswith("kernel.py:"))
    lines = str(caught.value).splitlines()
    assert shown[start : start + 4] == lines[:4]
