"""Exit statuses of commands whose output nobody reads, or cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.cli.errors import FAILED, FINDINGS

KERNEL = """
import numpy as np
import tilewright as ct

@ct.kernel
def kernel(x, out):
    ct.store(out, (0,), ct.load(x, (ct.bid(0) * INDEX,), (8,), padding_mode=ct.PaddingMode.ZERO))

ct.launch(None, (2,), kernel, (np.ones(8, np.float32), np.ones(8, np.float32)))
"""


def status(*command: str, stdout: int | None = None, closed: bool = False) -> tuple[int, str]:
    """The exit status of a command and what it says on the standard error; with ``closed``, nobody reads its output."""
    if closed:
        reader, stdout = os.pipe()
        os.close(reader)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, "-m", "tilewright", *command],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=300,
        env=env,
    )
    if closed and stdout is not None:
        os.close(stdout)
    return done.returncode, done.stderr


@pytest.fixture
def racy(tmp_path: Path) -> str:
    """A program with a violation: two blocks store to the same elements."""
    file = tmp_path / "racy.py"
    file.write_text(KERNEL.replace("INDEX", "0") + "print('done')\n")
    return str(file)


@pytest.mark.parametrize("options", [[], ["--json"]], ids=str)
def test_violations_keep_their_status_when_nobody_reads(options: list[str], racy: str) -> None:
    assert status("check", *options, racy, closed=True)[0] == FINDINGS


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_broken_pipe_of_the_program_is_its_failure(command: str, tmp_path: Path) -> None:
    file = tmp_path / "fails.py"
    file.write_text("raise BrokenPipeError('the server has gone')\n")
    code, said = status(command, str(file))
    assert code == FAILED and "the server has gone" in said


def test_a_program_that_nobody_reads_ends_as_python_ends_it(tmp_path: Path) -> None:
    file = tmp_path / "prints.py"
    file.write_text("print('a line')\n")
    assert status("run", str(file), closed=True)[0] == 120


def test_our_own_output_may_be_cut_off() -> None:
    assert status("doctor", closed=True) == (0, "")


DEMO = """import runpy, sys
from tilewright.cli import demo
demo._SELECTION = demo._SELECTION[:1]
sys.argv = ["tilewright", "demo", "--small"]
runpy.run_module("tilewright", run_name="__main__")
"""


@pytest.mark.parametrize("closed", [1, 2])
def test_streams_that_the_process_never_had(closed: int, tmp_path: Path) -> None:
    """The demo, here of one kernel, shows its progress on the standard error, and results on the standard output."""
    (tmp_path / "demo.py").write_text(DEMO)
    command = f'exec "{sys.executable}" "{tmp_path / "demo.py"}" {closed}>&-'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done
    assert ("kernels agree" in done.stdout, "[1/" in done.stderr) == (closed != 1, closed != 2)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_an_error() -> None:
    with open("/dev/full", "w") as full:
        code, said = status("doctor", stdout=full.fileno())
    assert code == FAILED and said == "tilewright: cannot write to the standard output: No space left on device\n"
