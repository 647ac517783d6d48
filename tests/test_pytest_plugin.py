"""``pytest --tile-check`` on small test suites."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SUITE = """\
import numpy as np
import pytest
import tilewright as ct


@ct.kernel
def divide(x, d, out):
    ct.store(out, (0,), ct.load(x, (0,), (4,)) // d)


def launch(d):
    x = np.arange(4, dtype=np.int32)
    ct.launch(None, (1,), divide, (x, d, np.zeros_like(x)))


def test_defined():
    launch(2)


def test_undefined():
    launch(0)


def test_undefined_and_wrong():
    launch(0)
    assert 1 == 2


@pytest.mark.tile_check(False)
def test_exempt():
    launch(0)


@pytest.mark.tile_check(disable=["division-by-zero"])
def test_category_off():
    launch(0)


@pytest.fixture
def launched():
    launch(0)


def test_fixture(launched):
    pass
"""


def run(folder: Path, *options: str, suite: str = SUITE) -> tuple[int, str]:
    (folder / "test_suite.py").write_text(suite)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tilewright.pytest_plugin",
        "-p",
        "no:cacheprovider",
        "-q",
        *options,
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def test_violations_fail_tests(tmp_path: Path) -> None:
    status, text = run(tmp_path, "--tile-check", "-rA", "--strict-markers")
    assert status == 1, text
    for line in (
        "PASSED test_suite.py::test_defined",
        "FAILED test_suite.py::test_undefined - ",
        "FAILED test_suite.py::test_undefined_and_wrong - assert 1 == 2",
        "PASSED test_suite.py::test_exempt",
        "PASSED test_suite.py::test_category_off",
        "ERROR test_suite.py::test_fixture - ",
    ):
        assert line in text, text
    assert "division-by-zero" in text and "ct.load(x, (0,), (4,)) // d" in text
    assert "tile check: 5 launches, violations in 3 tests" in text


def test_processes_of_xdist_are_counted_together(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    status, text = run(tmp_path, "--tile-check", "-p", "xdist", "-n2")
    assert status == 1 and "tile check: 5 launches, violations in 3 tests" in text, text


def test_without_the_option_nothing_is_checked(tmp_path: Path) -> None:
    status, text = run(tmp_path, "--deselect", "test_suite.py::test_undefined_and_wrong")
    assert status == 0 and "tile check" not in text, text


def test_categories_can_be_disabled(tmp_path: Path) -> None:
    status, text = run(tmp_path, "--tile-check", "--tile-check-disable=division-by-zero", "-k", "test_undefined")
    assert status == 1 and "1 failed, 1 passed" in text and "violations in 0 tests" in text, text
    status, text = run(tmp_path, "--tile-check", "--tile-check-disable=nonsense")
    assert status == pytest.ExitCode.USAGE_ERROR and "unknown category 'nonsense'" in text, text


def test_markers_take_booleans(tmp_path: Path) -> None:
    marks = (("enabled=False", "1 passed"), ("'no'", "write True or False, not 'no'"))
    for mark, wanted in marks:
        suite = SUITE.replace("tile_check(False)", f"tile_check({mark})")
        assert suite != SUITE
        assert wanted in run(tmp_path, "--tile-check", "-k", "test_exempt", suite=suite)[1]
