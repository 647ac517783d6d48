"""Runs the kernels of ``sanitizer_cases`` under the sanitizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from support.sanitizer_cases import CPP, PYTHON, Case

import tilewright as ct
from tilewright.backends.launch_arguments import Buffer, LaunchArguments
from tilewright.backends.registry import get_backend
from tilewright.cli.files import load_module
from tilewright.frontend.cpp.toolchain import find_compiler
from tilewright.ir.core import Function
from tilewright.ir.dtypes import int32
from tilewright.sanitizer import Report

HAS_COMPILER = find_compiler() is not None
INCLUDES = '#include "cuda_tile.h"\nnamespace ct = cuda::tiles;\nusing namespace ct::literals;\n'
SIZES = {"65536": True, "65535": False}  # the last extent of a shape, and whether its size overflows
SHAPE = """#include "cuda_tile.h"
namespace ct = cuda::tiles;
__tile_global__ void k(int* p) {
    auto s = ct::shape_size_v<ct::shape<65536, 65536, 65536, SIZE>>;
}
"""


def python_kernels(folder: Path) -> Any:
    """A module with the kernels ``bad_i`` and ``good_i``, whose statements are three lines below their decorators."""
    lines = ["import tilewright as ct"]
    for i, case in enumerate(PYTHON):
        for kind, value in (("bad", case.bad), ("good", case.good)):
            lines += ["@ct.kernel", f"def {kind}_{i}(x, m, f):"]
            lines += [f"    {(text or 'pass').replace('@', value)}" for text in (case.before, case.statement)]
    path = folder / "statements.py"
    path.write_text("\n".join(lines) + "\n")
    return load_module(path)


def run_python(kernel: Any, case: Case, **options: Any) -> Report:
    """The report of a launch."""
    x, m = np.arange(-3, 5, dtype=np.int32), np.zeros((3, 5), np.int32)
    f = (np.arange(8) * 1e9).astype(np.float32)
    with ct.sanitize(enable=case.enable, **options) as report:
        ct.launch(None, (case.blocks,), kernel, (x, m, f))
    return report


def cpp_kernels() -> dict[str, Function]:
    """The kernels ``bad_i`` and ``good_i``, four lines each; they are compiled together, which takes a second."""
    from tilewright.frontend.cpp.module import Module  # noqa: PLC0415  it needs llvmlite

    text, names = INCLUDES, []
    for i, case in enumerate(CPP):
        for kind, value in (("bad", case.bad), ("good", case.good)):
            body = f"{case.before}\n{case.statement}".replace("@", value)
            text += f"__tile_global__ void {kind}_{i}(int* p, int* o) {{\n{body}\n}}\n"
            names.append(f"{kind}_{i}")
    module = Module(text, "statements.cu", defines={"TW_CHECKED": 1})
    return {name: k.function for name, k in zip(names, module.load(*names))}


def run_cpp(function: Function, case: Case) -> Report:
    """The report of a launch."""
    arrays = {"p": np.arange(-32, 32, dtype=np.int32), "o": np.zeros(64, np.int32)}
    addresses = [a.ctypes.data for a in arrays.values()]
    buffers = [Buffer(n, a, a, a + 256, int32, True, (64,), (1,)) for n, a in zip(arrays, addresses)]
    with ct.sanitize(enable=case.enable) as report:
        executable = get_backend("sanitizer").compile(function, {})
        executable.launch((case.blocks, 1, 1), LaunchArguments(addresses, buffers))
    return report


def run_shape(size: str) -> Report:
    """The report of a program that asks for the size of a shape."""
    with ct.sanitize() as report:
        kernel = ct.cpp.compile(SHAPE.replace("SIZE", size), name="shape.cu").kernel("k")
        ct.launch(None, (1,), kernel, (np.zeros(4, np.int32),))
    return report
