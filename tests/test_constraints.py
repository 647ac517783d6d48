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
