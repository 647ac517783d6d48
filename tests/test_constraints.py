"""``constraints.txt`` pins what ``pyproject.toml`` asks for, at versions that it allows."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


def test_pinned_versions_are_allowed() -> None:
    lowest: dict[str, tuple[int, ...]] = {}
    for name, version in re.findall(r'"([\w-]+)(?:\[\w+\])?>=([\d.]+)', (ROOT / "pyproject.toml").read_text("utf-8")):
        lowest[name] = max(lowest.get(name, ()), numbers(version))
    lines = [line for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if not line.startswith("#")]
    pinned = {line.partition("==")[0]: numbers(line.partition("==")[2].partition(";")[0]) for line in lines}
    assert pinned.keys() >= {"llvmlite", "triton", "ziglang"}
    assert all(lowest[name][: len(version)] <= version for name, version in pinned.items())


def test_the_conda_recipe_has_the_dependencies() -> None:
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    recipe = (ROOT / "conda" / "recipe.yaml").read_text("utf-8")
    needed = re.search(r"^dependencies = \[(.*)\]$", project, re.M)
    python = re.search(r'^requires-python = "(.*)"$', project, re.M)
    run = re.search(r"^ +run: \[(.*)\]$", recipe, re.M)
    assert needed and python and run
    listed = {f"python{python[1]}", *re.findall(r'"([^"]+)"', needed[1])}
    assert {entry.replace(" ", "") for entry in run[1].split(",")} == listed


def test_one_version() -> None:
    version = re.search(r'__version__ = "(.*)"', (ROOT / "src/tilewright/version.py").read_text("utf-8"))
    assert version is not None
    assert f"\nversion: {version[1]}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\n  version: {version[1]} #" in (ROOT / "conda" / "recipe.yaml").read_text("utf-8")
    assert f"\n## {version[1]}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
