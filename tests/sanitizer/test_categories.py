"""Every category is found where it is violated, and nothing is found in the nearest kernel that does not violate it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.sanitizer_cases import CPP, PYTHON, Case

import tilewright as ct
from tilewright.backends.base import Buffer, LaunchArguments, get_backend
from tilewright.cli.files import load_module
from tilewright.frontend.cpp.toolchain import find_compiler
from tilewright.ir.core import Function
from tilewright.ir.dtypes import int32
from tilewright.ir.errors import TileUndefinedError
from tilewright.sanitizer import CATEGORIES, Report, Violation

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="Tile C++ needs a compiler: tilewright[cpp]")


def name_of(case: Case) -> str:
    return f"{case.category}: {case.statement}"


def check(case: Case, violations: Sequence[Violation], file: str, line: int) -> None:
    """The report of the violating kernel, field by field."""
    assert [v.category.name for v in violations] == [case.category], violations
    (found,) = violations
    assert (found.loc.file, found.line) == (file, line), str(found)
    assert found.block == (case.blocks - 1, 0, 0)
    assert found.section.startswith(found.category.document) and found.message
    if case.element is not None:
        assert found.element == case.element
    if case.operands is not None:
        assert found.operands == case.operands
    if case.index is not None:
        assert found.place is not None and found.place.index == case.index, found.place
        assert found.place.outside == case.outside or not case.outside
    if case.message:
        assert found.message == case.message
    text = found.render()
    assert case.category in text and f":{line}:" in text and case.statement.split("@")[0].strip() in text


# -- Python


@pytest.fixture(scope="module")
def python_kernels(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A module with the kernels ``bad_i`` and ``good_i`` of every case, whose statement is four lines below its decorator."""
    lines = ["import tilewright as ct"]
    for i, case in enumerate(PYTHON):
        for kind, value in (("bad", case.bad), ("good", case.good)):
            lines += ["@ct.kernel", f"def {kind}_{i}(x, m, f):"]
            lines += [f"    {(text or 'pass').replace('@', value)}" for text in (case.before, case.statement)]
    path = tmp_path_factory.mktemp("kernels") / "statements.py"
    path.write_text("\n".join(lines) + "\n")
    return load_module(path)


def run_python(kernel: Any, case: Case, **options: Any) -> Report:
    x, m = np.arange(-3, 5, dtype=np.int32), np.zeros((3, 5), np.int32)
    f = (np.arange(8) * 1e9).astype(np.float32)
    with ct.sanitize(enable=case.enable, **options) as report:
        ct.launch(None, (case.blocks,), kernel, (x, m, f))
    return report


@pytest.mark.parametrize("number", range(len(PYTHON)), ids=[name_of(c) for c in PYTHON])
def test_python(python_kernels: Any, number: int) -> None:
    case = PYTHON[number]
    bad, good = (getattr(python_kernels, f"{kind}_{number}") for kind in ("bad", "good"))
    report = run_python(bad, case)
    check(case, report.violations, python_kernels.__file__, bad.function.__code__.co_firstlineno + 3)
    assert run_python(good, case).clean
    assert run_python(bad, case, disable=[case.category]).clean


# -- Tile C++

INCLUDES = '#include "cuda_tile.h"\nnamespace ct = cuda::tiles;\nusing namespace ct::literals;\n'


@pytest.fixture(scope="module")
def cpp_kernels() -> dict[str, Function]:
    """The kernels ``bad_i`` and ``good_i``, four lines each."""
    frontend = pytest.importorskip("tilewright.frontend.cpp.module")
    text, names = INCLUDES, []
    for i, case in enumerate(CPP):
        for kind, value in (("bad", case.bad), ("good", case.good)):
            body = f"{case.before}\n{case.statement}".replace("@", value)
            text += f"__tile_global__ void {kind}_{i}(int* p, int* o) {{\n{body}\n}}\n"
            names.append(f"{kind}_{i}")
    module = frontend.Module(text, "statements.cu", defines={"TW_CHECKED": 1})
    return {name: k.function for name, k in zip(names, module.load(*names))}


def run_cpp(function: Function, case: Case) -> Report:
    arrays = {"p": np.arange(-32, 32, dtype=np.int32), "o": np.zeros(64, np.int32)}
    addresses = [a.ctypes.data for a in arrays.values()]
    buffers = [Buffer(n, a, a, a + 256, int32, True, (64,), (1,)) for n, a in zip(arrays, addresses)]
    with ct.sanitize(enable=case.enable) as report:
        executable = get_backend("sanitizer").compile(function, {})
        executable.launch((case.blocks, 1, 1), LaunchArguments(addresses, buffers))
    return report


@needs_compiler
@pytest.mark.parametrize("number", range(len(CPP)), ids=[name_of(c) for c in CPP])
def test_cpp(cpp_kernels: dict[str, Function], number: int) -> None:
    case = CPP[number]
    report = run_cpp(cpp_kernels[f"bad_{number}"], case)
    unseen = dataclasses.replace(case, statement="@")  # no file has the text, so the report shows none of it
    check(unseen, report.violations, "statements.cu", 4 + 8 * number + 2)
    assert run_cpp(cpp_kernels[f"good_{number}"], case).clean


SHAPE = """#include "cuda_tile.h"
namespace ct = cuda::tiles;
__tile_global__ void k(int* p) {
    auto s = ct::shape_size_v<ct::shape<65536, 65536, 65536, SIZE>>;
}
"""


@needs_compiler
def test_the_size_of_a_shape() -> None:
    """What constant expressions leave undefined is found by compiling the program in its checked form."""
    p = np.zeros(4, np.int32)
    for size, bad in (("65536", True), ("65535", False)):
        with ct.sanitize() as report:
            kernel = ct.cpp.compile(SHAPE.replace("SIZE", size), name="shape.cu").kernel("k")
            ct.launch(None, (1,), kernel, (p,))
        assert [(v.category.name, v.loc.file, v.line) for v in report.violations] == (
            [("shape-size-overflow", "shape.cu", 4)] if bad else []
        )
    ct.launch(None, (1,), ct.cpp.compile(SHAPE.replace("SIZE", "65536")).kernel("k"), (p,))  # unchecked
    assert issubclass(TileUndefinedError, ct.TileError)


def test_every_category_has_a_case() -> None:
    tested = {c.category for c in (*CPP, *PYTHON)}
    elsewhere = {"shape-size-overflow", "overlapping-arguments", "deadlock", "read-only"}
    assert tested | elsewhere == set(CATEGORIES) and not tested & elsewhere
    assert {c.item for c in CATEGORIES.values()} == {*range(1, 32), None}
