"""Processes that are forked from one that has imported ``tilewright`` end and say what new ones do."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.forked import Server

pytestmark = [
    pytest.mark.own_processes,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone"),
]

PROGRAM = r"""#include <cstdio>
#include <cstdlib>
#include <cstring>
int main(int count, char** words) {
  char line[64] = "", folder[] = "here";
  if (fgets(line, 64, stdin)) line[strcspn(line, "\n")] = 0;
  FILE* file = fopen(folder, "r");
  printf("%d %s %s %s %d\n", count, words[count - 1], getenv("SAID"), line, file != nullptr);
  fprintf(stderr, "an error\n");
  if (!strcmp(words[count - 1], "crash")) abort();
  return 7;
}
"""


@pytest.mark.parametrize("last", ["end", "crash"])
def test_programs(tmp_path: Path, server: Server, environment: dict[str, str], last: str) -> None:
    (tmp_path / "program.cu").write_text(PROGRAM)
    (tmp_path / "here").touch()
    command = [sys.executable, "-m", "tilewright", "run", "program.cu", "first", last]
    found = [
        run(command, capture_output=True, text=True, input="a line\n", cwd=tmp_path, env={**environment, "SAID": "yes"})
        for run in (server.run, subprocess.run)
    ]
    forked, new = ((done.returncode, done.stdout, done.stderr) for done in found)
    assert forked == new
    assert forked[0] == (7 if last == "end" else -signal.SIGABRT) and "an error" in forked[2]
    assert forked[1] == f"3 {last} yes a line 1\n"


@pytest.mark.parametrize("words", [["--version"], ["nonsense"], ["run", "missing.cu"]], ids=lambda words: words[0])
def test_commands(server: Server, words: list[str]) -> None:
    command = [sys.executable, "-m", "tilewright", *words]
    forked, new = (run(command, capture_output=True, text=True, timeout=300) for run in (server.run, subprocess.run))
    assert (forked.returncode, forked.stdout, forked.stderr) == (new.returncode, new.stdout, new.stderr)


def test_what_takes_too_long_is_ended(tmp_path: Path, server: Server) -> None:
    (tmp_path / "program.cu").write_text("int main() { for (int volatile i = 0;;) i = i; }\n")
    command = [sys.executable, "-m", "tilewright", "run", str(tmp_path / "program.cu")]
    with pytest.raises(subprocess.TimeoutExpired):
        server.run(command, capture_output=True, timeout=1)
    assert server.run([*command[:3], "--version"], capture_output=True, text=True).returncode == 0
