"""Lines of programs, beside what addr2line says."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tilewright.frontend.cpp.toolchain import compiler_command
from tilewright.system.line_table import source_lines

HEADER = """
static inline int magnitude(int x) {
    return x < 0 ? -x : x;
}
"""
SOURCE = """
#include "magnitude.h"
static inline int twice(int x) {
    return x * 2 + magnitude(x);
}
template <int N>
static inline int power(int x) {
    int r = 1;
    for (int i = 0; i < N; ++i)
        r *= twice(x);
    return r;
}
int work(int* p, int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i)
        sum += power<5>(p[i]) + twice(p[n - i]);
    return sum;
}
int main(int argc, char**) {
    int values[100] = {};
    return work(values, argc);
}
"""


def compiled(folder: Path, version: int) -> Path:
    source, program = folder / "source.cpp", folder / f"program{version}"
    source.write_text(SOURCE)
    (folder / "magnitude.h").write_text(HEADER)
    # Without the C++ standard library, which would be built for these flags first.
    flags = ["-O2", "-g", f"-gdwarf-{version}", "-fno-sanitize=all", "-nostdlib++"]
    subprocess.run([*compiler_command(), *flags, "-o", str(program), str(source)], check=True, capture_output=True)
    return program


def code(program: Path) -> list[int]:
    """Some addresses in the functions of a program."""
    symbols = subprocess.run(["nm", "-S", str(program)], capture_output=True, text=True, check=True).stdout
    rows = [row.split() for row in symbols.splitlines()]
    own = [(int(row[0], 16), int(row[1], 16)) for row in rows if len(row) == 4 and row[3] in ("main", "_Z4workPii")]
    return sorted(random.Random(0).sample([start + i for start, size in own for i in range(size)], 100))


@pytest.mark.skipif(None in (shutil.which("addr2line"), shutil.which("nm")), reason="binutils are the oracle")
def test_lines_and_inlined_calls(tmp_path: Path) -> None:
    program = compiled(tmp_path, 4)
    addresses = code(program)
    command = ["addr2line", "-a", "-i", "-e", str(program), *map(hex, addresses)]
    wanted: list[list[int]] = []
    for row in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        if row.startswith("0x"):
            wanted.append([])
        elif (number := row.split(" ")[0].rsplit(":", 1)[1]).isdigit() and number != "0":
            wanted[-1].append(int(number))
    mine = [[place.line for place in found] for found in source_lines(program.read_bytes(), addresses)]
    known = [(found, theirs) for found, theirs in zip(mine, wanted) if theirs]
    assert len(known) > 50 and any(len(theirs) > 2 for _, theirs in known)
    assert [found for found, _ in known] == [theirs for _, theirs in known]
    # The same code with debug information of another version.
    newer = compiled(tmp_path, 5)
    assert code(newer) == addresses
    assert [[place.line for place in found] for found in source_lines(newer.read_bytes(), addresses)] == mine
