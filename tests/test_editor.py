"""What an editor shows: pyright knows the types of the language. That it accepts the examples is a part of ./run lint."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tilewright

PYRIGHT = shutil.which("pyright", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
pytestmark = pytest.mark.skipif(PYRIGHT is None, reason="pyright is not installed: pip install 'tilewright[dev]'")


def diagnostics(*arguments: str) -> list[dict[str, Any]]:
    command = [str(PYRIGHT), "--outputjson", "--pythonpath", sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), done.stderr + done.stdout
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] > 0
    return found["generalDiagnostics"]


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(tilewright.__file__).parent / "py.typed").exists()


PROGRAM = """
import tilewright as ct

@ct.kernel
def kernel(x: ct.Array, n: int, TILE: ct.Constant[int]) -> None:
    tile = ct.load(x, (ct.bid(0),), (TILE,))
    reveal_type(tile)  # Tile
    reveal_type(1 + tile * 2)  # Tile
    reveal_type(-tile.astype(ct.int32))  # Tile
    reveal_type(ct.sum(tile, axis=0))  # Tile
    reveal_type(ct.atomic_add(x, 0, 1))  # Tile
    reveal_type(x.get_raw_memory().atomic_max_offset(0, 1))  # Tile
    reveal_type(x.tiled_view((4,)).load(0))  # Tile
    reveal_type(tile[None, :])  # Tile
    reveal_type(TILE)  # int
    for i in range(ct.num_tiles(x, 0, TILE)):
        reveal_type(i)  # int

@ct.kernel(occupancy=2)
def hinted(x: ct.Array) -> None: ...

reveal_type(kernel)  # kernel
reveal_type(hinted)  # kernel
reveal_type(kernel.replace_hints(num_ctas=2))  # kernel
reveal_type(ct.cdiv(7, 2))  # int
"""
MISTAKES = """
import tilewright as ct

@ct.kernel(occupancy="2")
def kernel(x: ct.Array) -> None:
    ct.load(x, (0,))
    ct.load(x, (0,), (4,), paddingmode=ct.PaddingMode.ZERO)
    ct.reshape(x, (4,))
    x.nothing
"""


def test_types_of_the_language(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "mistakes.py").write_text(MISTAKES)
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({"strict": ["program.py"], "extraPaths": [str(Path(tilewright.__file__).parents[1])]})
    )
    found = diagnostics("-p", str(tmp_path))
    in_program = [d for d in found if d["file"].endswith("program.py")]
    assert [d["message"] for d in in_program if d["severity"] == "error"] == []
    revealed = {d["range"]["start"]["line"]: d["message"].split('"')[-2] for d in in_program}
    wanted = {i: line.split("# ")[1] for i, line in enumerate(PROGRAM.splitlines()) if "# " in line}
    assert revealed == wanted
    lines = {
        d["range"]["start"]["line"] for d in found if d["file"].endswith("mistakes.py") and d["severity"] == "error"
    }
    assert lines == {3, 5, 6, 7, 8}
