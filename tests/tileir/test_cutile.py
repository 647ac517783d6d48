"""Files that cuTile Python wrote: read byte by byte, and their kernels compute what ours from the same source do."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import cutile_oracle
from support.cutile_kernels import Case, cases
from support.tile_ir_text import renamed

import tilewright as ct
from tilewright import tileir
from tilewright.tileir.bytecode import read, write
from tilewright.tileir.text import parse_module, print_module

FOLDER = Path(__file__).parent / "data" / "cutile"
CASES = {case.name: case for case in cases()}


def file_of(case: Case) -> Path:
    (found,) = FOLDER.glob(f"{case.name}_13.*.tilebc")
    return found


def launched(kernel: Any, case: Case, backend: str, *, spread: bool) -> list[np.ndarray[Any, Any]]:
    """The arrays after a launch; files have the pointer, extents and strides of arrays as parameters, and no constants."""
    arguments = case.arguments()
    constants = [rule.constant for _, rule in case.kernel.parameters]
    given = tileir.flattened(*(a for a, c in zip(arguments, constants) if not c)) if spread else arguments
    ct.launch(None, case.grid, kernel, given, backend=backend)
    return [a for a in arguments if isinstance(a, np.ndarray)]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", ("reference", "cpu"))
def test_the_kernel_of_the_file_computes_what_the_source_says(name: str, backend: str) -> None:
    case = CASES[name]
    wanted = launched(case.kernel, case, "reference", spread=False)
    found = launched(tileir.load(file_of(case)).kernel(name), case, backend, spread=True)
    for f, w in zip(found, wanted):
        np.testing.assert_allclose(f, w, case.tolerance, case.tolerance)


@pytest.mark.parametrize("name", CASES)
def test_files_come_back(name: str) -> None:
    data = file_of(CASES[name]).read_bytes()
    module = read(data)
    assert write(module) == data
    shown = print_module(module)
    assert print_module(parse_module(shown)) == shown


@pytest.mark.skipif(shutil.which("tileirdisasm") is None, reason="needs tileirdisasm")
@pytest.mark.parametrize("name", CASES)
def test_as_the_disassembler_prints(name: str) -> None:
    file = file_of(CASES[name])
    shown = subprocess.run(["tileirdisasm", str(file)], capture_output=True, text=True, check=True, timeout=300).stdout
    assert renamed(print_module(read(file.read_bytes()))) == renamed(shown)


def test_arrays_as_the_source_has_them_are_refused_with_what_to_write() -> None:
    case = CASES["integers"]
    with pytest.raises(TypeError, match=r"integers\w*\(\) takes an array as a pointer.*flattened\(\*arguments\)"):
        ct.launch(None, case.grid, ct.tileir.load(file_of(case)).kernel(), case.arguments())


def test_the_sanitizer_knows_the_source_lines() -> None:
    case = CASES["integers"]
    arguments = case.arguments()
    arguments[1][:] = 0
    with ct.sanitize() as report:
        ct.launch(None, case.grid, tileir.load(file_of(case)).kernel(), tileir.flattened(*arguments))
    assert "tests/support/cutile_kernels.py" in report.render() and "division-by-zero" in report.render()


@pytest.mark.parametrize("seed", range(4))
def test_random_kernels_compiled_by_cutile_python(seed: int) -> None:
    pytest.importorskip("cuda.tile._ir2bytecode", reason="cuTile Python is not installed")  # nor what stands in for it
    outcomes = cutile_oracle.Outcomes()
    outcomes.random(seed)
    assert not outcomes.faults, outcomes
