"""The code and the documentation use the field's words: these, which they had instead, do not come back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sources import trees

ROOT = Path(__file__).parents[1]
# What is not to be found -> the word for it.
TEXTS = {
    r"copy engines?": "TMA",
    r"matrix units?": "tensor cores",
    r"multiprocessors?(?! of a GPU)": "SM",
    r"of copies, where the alignment demands it": "TMA descriptors on re-aligned copies",
    r"hints without effect": "ignored hints",
    r"fact sheet": "a sentence that stands alone",
    r"default-tile|nan-born|inf-born|fold-overflow": "uninitialized tile, nan-generated, inf-generated, reduction-overflow",
    r"(Split|Rotate|Widen)Products?|DeferSums|joined_products": "SplitMma, RotateMma, WidenMma, DeferAccumulators, joined_mma",
    r"Halver|Undivided|Blobs|are_apart|lies_along|outbox|separate_twins": "see the names of the passes",
    r"_Tests|Spot|Place|Extents\(|Questions\(|_lessons|Explained|HOLE|Prepared": "fusion, lane addresses, launch guards, ...",
    r"Compartment|Formed|abandonments?|_one_for_all|left_at_once|jumps_out|Stepper": "cache namespace, cancellation, ...",
}  # fmt: skip
# Where a word names something else, or says what the name was before.
ELSEWHERE = {
    "src/tilewright/sanitizer/categories.py": r"default-tile|nan-born|inf-born|fold-overflow",
    "src/tilewright/cpp/runtime/device.cpp": r"multiprocessor",
    "docs/tile-cpp.md": r"multiprocessor",
}


def sources() -> list[Path]:
    kinds = ("*.py", "*.h", "*.cpp", "*.c")
    found = [p for kind in kinds for p in (ROOT / "src").rglob(kind)] + list((ROOT / "docs").rglob("*.md"))
    return [p for p in found if "node_modules" not in p.parts]


@pytest.mark.parametrize("words", TEXTS)
def test_private_words_stay_away(words: str) -> None:
    pattern = re.compile(rf"(?<![\w-])(?:{words})(?![\w-])")
    found = []
    for path in sources():
        name = path.relative_to(ROOT).as_posix()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = pattern.search(line)
            if match and not re.fullmatch(ELSEWHERE.get(name, "(?!)"), match[0].removesuffix("s")):
                found.append(f"{name}:{number}: {match[0]}; say {TEXTS[words]}")
    assert found == []


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines and docstrings of modules, classes and functions."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""


def test_docstrings_begin_with_what_a_thing_is_or_does() -> None:
    """A reader who comes from elsewhere does not know what the first word of these refers to."""
    dangling = re.compile(r"(That|Those|The same|Of|Within)\b")
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path, tree in trees().items()
        for line, text in docstrings(tree)
        if dangling.match(text)
    ]
    assert found == []
    assert [text for _, text in docstrings(ast.parse('def f():\n    """That of f."""'))] == ["", "That of f."]
