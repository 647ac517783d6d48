"""The notebooks of the documentation: their cells run, one after the other, in one namespace."""

from __future__ import annotations

import importlib
import importlib.util
import json
import linecache
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tilewright as ct

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.py"))
_LIBRARIES = {"pytorch": "torch", "jax": "jax"}


def cells(source: Path) -> Iterator[tuple[str, str]]:
    """The head and the text of each cell of a notebook in percent format."""
    for cell in re.split(r"^# %%", source.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        head, _, text = cell.partition("\n")
        yield head.strip(), text


@pytest.mark.parametrize("source", NOTEBOOKS, ids=[p.stem for p in NOTEBOOKS])
def test_cells_run(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells that are marked to raise an exception do, and no others."""
    if source.stem in _LIBRARIES:
        pytest.importorskip(_LIBRARIES[source.stem])
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("notebook")
    monkeypatch.setitem(sys.modules, "notebook", module)
    for number, (head, text) in enumerate(cells(source)):
        if "[markdown]" in head:
            continue
        path = tmp_path / f"cell_{number}.py"
        path.write_text(text, encoding="utf-8")
        linecache.checkcache(str(path))
        code = compile(text, str(path), "exec", dont_inherit=True)
        if "raises-exception" in head:
            with pytest.raises(ct.TileError):
                exec(code, vars(module))
        else:
            exec(code, vars(module))


def test_every_notebook_is_listed() -> None:
    navigation, overview = ((ROOT / p).read_text(encoding="utf-8") for p in ("mkdocs.yml", "docs/notebooks/index.md"))
    assert len(NOTEBOOKS) == 5
    for source in NOTEBOOKS:
        title = next(text for head, text in cells(source) if head == "[markdown]").splitlines()[0].removeprefix("# # ")
        assert f"notebooks/{source.stem}.md" in navigation and f"[{title}]({source.stem}.md)" in overview


def test_a_notebook_is_executed_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("jupytext", "nbclient", "nbconvert", "ipykernel"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install '.[docs]'")
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "generator"))
    generator = importlib.import_module("notebooks")
    source = tmp_path / "small.py"
    text = "# %% [markdown]\n# # Small\n\n# %%\nimport tilewright as ct\nct.ones((2,), ct.int32)\n"
    source.write_text(
        text + '\n# %%\nct.sanitize().__enter__()\n\n# %% tags=["raises-exception"]\n1 / 0\n', encoding="utf-8"
    )
    made = generator.notebook(source)
    page = made.page()
    assert page.startswith("# Small\n\n[Download this notebook](small.ipynb)")
    assert "Tile([1, 1], dtype=int32)" in page and '<div class="tw-output"><p>0 launches' in page
    assert "ZeroDivisionError" in page and "\x1b" not in page
    kinds = [cell["cell_type"] for cell in json.loads(made.ipynb())["cells"]]
    assert kinds == ["markdown", "code", "code", "code"]
    source.write_text(text + "\n# %%\n1 / 0\n", encoding="utf-8")
    with pytest.raises(Exception, match="ZeroDivisionError"):
        generator.notebook(source)


def test_a_notebook_without_its_library_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("jupytext", "nbclient", "nbconvert"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install '.[docs]'")
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "generator"))
    generator = importlib.import_module("notebooks")
    find: Any = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "jax" else find(name, *rest))
    made = generator.notebook(FOLDER / "jax.py")
    assert made.missing == "jax" and "without outputs: `jax` was not installed" in made.page()
    assert not any(cell.get("outputs") for cell in json.loads(made.ipynb())["cells"])
