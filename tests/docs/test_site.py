"""The site: generated parts, and a build without a warning."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tilewright as ct
from tilewright import compilation, cpp, language, lib, tileir, tune

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports a module of the generator."""
    monkeypatch.syspath_prepend(str(DOCS / "generator"))
    return importlib.import_module


def test_every_environment_variable_is_described() -> None:
    described = set(re.findall(r"`(TILEWRIGHT_\w+)`", (DOCS / "api" / "environment.md").read_text(encoding="utf-8")))
    read = {
        name
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r'"(TILEWRIGHT_[A-Z0-9_]+)"', path.read_text(encoding="utf-8"))
    }
    assert described == read


def test_the_promotion_table_is_that_of_the_compiler(generator: Callable[[str], Any]) -> None:
    lines = generator("tables").promotion().splitlines()
    names = [c.strip(" *") for c in lines[0].split("|")[2:-1]]
    rows = {r.split("|")[1].strip(" *"): [c.strip() for c in r.split("|")[2:-1]] for r in lines[2:]}
    assert list(rows) == names and rows["i8"][names.index("f32")] == "f32"
    assert rows["f16"][names.index("bf16")] == "-" and rows["bool"][names.index("u8")] == "u8"
    for x in names:
        assert rows[x][names.index(x)] == x
        assert all(rows[x][names.index(y)] == rows[y][names.index(x)] for y in names)


def test_the_reference_names_everything(generator: Callable[[str], Any]) -> None:
    text = "\n".join([*generator("reference").pages().values(), generator("tables").dtypes()])
    values = {"compilation": compilation, "cpp": cpp, "language": language, "lib": lib, "tileir": tileir, "tune": tune}
    for module in values.values():
        for name in module.__all__:
            assert re.search(rf"`(ct\.)?{name}`", text), name
    for name in set(ct.__all__) - set(language.__all__) - set(values) - {"__version__"}:
        assert f"`{name}`" in text, name


def test_charts_show_the_tables_of_the_benchmarks(generator: Callable[[str], Any]) -> None:
    performance = generator("performance")
    found = performance.ratios("| work | ratio | NumPy |\n|---|--:|--:|\n| add | 0.50 | 2.0 |\n| mul | 4.00 | 1.0 |\n")
    assert found == {"add": 0.5, "mul": 4.0} and performance.ratios("| a | b |\n|---|---|\n| c | 1 |\n") == {}
    assert all(f">{r}<" in performance.chart(found) for r in ("0.50", "4.00"))
    page = performance.page()
    assert page.count("<svg ") >= 2 and "| softmax 4096x1024 |" in page and "## On a GPU" in page


def test_listings_are_those_of_the_kernel(generator: Callable[[str], Any]) -> None:
    walk = generator("listings").Walk((DOCS / "machine-code.md").read_text(encoding="utf-8"))
    assert walk.listing("Tile IR").startswith("```mlir\nfunc @axpy(")
    assert "define " in walk.listing("optimized LLVM IR")
    passes = walk.listing("passes")
    assert passes.startswith("The front end delivers ") and "```diff\n" in passes


def test_the_build_has_no_warning(tmp_path: Path) -> None:
    if any(
        importlib.util.find_spec(name) is None for name in ("mkdocs", "material", "jupytext", "nbconvert", "ipykernel")
    ):
        pytest.skip("MkDocs Material is not installed: pip install '.[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    quick = {**os.environ, "TILEWRIGHT_DOCS_QUICK": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False, env=quick)
    assert done.returncode == 0, done.stderr + done.stdout
    pages = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.html")}
    assert {"index.html", "tutorial/index.html", "api/arithmetic/index.html", "notebooks/sanitizer/index.html"} <= pages
    assert len(list((tmp_path / "notebooks").glob("*.ipynb"))) == 5
    kernels = {page.split("/")[1] for page in pages if page.count("/") == 2 and page.startswith("gallery/")}
    assert len(kernels) >= 12
    cards = re.findall(r'<a href="(\w+)/"><svg', (tmp_path / "gallery" / "index.html").read_text(encoding="utf-8"))
    assert set(cards) == kernels
    for page in tmp_path.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(
            r'<(?:script|img)[^>]* src="(?:https?:)?//|<link[^>]* rel="stylesheet"[^>]* href="https?:', text
        )
        assert not loaded and not any(w in text for w in ("<!-- listing", "<!-- table", "\\|")), page


def test_the_table_of_the_runtime_says_what_is_supported(generator: Callable[[str], Any]) -> None:
    lines = generator("tables").runtime_api().splitlines()
    assert "| `cudaMalloc` | supported |" in lines and "| `cudaMallocArray` | `cudaErrorNotSupported` |" in lines
    assert len(lines) > 300
    lines = generator("tables").driver_api().splitlines()
    assert "| `cuMemAlloc` | supported |" in lines and "| `cuTexRefCreate` | `CUDA_ERROR_NOT_SUPPORTED` |" in lines


@pytest.mark.parametrize(("header", "table"), [("cuda_runtime_api.h", "runtime_api"), ("cuda.h", "driver_api")])
def test_the_tables_have_every_function_of_the_toolkit(
    header: str, table: str, generator: Callable[[str], Any]
) -> None:
    path = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "include", header)
    if not path.is_file():
        pytest.skip("no CUDA toolkit")
    functions = re.findall(r"(?:CUDARTAPI|CUDAAPI)\s+(cu(?:da)?[A-Z]\w+)\s*\(", path.read_text())
    left_out = re.compile(r"_v\d|_ptsz|_ptds|Coredump|cuLogs")
    text = getattr(generator("tables"), table)()
    wanted = [name for name in functions if not left_out.search(name)]
    assert len(wanted) > 250 and [name for name in wanted if f"| `{name}` |" not in text] == []
