"""The text form: equal to what ``tileirdisasm`` of CUDA 13.5 prints, up to the names of values.

The files ``data/*.mlir`` are what that tool printed for the modules here and for the files beside them.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from support.tile_ir_ops import every_op, multimem
from support.tile_ir_text import renamed

from tilewright.tileir import numbers
from tilewright.tileir.bytecode import read, write
from tilewright.tileir.module import Module
from tilewright.tileir.optable import NEWEST
from tilewright.tileir.text import print_module

DATA = Path(__file__).parent / "data"
MADE = {"every_op_13.1": every_op(1), "every_op_13.5": every_op(5), "multimem_13.5": multimem()}
FILES = {f.stem: read(f.read_bytes()) for f in sorted(DATA.glob("*.tilebc"))}


@pytest.mark.parametrize(
    ("name", "module"), [*MADE.items(), *FILES.items()], ids=lambda v: v if isinstance(v, str) else ""
)
def test_as_the_disassembler_prints(name: str, module: Module) -> None:
    assert renamed(print_module(module)) == renamed((DATA / f"{name}.mlir").read_text())


@pytest.mark.skipif(shutil.which("tileirdisasm") is None, reason="needs tileirdisasm")
@pytest.mark.parametrize("minor", range(1, NEWEST + 1))
def test_as_the_disassembler_at_hand_prints(minor: int, tmp_path: Path) -> None:
    file = tmp_path / "every.tilebc"
    file.write_bytes(write(every_op(minor)))
    shown = subprocess.run(["tileirdisasm", str(file)], capture_output=True, text=True, check=True, timeout=60).stdout
    assert renamed(print_module(every_op(minor))) == renamed(shown)


@pytest.mark.parametrize("name", numbers.FORMATS)
def test_numbers_read_back(name: str) -> None:
    bits = numbers.FORMATS[name].bits
    step = 1 if bits <= 8 else (1 << bits) // 500 + 1
    for value in range(0, 1 << bits, step):
        assert numbers.parse(name, numbers.show(name, value)) == value
