"""Runs of NVIDIA's tools, here of a shell."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tilewright.backends.cuda_tools import run_tool


def test_a_run_has_what_the_tool_said_and_how_it_ended() -> None:
    ran = run_tool(["sh", "-c", "echo out; echo error >&2; exit 3"])
    assert (ran.stdout, ran.stderr, ran.returncode) == ("out\n", "error\n", 3)


def _runs(pid: int) -> bool:
    """Whether the process is there; one that nobody has waited for yet is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # the second where it ends while the file is read
        return False


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks for the process in /proc")
def test_what_a_tool_has_started_ends_with_it_when_its_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``ptxas``, which ``tileiras`` calls. The time begins when there is something to end."""
    known, communicate = tmp_path / "pid", subprocess.Popen.communicate

    def later(tool: subprocess.Popen[str], *given: Any, **named: Any) -> Any:
        while not known.exists() or not known.read_text().endswith("\n"):
            time.sleep(0.01)
        return communicate(tool, *given, **named)

    monkeypatch.setattr(subprocess.Popen, "communicate", later)
    with pytest.raises(subprocess.TimeoutExpired):
        run_tool(["sh", "-c", f"sleep 3600 & echo $! > {known}; wait"], timeout=0.1)
    pid, end = int(known.read_text()), time.monotonic() + 300
    while _runs(pid) and time.monotonic() < end:
        time.sleep(0.01)
    assert not _runs(pid)
