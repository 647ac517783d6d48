"""What happens to the source text before the compiler sees it: SIMT kernels, launches, includes. Hints are in test_hints."""

from __future__ import annotations

from pathlib import Path

import pytest
from cpp_harness import PREAMBLE

from tilewright.frontend.cpp.module import Module
from tilewright.frontend.cpp.source import first_headers, prepare, with_dynamic_shared
from tilewright.frontend.cpp.toolchain import Options, compile_to_llvm
from tilewright.ir.errors import TileError, TileSyntaxError


def test_operators_are_left_alone() -> None:
    text = "auto x = a <<= 3; bool b = c << d < e;"
    assert prepare(text, "t.cu") == text


def test_simt_bodies_and_launches_are_blanked() -> None:
    text = "__global__ void k(int* p);\n__global__ void k(int* p) {\n p[threadIdx.x] = '}';\n}\nvoid f() {\n k<<<1, 2>>>(p); g();\n}"
    prepared = prepare(text, "t.cu")
    assert "threadIdx" not in prepared
    assert "<<<" not in prepared
    assert prepared.count("\n") == text.count("\n")
    assert prepared.splitlines()[5].replace(" ", "") == "::__tw_no_launch();g();"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "// <list>\n#include <vector>  // of numbers\n/* #include <map>\n*/ # include <string>\n",
            ["string", "vector"],
        ),
        ('#include <cuda_runtime.h>\n#include "cuda_tile.h"\n#include <unistd.h>\n#include <thread>\n', ["thread"]),
        ('#include <vector>\n#include "of_the_user.h"\n#include <string>\n', ["vector"]),
        ("#include <vector>\n#include <mine>\n#include <string>\n", ["vector"]),
        ("#include <vector>\n#define NDEBUG\n#include <cassert>\n", ["vector"]),
        ("#if 0\n#include <vector>\n#endif\n", []),
        ("int n;\n#include <vector>\n", []),
    ],
)
def test_needs_no_compiler_headers_before_all_else(tmp_path: Path, text: str, found: list[str]) -> None:
    (tmp_path / "mine").touch()
    assert first_headers(text, [tmp_path]) == found


def test_storage_of_shared_variables() -> None:
    for before, after in {
        "extern __shared__ float s[];": "extern __thread  float s[];",
        "extern float __shared__ s[];": "extern __thread float  s[];",
        "extern __align__(16) __shared__ char s[];": "extern __thread __align__(16)  char s[];",
        "static __shared__ int n;": "__shared__  int n;",
        "extern int f(int a); __shared__ int n;": "extern int f(int a); __shared__ int n;",
    }.items():
        assert with_dynamic_shared(before) == after


def test_included_files_are_rewritten_too(tmp_path: Path) -> None:
    (tmp_path / "kernels.cuh").write_text(
        """#pragma once
        #define WIDE [[cutile::hint(0, num_cta_in_cga=2)]]
        __global__ void simt(int* p) { p[threadIdx.x] = WIDTH; }
        __tile__ int read(int* p) { int x; [[cutile::hint(0, latency=3)]] x = ct::load(p); return x; }"""
    )
    main = tmp_path / "main.cu"
    main.write_text(
        PREAMBLE + '#include "kernels.cuh"\nWIDE __tile_global__ void k(int* p) { *p = read(p) + WIDTH; }\n'
    )
    module = Module(main.read_text(), str(main), defines={"WIDTH": "(3)"}, include_dirs=[tmp_path])
    function = module.kernel("k").function
    assert module.kernels == ("k",)
    assert module.files == (str(tmp_path / "kernels.cuh"),)
    assert function.hints == {"num_ctas": 2}
    load = next(op for op in function.walk() if op.name == "load")
    assert (load.attributes["latency"], load.loc.file, load.loc.line) == (3, str(tmp_path / "kernels.cuh"), 4)
    assert load.loc.caller is not None
    assert (load.loc.caller.file, load.loc.caller.line) == (str(main), PREAMBLE.count("\n") + 2)
    (tmp_path / "kernels.cuh").write_text("\n\n[[cutile::hint(0)]] __tile__ void f();")
    with pytest.raises(TileSyntaxError) as caught:
        Module(main.read_text(), str(main), include_dirs=[tmp_path]).kernel("k")
    assert caught.value.loc is not None
    assert (caught.value.loc.file, caught.value.loc.line) == (str(tmp_path / "kernels.cuh"), 3)


def test_headers_of_a_toolkit_do_not_hide_ours(tmp_path: Path) -> None:
    (tmp_path / "crt").mkdir()
    for name in ("crt/host_config.h", "cuda_fp16.h", "curand.h"):
        (tmp_path / name).write_text('#error "for nvcc"\n' if name != "curand.h" else "using curand = int;\n")
    text = PREAMBLE + "#include <cuda_fp16.h>\n#include <curand.h>\n__tile_global__ void k(curand* p) { *p = 1; }"
    assert Module(text, include_dirs=[tmp_path]).kernels == ("k",)


NAMES = [*"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "LB", "UB", "Order", "Scope", "Tile", "Shape", "Value", "Mask", "Ptrs", "Idx"]


def test_programs_may_define_names_that_the_headers_use(tmp_path: Path) -> None:
    body = f"__tile_global__ void k(int* p) {{ *p = ct::load(p + ct::bid().x) + {' + '.join(NAMES)}; }}"
    defines = dict.fromkeys(NAMES, 2)
    lines = "".join(f"#define {name} 2\n" for name in NAMES)
    (tmp_path / "mine.h").write_text(PREAMBLE)
    assert Module(PREAMBLE + body, defines=defines).kernels == ("k",)
    assert Module(lines + PREAMBLE + body).kernels == ("k",)
    assert Module('#include "mine.h"\n' + body, defines=defines, include_dirs=[tmp_path]).kernels == ("k",)
    with pytest.raises(TileError) as caught:
        Module(lines + PREAMBLE + "int x = nowhere;", "user.cu").kernel("k")
    assert caught.value.loc is not None
    assert (caught.value.loc.file, caught.value.loc.line) == ("user.cu", len(NAMES) + PREAMBLE.count("\n") + 1)


def test_host_code_beside_kernels_may_leave_includes_out() -> None:
    text = """__tile_global__ void k(uint32_t* p) { *p = 3; }
    int main() { void* v = malloc(strlen("a")); free(v); return std::max(abs(-1), int(std::sqrt(4.0) + time(nullptr))); }
    """
    assert "define" in compile_to_llvm(text, "t.cu", Options(exceptions=True)).llvm
