"""How the work of compiling for the CPU grows with the length of a kernel, counted in calls of functions."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from tilewright.backends.cpu.compiler import compile_kernel

HEAD = """
import tilewright as ct


def helper(a, b):
    if b > 3:
        return a * b + 1
    return ct.exp(a)


@ct.kernel
def k(x, y):
    a, b, i = ct.load(x, (0,), (16,)), ct.bid(0), ct.arange(16, dtype=ct.int32)
"""
STATEMENTS = {
    "copies": "    ct.store(y, ({n},), ct.load(x, ({n},), (16,)) + {n})\n",
    "reductions": "    ct.store(y, ({n},), ct.sum(ct.load(x, ({n},), (16,)).reshape((4, 4)), axis=0))\n",
    "gathers": "    ct.scatter(y, (i + {n},), ct.gather(x, (i * {n},)))\n",
    "branches": "    if b > {n}:\n        a = a + {n}\n",
    "loops": "    for j in range(8):\n        a = a + ct.load(x, (j + {n},), (16,))\n",
    "calls": "    a = helper(a, b + {n})\n",
    "atomics": "    ct.atomic_add(y, ({n},), ct.gather(x, ({n},)))\n",
}


def calls_of_compilation(folder: Path, statement: str, count: int) -> int:
    """Of a kernel in which ``statement`` stands ``count`` times."""
    path = folder / f"of_{count}.py"
    path.write_text(HEAD + "".join(statement.format(n=n) for n in range(count)) + "    ct.store(y, (0,), a)\n")
    program: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), program)
    calls = 0

    def count_call(_frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call"

    kernel, x = program["k"], np.zeros(4096, np.float32)
    signature, _ = kernel.regions((x, x))
    sys.setprofile(count_call)
    try:
        compile_kernel(kernel.trace(signature))
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("kind", STATEMENTS)
def test_work_grows_with_the_length_of_a_kernel(kind: str, tmp_path: Path) -> None:
    counts = [calls_of_compilation(tmp_path, STATEMENTS[kind], n) for n in (2, 10, 20, 40)]
    first, second = counts[2] - counts[1], counts[3] - counts[2]
    assert first > 10 * 50 and second < 2.1 * first, counts
