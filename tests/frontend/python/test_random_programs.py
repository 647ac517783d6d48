"""Random programs of loops, branches, early exits and calls compute as tile code what they compute in Python."""

from __future__ import annotations

import ast
import linecache
from typing import Any

import numpy as np
import pytest
from support.kernel_runs import seeds
from support.program_generator import ProgramGenerator

import tilewright as ct

INPUTS = ((0, 1), (5, 3), (-4, 8), (17, -2))


class TooLarge(Exception):
    """A value that an int32 cannot hold: Python's integers would go on, tile code wraps."""


class _Checked(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        return ast.copy_location(ast.Call(ast.Name("checked", ast.Load()), [node], []), node)


def checked(value: int) -> int:
    if not -(2**31) <= value < 2**31:
        raise TooLarge
    return value


def in_python(source: str, n: int, m: int) -> tuple[int, ...]:
    namespace: dict[str, Any] = {"checked": checked, "ct": ct}
    tree = ast.fix_missing_locations(_Checked().visit(ast.parse(source)))
    exec(compile(tree, "<program>", "exec"), namespace)
    result: tuple[int, ...] = namespace["program"](n, m)
    return result


def as_kernel(source: str, seed: int) -> Any:
    source += "def kernel(out, n, m):\n    results = program(n, m)\n"
    source += "".join(f"    ct.store(out, ({i},), results[{i}])\n" for i in range(3))
    filename = f"<random program {seed}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    namespace: dict[str, Any] = {"ct": ct}
    exec(compile(source, filename, "exec"), namespace)
    return ct.kernel(namespace["kernel"])


@pytest.mark.parametrize("seed", seeds(20))
def test_same_as_python(seed: int) -> None:
    source = ProgramGenerator(seed).source()
    try:
        expected = [in_python(source, n, m) for n, m in INPUTS]
    except TooLarge:
        pytest.skip("a value leaves the range of int32")
    kernel = as_kernel(source, seed)
    for backend in ("reference", "cpu", "python"):
        with ct.use_backend(backend):
            for (n, m), values in zip(INPUTS, expected):
                out = np.full(3, -7, np.int32)
                ct.launch(None, (1,), kernel, (out, n, m))
                assert tuple(out.tolist()) == values, (backend, n, m)
