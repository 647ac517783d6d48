"""``printf`` in tile code, against the C library."""

from __future__ import annotations

import ctypes
import math

import pytest
from cpp_harness import FIRST_LINE, PREAMBLE, launch, refused

from tilewright.backends.registry import get_backend
from tilewright.frontend.cpp.module import CppKernel, Module

INTEGERS = (0, 7, -5, 123456, -(2**31))
LONGS = (0, -1, 2**40, -(2**63))
DOUBLES = (0.0, -0.0, 1.5, -2.25e10, 0.1, math.inf)
# conversions -> the parameter that they print, and its values
CONVERSIONS = {
    "%d %i %5d %-5d| %05d %+d %.3d %u %x %#X %o %hhd %hd %hhu %hu %hhx %.d": ("x", INTEGERS),
    "%ld %li %lu %lx %lld %llu %20ld %zu %jd %td %#lo": ("y", LONGS),
    "%f %e %g %a %F %E %G %A %.2f %8.3f %-10.1e| %+g %010.2f %#.0f %.f": ("z", DOUBLES),
    "%c%-3c|%2c": ("x", (65, 126)),
}
C_TYPES = {"x": ctypes.c_int, "y": ctypes.c_longlong, "z": ctypes.c_double}
SOURCE = (
    PREAMBLE
    + "".join(
        f"""__tile_global__ void conversions{number}(int x, long y, double z) {{
            printf("{form}\\n"{f", {name}" * form.count("%")}); }}
        """
        for number, (form, (name, _)) in enumerate(CONVERSIONS.items())
    )
    + """
__tile_global__ void texts(float x, int n, unsigned long u) {
    printf("block %d of %u: ", (int)ct::bid().x, ct::num_blocks().x);
    for (auto i : ct::irange(0, n)) printf("%i%s", i, ", ");
    printf("x = %5.2f%%, u = %lu, %6s|%-4s|%.2s|\\n", x, u, "right", "left", "cut");
    printf("%*d %.*f|%d%c\\n", 4, n, 1, x, true, 'e', "more than is printed");
    printf("%p %d\\n", (int*)nullptr, 3000000000u);
    printf("");
}
"""
)


@pytest.fixture(scope="module")
def kernels() -> list[CppKernel]:
    return Module(SOURCE, "print.cu").load(*(f"conversions{i}" for i in range(len(CONVERSIONS))), "texts")


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_conversions(kernels: list[CppKernel], capfd: pytest.CaptureFixture[str], backend: str) -> None:
    for kernel, (form, (name, values)) in zip(kernels, CONVERSIONS.items()):
        for value in values:
            arguments = {"x": 0, "y": 0, "z": 0.0, name: value}
            launch(get_backend(backend), kernel, (1,), *arguments.values())
            buffer = ctypes.create_string_buffer(1000)
            ctypes.CDLL(None).snprintf(buffer, 1000, form.encode(), *[C_TYPES[name](value)] * form.count("%"))
            assert capfd.readouterr().out == buffer.value.decode() + "\n", (form, value)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_texts(kernels: list[CppKernel], capfd: pytest.CaptureFixture[str], backend: str) -> None:
    launch(get_backend(backend), kernels[-1], (1,), 2.5, 3, 2**40)
    assert capfd.readouterr().out == (
        f"block 0 of 1: 0, 1, 2, x =  2.50%, u = {2**40},  right|left|cu|\n   3 2.5|1e\n0x0 -1294967296\n"
    )


REFUSED = {
    'printf("%d");': "no argument for '%d'",
    'printf("%q", n);': "does not know the conversion at '%q'",
    'printf("%n", p);': "does not know the conversion at '%n'",
    'printf("100%");': "does not know the conversion at '%'",
    'printf("%s", p);': "'%s' of printf takes a string literal",
    "printf((char const*)p);": "format of printf must be a string literal",
    'printf("%5.1f", n);': "'%5.1f' of printf takes a floating point number",
    'printf("%d", 1.5);': "'%d' of printf takes an integer",
    'printf("%c", 1.5);': "'%c' of printf takes an integer",
    'printf("%x", p);': "'%x' of printf takes an integer",
    'printf("%d", "text");': "'%d' of printf takes a number",
    'printf("%p", n);': "'%p' of printf takes a pointer",
    'printf("%*d", n, n);': "must be compile-time constants",
    'p[0] = printf("x");': "printf gives no result",
}


@pytest.mark.parametrize("program", REFUSED)
def test_refused(program: str) -> None:
    error = refused(program)
    assert REFUSED[program] in error.message
    assert error.loc is not None
    assert error.loc.line == FIRST_LINE + 2
