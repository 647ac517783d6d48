"""The disk cache of translated kernels: when the C++ compiler runs, and when it must run again."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.cpp import translation
from tilewright.cpp.module import Module
from tilewright.frontend.cpp import toolchain

pytestmark = pytest.mark.usefixtures("cache_folder")  # a cache of its own for each test
TEXT = """#include "cuda_tile.h"
#include "value.h"
namespace ct = cuda::tiles;
namespace space {
template <typename T>
__tile_global__ void put(T* p) { ct::store(p, T(VALUE)); }
__tile_global__ void also(float* p) { ct::store(p, 0.5f); }
}
"""


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gets an entry whenever the compiler runs."""
    found: list[int] = []
    run = subprocess.run

    def counted(*arguments: Any, **options: Any) -> Any:
        found.append(1)
        return run(*arguments, **options)

    toolchain.find_compiler()
    monkeypatch.setattr(toolchain.subprocess, "run", counted)
    return found


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "value.h").write_text("#define VALUE 7\n")
    (tmp_path / "put.cu").write_text(TEXT)
    return tmp_path / "put.cu"


def value(module: Module) -> float:
    out = np.zeros(1, np.float32)
    ct.launch(None, (1,), module.kernel("space::put<float>"), (out,))
    return float(out[0])


def test_a_hit_runs_no_compiler(program: Path, runs: list[int]) -> None:
    first = ct.cpp.compile(program)
    assert (value(first), first.kernels) == (7, ("space::also",))
    assert runs
    runs.clear()
    again = ct.cpp.compile(program)
    assert (value(again), again.kernels) == (7, ("space::also",))
    assert not runs
    assert again.kernel("space::put<float>").function.loc == first.kernel("space::put<float>").function.loc


CHANGES: list[tuple[str, Callable[[Path], Module], float]] = [
    ("included file", lambda p: (p.with_name("value.h").write_text("#define VALUE 8\n"), ct.cpp.compile(p))[1], 8),
    ("text", lambda p: (p.write_text(TEXT.replace("T(VALUE)", "T(VALUE + 2)")), ct.cpp.compile(p))[1], 9),
    ("macro", lambda p: ct.cpp.compile(TEXT.replace('#include "value.h"', ""), defines={"VALUE": 10}), 10),
    ("standard", lambda p: ct.cpp.compile(p, std="c++23"), 7),
    ("name", lambda p: ct.cpp.compile(p, name="other.cu"), 7),
]


@pytest.mark.parametrize(("change", "expected"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_what_matters_is_in_the_key(
    program: Path, runs: list[int], change: Callable[[Path], Module], expected: float
) -> None:
    assert value(ct.cpp.compile(program)) == 7
    runs.clear()
    assert value(change(program)) == expected
    assert runs


def test_back_to_what_was_known(program: Path, runs: list[int]) -> None:
    header = program.with_name("value.h")
    for text in ("#define VALUE 1\n", "#define VALUE 2\n"):
        header.write_text(text)
        value(ct.cpp.compile(program))
    runs.clear()
    header.write_text("#define VALUE 1\n")
    assert value(ct.cpp.compile(program)) == 1
    assert not runs
    header.unlink()
    with pytest.raises(ct.TileError, match="value.h"):
        ct.cpp.compile(program)


def test_another_compiler(program: Path, runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    ct.cpp.compile(program)
    runs.clear()
    monkeypatch.setattr(translation, "compiler_identity", lambda: "another")
    ct.cpp.compile(program)
    assert runs


def test_errors_are_found_again(program: Path) -> None:
    program.write_text(TEXT.replace("T(VALUE)", "nothing"))
    for _ in range(2):
        with pytest.raises(ct.TileError, match="put.cu:6:47: use of undeclared"):
            ct.cpp.compile(program).kernel("space::put<float>")


def test_without_a_cache(program: Path, monkeypatch: pytest.MonkeyPatch, cache_folder: Path) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "off")
    assert value(ct.cpp.compile(program)) == 7
    assert not cache_folder.exists()
