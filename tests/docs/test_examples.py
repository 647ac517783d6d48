"""The examples of the documentation do what they show: docstrings, and the code of the pages."""

from __future__ import annotations

import doctest
import linecache
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import tilewright as ct
from tilewright import compilation, cpp, lib, tune
from tilewright.frontend.cpp.toolchain import find_compiler

PAGES = sorted((Path(__file__).parents[2] / "docs").glob("**/*.md"))
_FENCE = re.compile(
    r'^```(pycon|python)\n(.*?)^```$(?:\n\n```text title="prints"\n(.*?)^```$)?', re.MULTILINE | re.DOTALL
)
_CHECKER = doctest.OutputChecker()
_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_LIBRARIES = {"pytorch": "torch", "jax": "jax"}  # what a page is about
# What has no value outside of a kernel, or nothing to show.
_WITHOUT_EXAMPLE = {"next_block", "block_prefix"}


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def public() -> Iterator[tuple[str, Any]]:
    for module in (ct, tune, compilation, cpp, lib):
        for name in module.__all__:
            value = getattr(module, name)
            if getattr(value, "__doc__", None) and not isinstance(value, (ct.DType, type(doctest))):
                yield f"{module.__name__}.{name}", value


def check(text: str, name: str, globs: dict[str, Any]) -> int:
    """Run the examples in ``text``; returns how many there are."""
    test = doctest.DocTestParser().get_doctest(text, globs, name, name, 0)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=_OPTIONS).run(test, out=report.append, clear_globs=False)
    assert not report, "".join(report)
    return len(test.examples)


@pytest.mark.parametrize("name, value", list(public()), ids=lambda v: v if isinstance(v, str) else "")
def test_docstrings(name: str, value: Any) -> None:
    check(value.__doc__, name, {"ct": ct, "np": np, "lib": lib, "Annotated": Annotated, "Any": Any})


def test_every_public_name_has_an_example() -> None:
    described = {n: v for module in (ct, lib) for n, v in vars(module).items() if n in module.__all__}
    missing = {
        name
        for name, value in described.items()
        if callable(value)
        and not isinstance(value, ct.DType)
        and not (isinstance(value, type) and issubclass(value, BaseException))
        and getattr(value, "__module__", "").startswith("tilewright.")
        and not doctest.DocTestParser().get_examples(value.__doc__ or "")
    }
    assert missing <= _WITHOUT_EXAMPLE


@pytest.mark.parametrize("page", PAGES, ids=[p.stem for p in PAGES])
def test_pages(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Each block of code runs when it is pasted alone, and prints what the block below it says."""
    if page.stem == "tile-cpp" and find_compiler() is None:
        pytest.skip("no C++ compiler: neither the ziglang package nor a recent clang++ is there")
    if page.stem in _LIBRARIES:
        pytest.importorskip(_LIBRARIES[page.stem])
    walk = {"ct": ct, "np": np} if page.parent.name == "dev" else None  # those pages follow one kernel
    for number, (kind, code, prints) in enumerate(_FENCE.findall(page.read_text(encoding="utf-8"))):
        name = str(tmp_path / f"{page.stem}_{number}.py")
        module = types.ModuleType("page")
        monkeypatch.setitem(sys.modules, "page", module)
        if walk is not None:
            module.__dict__.update(walk)
        if kind == "pycon":
            check(code, name, vars(module))
        else:
            Path(name).write_text(code, encoding="utf-8")
            linecache.checkcache(name)
            exec(compile(code, name, "exec", dont_inherit=True), vars(module))
            assert _CHECKER.check_output(prints, capsys.readouterr().out, _OPTIONS), name
        if walk is not None:
            walk = dict(vars(module))


def test_a_wrong_example_is_found() -> None:
    with pytest.raises(AssertionError, match="Expected"):
        check(">>> 1 + 1\n3\n", "wrong", {})
