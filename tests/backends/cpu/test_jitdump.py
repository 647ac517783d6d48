"""The jitdump file: kernels with their machine code and the lines of its instructions."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright as ct
from tilewright.backends.cpu import jitdump, perf_map

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="perf is a program of Linux")
PROGRAM = """\
import os
import numpy as np
import tilewright as ct

@ct.kernel
def waves(x, out):
    a = ct.load(x, (ct.bid(0),), (256,))
    b = ct.sqrt(a) / (a + 1)
    ct.store(out, (ct.bid(0),), b)

x, out = np.ones(1 << 20, np.float32), np.zeros(1 << 20, np.float32)
for _ in range(100):
    ct.launch(None, (1 << 12,), waves, (x, out), backend="cpu")
print(os.getpid())
"""


def records(data: bytes) -> list[tuple[int, bytes]]:
    """Kinds and contents of the records after the header."""
    magic, version, start, _, _, process = struct.unpack_from("<6I", data)
    assert (magic, version, process) == (0x4A695444, 1, os.getpid())
    found = []
    while start < len(data):
        kind, size, _ = struct.unpack_from("<2IQ", data, start)
        found.append((kind, data[start + 16 : start + size]))
        start += size
    assert start == len(data)
    return found


def lines_of(content: bytes) -> list[tuple[int, int, str]]:
    """Addresses, lines and files of a record of debug info."""
    found, place = [], 16
    for _ in range(struct.unpack_from("<Q", content, 8)[0]):
        address, line, _ = struct.unpack_from("<Q2I", content, place)
        end = content.index(0, place + 16)
        found.append((address, line, content[place + 16 : end].decode()))
        place = end + 1
    assert place == len(content)
    return found


def test_code_is_written_with_its_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_map, "FOLDER", tmp_path)
    monkeypatch.setenv("TILEWRIGHT_PERF_MAP", "1")
    monkeypatch.setenv("TILEWRIGHT_DEBUG_INFO", "1")
    jitdump._opened.cache_clear()

    @ct.kernel
    def halve(x):
        a = ct.load(x, (ct.bid(0),), (64,))
        ct.store(x, (ct.bid(0),), a / 2)

    x = np.ones(128)
    ct.launch(None, (2,), halve, (x,), backend="cpu")
    assert (x == 0.5).all()
    data = jitdump.dump_path().read_bytes()
    jitdump._opened.cache_clear()
    ranges, lines = [], []
    for kind, content in records(data):
        if kind == 2:
            lines.append(lines_of(content))
            continue
        _, _, address, same, size, _ = struct.unpack_from("<2I4Q", content)
        name, _, code = content[40:].partition(b"\0")
        assert kind == 0 and address == same and name.startswith(b"halve (test_jitdump.py:")
        assert len(code) == size and code == ctypes.string_at(address, size)
        ranges.append((address, address + size, len(lines)))
    first = halve.function.__code__.co_firstlineno
    [body] = [found for found in lines if {first + 2, first + 3} <= {line for _, line, _ in found}]
    assert {file for _, _, file in body} == {os.path.abspath(__file__)}
    assert any(all(low <= address < high for address, _, _ in body) for low, high, _ in ranges)


def test_a_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_map, "FOLDER", tmp_path)
    (tmp_path / "other").write_text("kept")
    jitdump.dump_path().symlink_to(tmp_path / "other")
    jitdump._opened.cache_clear()
    with pytest.raises(OSError):
        jitdump._opened(os.getpid(), 62)
    assert (tmp_path / "other").read_text() == "kept"


@pytest.mark.skipif(None in (shutil.which("perf"), shutil.which("readelf")), reason="perf or readelf is not installed")
def test_perf_makes_files_with_the_lines_of_a_kernel(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "TILEWRIGHT_DEBUG_INFO": "1", "TILEWRIGHT_PERF_MAP": "1"}

    def output(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode and command[1] == "record":
            pytest.skip(f"perf cannot record here: {done.stderr[-200:]}")
        assert not done.returncode, done.stderr
        return done.stdout

    recorded = output("perf", "record", "-e", "cpu-clock", "-k", "mono", "-o", "data", sys.executable, "program.py")
    process = int(recorded.split()[0])
    try:
        output("perf", "inject", "--jit", "-i", "data", "-o", "lines")
        assert "waves (program.py:6) block" in output("perf", "report", "-i", "lines", "--stdio", "-s", "sym")
        made = map(str, Path("/tmp").glob(f"jitted-{process}-*.so"))
        lines = [output("readelf", "--debug-dump=decodedline", path).split() for path in made]
        assert any({"7", "8", "9"} <= set(words) and "program.py:" in " ".join(words) for words in lines)
    finally:
        for path in (Path(f"/tmp/jit-{process}.dump"), *Path("/tmp").glob(f"jitted-{process}-*.so")):
            path.unlink()
