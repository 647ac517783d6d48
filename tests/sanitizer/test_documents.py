"""The examples of the C++ reference: those of the annex are reported at their line, the others not at all."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import numpy as np
import pytest
from support.sanitizer_runs import HAS_COMPILER

import tilewright as ct
from tilewright.backends.launch_arguments import Buffer, LaunchArguments
from tilewright.backends.registry import get_backend
from tilewright.ir.dtypes import int32
from tilewright.sanitizer import CATEGORIES, Violation

REFERENCE = Path(__file__).parents[3] / "shared" / "spec" / "tile-cpp-api-reference.txt"
pytestmark = [
    pytest.mark.skipif(not REFERENCE.exists(), reason="the documents are not part of the repository"),
    pytest.mark.skipif(not HAS_COMPILER, reason="Tile C++ needs a compiler: tilewright[cpp]"),
]
INCLUDES = "".join(f'#include "cuda_{name}.h"\n' for name in ("tile", "fp16", "bf16", "fp8", "tf32"))
SPLIT = r"```\s*\(continues on next page\)\s*(?:\S+\s+)?\(continued from previous page\)\s*```\n"
TILES = {"store_masked(x": "4, 2", "p.store(x": "4, 4"}  # what annex examples call x without saying what it is
# Examples that another part of the document completes, or that do not compile in the original either.
INCOMPLETE = ("2.0 * x; // (1) ill-formed", "ct::atomic_load<ct::memory_order::relaxed>(ptr)")


def text() -> str:
    found = REFERENCE.read_text().replace("__\n↪ restrict__", "__restrict__").replace("↪", "")
    return re.sub(SPLIT, "", found)


def annex() -> list[str]:
    """The example of each entry of the annex, in order."""
    whole = text()
    part = whole[whole.index("## 3.1. Undefined Behavior Annex") : whole.index("## 3.2. Math")]
    entries = re.split(r"^- ▶ ", part, flags=re.M)[1:]
    found = []
    for entry in entries:
        match = re.search(r"```\n(.*?)```", entry, re.S)
        assert match is not None, entry
        found.append(match.group(1).replace("65536>>>;", "65536>>;"))  # one bracket too many in the document
    return found


def violations(source: str) -> list[Violation]:
    """What a launch of ``k`` violates; its checked form is all that is compiled."""
    numbers = np.zeros(4096, np.int32)
    address = numbers.ctypes.data
    buffer = Buffer("ptr", address, address, address + numbers.nbytes, int32, True, (4096,), (1,))
    with ct.sanitize() as report:
        module = importlib.import_module("tilewright.frontend.cpp.module").Module
        function = module(source, "example.cu", defines={"TW_CHECKED": 1}).kernel("k").function
        get_backend("sanitizer").compile(function, {}).launch((1, 1, 1), LaunchArguments([address], [buffer]))
    return report.violations


NUMBERED = list(zip((c.name for c in CATEGORIES.values() if c.item is not None), annex() if REFERENCE.exists() else []))


@pytest.mark.parametrize(("category", "example"), NUMBERED, ids=[name for name, _ in NUMBERED])
def test_annex(category: str, example: str) -> None:
    shape = next((s for use, s in TILES.items() if use in example), None)
    tile = f"auto x = ct::iota<ct::tile<int, ct::shape<{shape}>>>();" if shape else ""
    head = f"{INCLUDES}__tile_global__ void k(int* ptr) {{\nnamespace ct = ::cuda::tiles; using namespace ct::literals; {tile}\n"
    source = f"{head}{example}\n}}"
    lines = source.splitlines()
    wanted = [n for n, line in enumerate(lines, 1) if "// UB" in line or line.strip().startswith("auto q1")]
    found = [(v.category.name, v.line) for v in violations(source)]
    assert wanted and found == [(category, line) for line in wanted]


def test_other_examples_are_clean() -> None:
    whole = text()
    ran = 0
    for block in re.findall(r"```\n(.*?)```", whole[: whole.index("## 3.1. Undefined Behavior Annex")], re.S):
        alone = re.search(r"^\s*(?:namespace ct = |using namespace ct)", block, re.M) and "::cuda::tiles" in block
        if not alone or "__tile" in block or any(part in block for part in INCOMPLETE):
            continue
        source = f"{INCLUDES}__tile_global__ void k(int* ptr) {{\n{block}\n}}"
        try:
            found = violations(source)
        except ct.TileError as e:  # an example that goes on from another one, or has a bracket too many
            assert "use of undeclared identifier" in e.message or "extraneous ')'" in e.message, e
            continue
        lines = source.splitlines()
        said = [n for n, line in enumerate(lines, 1) if "UB" in line or "// UB" in lines[n - 2]]
        assert [v.render() for v in found if v.line not in said] == []
        ran += 1
    assert ran >= 70
