"""Runs kernels written in Tile C++ on the reference and the CPU backend, and looks at their IR."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tilewright.backends.base import Backend
from tilewright.backends.launch_arguments import Buffer, LaunchArguments
from tilewright.backends.registry import get_backend
from tilewright.frontend.cpp.diagnostics import errors
from tilewright.frontend.cpp.locations import INCLUDE_DIR
from tilewright.frontend.cpp.module import CppKernel, Module
from tilewright.ir.dtypes import uint8
from tilewright.ir.errors import TileError
from tilewright.ir.types import PointerType

PREAMBLE = """#include "cuda_tile.h"
#include "cuda_fp16.h"
#include "cuda_bf16.h"
#include "cuda_fp8.h"
#include "cuda_tf32.h"
namespace ct = cuda::tiles;
using namespace ct::literals;
"""
FIRST_LINE = PREAMBLE.count("\n") + 1


def run(kernel: CppKernel, grid: tuple[int, ...], *arguments: Any) -> None:
    """Launch ``kernel`` on the CPU backend: arrays for pointers, numbers for the rest. The reference must agree."""
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    launch(get_backend("reference"), kernel, grid, *copies)
    launch(get_backend("cpu"), kernel, grid, *arguments)
    for got, want in zip(arguments, copies):
        np.testing.assert_array_equal(got, want)


def launch(backend: Backend, kernel: CppKernel, grid: tuple[int, ...], *arguments: Any) -> None:
    values, buffers = [], []
    for parameter, argument in zip(kernel.parameters, arguments, strict=True):
        if isinstance(parameter.type, PointerType):
            address = argument.ctypes.data
            values.append(address)
            buffers.append(
                Buffer(
                    parameter.name, address, address, address + argument.nbytes, parameter.type.pointee or uint8, True
                )
            )
        else:
            values.append(argument)
    x, y, z = (*grid, 1, 1)[:3]
    backend.compile(kernel.function, {}).launch((x, y, z), LaunchArguments(values, buffers))


def ops(kernel: CppKernel) -> Counter[str]:
    """How often each op occurs in ``kernel``."""
    return Counter(op.name for op in kernel.function.walk())


def check_expressions(cases: list[tuple[str, Any]]) -> None:
    """Each case is a C++ expression for a tile or number, and the array that it must give."""
    sources = []
    for number, (expression, expected) in enumerate(cases):
        want = np.asarray(expected)
        shape = ", ".join(map(str, want.shape))
        sources.append(
            f"""__tile_global__ void k{number}({C_TYPES[want.dtype.name]}* out) {{
                auto r = {expression};
                static_assert(__is_same(ct::tile_shape_t<decltype(r)>, ct::shape<{shape}>));
                static_assert(__is_same(ct::tile_element_t<decltype(r)>, {C_TYPES[want.dtype.name]}));
                ct::store(out + ct::iota<ct::tile<int, ct::shape<{shape}>>>(), ct::tile<{C_TYPES[want.dtype.name]}, ct::shape<{shape}>>(r));
            }}"""
        )
    kernels = Module(PREAMBLE + "\n".join(sources)).load(*(f"k{i}" for i in range(len(cases))))
    for kernel, (expression, expected) in zip(kernels, cases):
        want = np.asarray(expected)
        got = np.zeros(want.shape, want.dtype)
        run(kernel, (1,), got)
        np.testing.assert_array_equal(got, want, err_msg=expression)


C_TYPES = {
    "bool": "bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned",
    "uint64": "unsigned long",
    "float16": "__half",
    "float32": "float",
    "float64": "double",
}


def refused(body: str, *, code: str = "") -> TileError:
    """The error that a kernel with the statements ``body`` gives; it must be at the kernel's own text."""
    source = f"{PREAMBLE}{code}\n__tile_global__ void k(int* p, float* q, int n) {{\n{body}\n}}"
    with pytest.raises(TileError) as caught:
        Module(source, "user.cu").kernel("k")
    assert caught.value.loc is not None, caught.value.message
    assert caught.value.loc.file == "user.cu", caught.value
    assert caught.value.loc.line >= FIRST_LINE, caught.value
    return caught.value


def refusals(bodies: list[str], *, code: str = "") -> list[TileError]:
    """The error that each of ``bodies`` gives as statements of a kernel, at its own line: many in one compilation."""
    found: list[TileError] = []
    for start in range(0, len(bodies), ERRORS_SHOWN):
        some = bodies[start : start + ERRORS_SHOWN]
        first = refused("\n".join(f"{{ {body} }}" for body in some), code=code)
        assert first.compiler_output is not None
        errors_at = {error.loc.line: error for error in errors(first.compiler_output, str(INCLUDE_DIR)) if error.loc}
        line = FIRST_LINE + code.count("\n") + 2
        missing = [body for number, body in enumerate(some) if line + number not in errors_at]
        assert not missing, f"accepted: {missing}"
        found += [errors_at[line + number] for number in range(len(some))]
    return found


ERRORS_SHOWN = 16  # the compiler stops after 20, and some lines have two
