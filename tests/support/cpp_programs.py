"""C++ programs for tests, and how they are run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HEAD = """#include <cstdio>
#include "cuda_tile.h"
#include "cuda_fp16.h"
namespace ct = cuda::tiles;
using namespace ct::literals;
"""
KERNELS = """
namespace a { namespace {
template <typename T, int N>
__tile_global__ void add(T* p, T by) {
    auto at = p + ct::bid().x * N + ct::iota<ct::tile<int, ct::shape<N>>>();
    ct::store(at, by + ct::load(at));
}
} }
__tile_global__ void mark(int* p) { ct::store(p, 1); }
__tile_global__ void mark(float* p) { ct::store(p, 2.0f); }
__tile_global__ void numbers(double* out, bool a, signed char b, unsigned short c, long d, float e, __half f) {
    ct::store(out, double(a)); ct::store(out + 1, double(b)); ct::store(out + 2, double(c));
    ct::store(out + 3, double(d)); ct::store(out + 4, double(e)); ct::store(out + 5, double(float(f)));
}
__tile_global__ void talk(int* p) { printf("block %d\\n", ct::load(p)); }
"""
CHECK = """
static int failures = 0;
#define CHECK(x) (x) ? (void)0 : (void)(++failures, printf("line %d: %s\\n", __LINE__, #x))
#define IS(call, code) CHECK((call) == code)
"""


def run(
    program: Path, environment: dict[str, str], *arguments: str, options: tuple[str, ...] = (), how: str = "run"
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tilewright", how, *options, str(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)


def run_main(tmp_path: Path, environment: dict[str, str], body: str, kernels: str = KERNELS) -> tuple[str, str, int]:
    """What a program prints, and how it ends; ``body`` are the statements of its main."""
    source = f"{HEAD}{kernels}{CHECK}int main(int argc, char** argv) {{\n{body}\nreturn failures; }}\n"
    (tmp_path / "program.cu").write_text(source)
    done = run(tmp_path / "program.cu", environment)
    return done.stdout, done.stderr, done.returncode
