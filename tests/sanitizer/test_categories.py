"""Every category is found where it is violated, and nothing is found in the nearest kernel that does not violate it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support import sanitizer_runs as runs
from support.sanitizer_cases import CPP, PYTHON, Case
from support.sanitizer_table import committed, measured, table

import tilewright as ct
from tilewright.ir.core import Function
from tilewright.sanitizer import CATEGORIES, Violation
from tilewright.sanitizer.categories import category

needs_compiler = pytest.mark.skipif(not runs.HAS_COMPILER, reason="Tile C++ needs a compiler: tilewright[cpp]")


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


@pytest.fixture(scope="module")
def python_kernels(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return runs.python_kernels(tmp_path_factory.mktemp("kernels"))


@pytest.mark.parametrize("number", range(len(PYTHON)), ids=[name_of(c) for c in PYTHON])
def test_python(python_kernels: Any, number: int) -> None:
    case = PYTHON[number]
    bad, good = (getattr(python_kernels, f"{kind}_{number}") for kind in ("bad", "good"))
    violations = runs.run_python(bad, case).violations
    check(case, violations, python_kernels.__file__, bad.function.__code__.co_firstlineno + 3)
    assert runs.run_python(good, case).clean
    assert runs.run_python(bad, case, disable=[case.category]).clean


@pytest.fixture(scope="module")
def cpp_kernels() -> dict[str, Function]:
    return runs.cpp_kernels()


@needs_compiler
@pytest.mark.parametrize("number", range(len(CPP)), ids=[name_of(c) for c in CPP])
def test_cpp(cpp_kernels: dict[str, Function], number: int) -> None:
    case = CPP[number]
    violations = runs.run_cpp(cpp_kernels[f"bad_{number}"], case).violations
    unseen = dataclasses.replace(case, statement="@")  # no file has the text, so the report shows none of it
    check(unseen, violations, "statements.cu", 4 + 8 * number + 2)
    assert runs.run_cpp(cpp_kernels[f"good_{number}"], case).clean


@needs_compiler
def test_the_size_of_a_shape() -> None:
    """What constant expressions leave undefined is found by compiling the program in its checked form."""
    for size, bad in runs.SIZES.items():
        found = [(v.category.name, v.loc.file, v.line) for v in runs.run_shape(size).violations]
        assert found == ([("shape-size-overflow", "shape.cu", 4)] if bad else [])
    overflows = runs.SHAPE.replace("SIZE", "65536")
    ct.launch(None, (1,), ct.cpp.compile(overflows).kernel("k"), (np.zeros(4, np.int32),))  # unchecked


def test_every_category_has_a_case() -> None:
    tested = {c.category for c in (*CPP, *PYTHON)}
    elsewhere = {"shape-size-overflow", "overlapping-arguments", "deadlock", "read-only", "operator-declaration"}
    elsewhere |= {"refused-launch", "unfinished-work", "host-access"}  # of programs in C++
    assert tested | elsewhere == set(CATEGORIES) and not tested & elsewhere
    assert {c.item for c in CATEGORIES.values()} == {*range(1, 32), None}


@needs_compiler
def test_the_table_of_the_page_is_current() -> None:
    assert committed() == table(measured())


@pytest.mark.parametrize(
    ("old", "new"),
    [("nan-born", "nan-generated"), ("fold-overflow", "reduction-overflow"), ("default-tile", "uninitialized-tile")],
)
def test_names_that_categories_had_before(old: str, new: str) -> None:
    with pytest.warns(FutureWarning, match=f"{old}.* is called .*{new}"):
        assert category(old) is CATEGORIES[new]
