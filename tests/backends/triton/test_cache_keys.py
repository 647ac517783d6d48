"""What Triton's cache knows kernels by changes with the code that changes Triton's forms."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("triton", reason="the package triton is not installed")

from tilewright.backends.triton import stage_hooks


def test_the_fingerprint_follows_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = stage_hooks.sources.__wrapped__()
    monkeypatch.setattr(stage_hooks, "__file__", str(tmp_path / "stage_hooks.py"))
    (tmp_path / "ttir").mkdir()
    found = [ours]
    for path, text in (("ptx.py", "x = 1"), ("ptx.py", "x = 2"), ("ttir/views.py", "x = 1"), ("notes.md", "")):
        (tmp_path / path).write_text(text)
        found.append(stage_hooks.sources.__wrapped__())
    assert len(set(found[:-1])) == 4 and found[-1] == found[-2]
