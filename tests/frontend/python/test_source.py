"""Kernels without a file, those of ``python -c``, the standard input, prompts and zip files, and with one that has changed."""

from __future__ import annotations

import importlib
import linecache
import subprocess
import sys
import zipfile
from pathlib import Path
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


@pytest.mark.parametrize("options", [[], ["-OO"]])
def test_of_a_command(options: list[str]) -> None:
    command = [sys.executable, *options, "-c", COMMAND]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert "<python -c>:6:5: the module tilewright has no 'laod'" in done.stdout
    assert "    6 |     ct.laod(x, (0,), (4,))" in done.stdout
    assert "the source of other() cannot be read" in done.stdout  # nor is another text shown for it


def test_of_the_standard_input(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(COMMAND)
    with program.open("rb") as file:
        done = subprocess.run(
            [sys.executable, "-"], stdin=file, capture_output=True, text=True, timeout=300, check=True
        )
    assert ":6:5: the module tilewright has no 'laod'" in done.stdout
    assert "    6 |     ct.laod(x, (0,), (4,))" in done.stdout


def test_of_a_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "@ct.kernel\ndef one(x):\n    ct.store(x, (0,), ct.ones((4,), ct.float64))\n"
    names: dict[str, Any] = {"ct": ct}
    exec(compile(text, "<input-7>", "exec"), names)
    kept = {"<input-7>": text.splitlines(True)}
    monkeypatch.setattr(linecache, "_getlines_from_code", lambda code: kept.get(code.co_filename, []), raising=False)
    x = np.zeros(4)
    ct.launch(None, (1,), names["one"], (x,), backend="reference")
    assert x.all()


MODULE = "import tilewright as ct\n@ct.kernel\ndef one(x):\n    ct.store(x, (0,), ct.ones((4,), ct.float64))\n"


def test_of_a_zip_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as file:
        file.writestr("zipped_kernels.py", MODULE)
    monkeypatch.syspath_prepend(str(tmp_path / "all.zip"))
    x = np.zeros(4)
    ct.launch(None, (1,), importlib.import_module("zipped_kernels").one, (x,), backend="reference")
    assert x.all()


@pytest.mark.parametrize("text", ["\n\n# other\n", "\ndef other(x):\n    pass\n", "\n\none = 3\n\n\n"])
def test_of_a_file_that_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    file = tmp_path / f"changed_{len(text)}.py"
    file.write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    kernel = importlib.import_module(file.stem).one
    file.write_text(text)
    with pytest.raises(ct.TileSyntaxError, match=r"changed_\d+.py:2:1: .*has changed since it was imported"):
        ct.launch(None, (1,), kernel, (np.zeros(4),), backend="reference")
