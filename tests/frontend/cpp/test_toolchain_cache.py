"""Where the C++ compiler keeps what it has built: in a folder that nobody else can write."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tilewright.frontend.cpp import toolchain


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    toolchain.compiler_cache.cache_clear()
    yield tmp_path
    toolchain.compiler_cache.cache_clear()


def folder() -> Path:
    return Path(toolchain._environment()["ZIG_GLOBAL_CACHE_DIR"])


def test_needs_no_compiler_the_folder_is_private(home: Path) -> None:
    assert folder() == home / "tilewright" / "zig"
    assert stat.S_IMODE(folder().stat().st_mode) == 0o700


def test_needs_no_compiler_a_folder_of_others_is_not_used(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "tilewright" / "zig").mkdir(parents=True)
    (home / "tilewright" / "zig").chmod(0o777)
    assert folder() != home / "tilewright" / "zig"
    assert stat.S_IMODE(folder().stat().st_mode) == 0o700
    assert "may be written by other users (mode 777)" in capsys.readouterr().err


def test_needs_no_compiler_the_mark_of_the_library_is_that_of_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    marks = []
    for identity in ("one", "two"):
        monkeypatch.setattr(toolchain, "compiler_identity", lambda identity=identity: identity)
        marks.append(toolchain._library_mark())
    assert marks[0] != marks[1]


KERNEL = (
    '#include "cuda_tile.h"\n#include <cstddef>\n__tile_global__ void kernel(int* p) { cuda::tiles::store(p, 1); }\n'
)


def test_headers_are_parsed_once_until_they_change(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(text: str = KERNEL, **options: Any) -> tuple[str, list[Path]]:
        output = toolchain.compile_to_llvm(text, "first.cu", toolchain.Options(**options))
        text = re.sub(r"\S*/tilewright-\w+/", "", output.llvm)  # where the compiler found its input
        return text, list((home / "tilewright" / "zig" / "made").iterdir())

    first, (kept,) = compiled()
    number = kept.stat().st_ino
    assert compiled() == (first, [kept])
    assert kept.stat().st_ino == number
    monkeypatch.setattr(toolchain, "_headers_state", lambda: "changed")
    again, (changed,) = compiled()
    assert again == first and changed != kept
    assert len(compiled(KERNEL.replace("#include <cstddef>", ""))[1]) == 2  # what has another beginning has others
    monkeypatch.setattr(toolchain, "_MOST_HEADERS", 2)
    left = compiled(defines={"TW_OTHER": 1})[1]
    assert len(left) == 2 and changed not in left
