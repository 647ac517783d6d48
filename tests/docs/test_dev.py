"""The pages for developers name files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "dev").glob("*.md"))
_PATH = re.compile(r"`((?:[\w.]+/)+[\w.]*)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_named_files_exist(page: Path) -> None:
    named = _PATH.findall(page.read_text("utf-8"))
    missing = [n for n in named if not any((base / n).exists() for base in (ROOT, ROOT / "src" / "tilewright"))]
    assert not missing


def test_there_are_pages_that_name_files() -> None:
    assert sum(len(_PATH.findall(page.read_text("utf-8"))) for page in PAGES) > 20
