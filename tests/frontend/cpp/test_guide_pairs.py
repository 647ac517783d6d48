"""Where the guide prints a kernel in C++ and in Python, both are the same ops after optimization, or it is said why not.

Each Python block of the guide is one of PAIRS or of WITHOUT_COUNTERPART, so that none is left out unseen.
"""

from __future__ import annotations

import linecache
import re
import textwrap
from collections import Counter
from typing import Any

import pytest
from cpp_harness import C_TYPES, PREAMBLE
from documents import GUIDE, guide_kernels
from test_same_as_python import essence

import tilewright as ct
from tilewright.frontend.cpp.module import Module
from tilewright.frontend.python.compile import trace
from tilewright.frontend.signature import ArgumentSpec, ArraySpec, ConstantSpec, Signature
from tilewright.ir.dtypes import DType, float16, float32, int32

pytestmark = pytest.mark.skipif(not GUIDE.exists(), reason="the documents are not part of the repository")


def _arrays(dtype: DType, *ranks: int) -> list[ArgumentSpec]:
    return [ArraySpec(dtype, (None,) * rank, (None,) * (rank - 1) + (1,)) for rank in ranks]


def _constants(*values: int) -> list[ArgumentSpec]:
    return [ConstantSpec.of(value) for value in values]


# The kernels: what their Python form is called with to be the C++ one.
KERNELS: dict[str, list[ArgumentSpec]] = {
    "vec_add": [*_arrays(float32, 1, 1, 1), *_constants(8)],
    "edge_safe": [*_arrays(float32, 1, 1), *_constants(128)],
    "vec_add_gather": [*_arrays(int32, 1, 1, 1), *_constants(8)],
    "tile_sum": [*_arrays(float32, 1, 1), *_constants(8, 4)],
    "conditional_load": [*_arrays(float32, 1, 1), *_constants(8)],
    "elementwise": [*_arrays(float32, 1, 1, 1), *_constants(8)],
    "gemm": [*_arrays(float16, 2, 2), *_arrays(float32, 2), *_constants(32, 32, 16)],
    "block_sum": [*_arrays(int32, 1, 1), *_constants(16)],
    "optimization_hints": [*_arrays(float32, 1, 1), *_constants(8)],
}
# The fragments, by how their Python form starts: what of the C++ and of the Python one is one thing, and its shape.
FRAGMENTS: dict[str, list[tuple[str, str, DType, tuple[int, ...]]]] = {
    "x = ct.full((8, 2)": [("z", "z", int32, (4, 8, 2))],
    "x = ct.full((8,)": [("x + 2", "x + 2", int32, (8,))],
    "x   = ct.arange(8": [("row_sums", "s_k", int32, (2, 1))],
    "tx = ct.arange(8": [("ty", "ty", int32, (4, 2)), ("tw", "tw", int32, (2, 2, 2))],
    "cond    = ct.arange(4": [("r", "result", float32, (4,))],
}
WITHOUT_COUNTERPART = {
    "import cuda.tile as ct\n\n# Tile kernel entry": "declarations with placeholders for bodies",
    "import torch": "host code",
    "import math": "host code",
    "@ct.kernel\ndef my_kernel(a, b, c):\n    bid_x": "reads positions and uses none, so that nothing is left of it",
    "import cuda.tile as ct\n\n@ct.function\ndef factories": "makes tiles of other shapes than C++, and uses none",
    "import cuda.tile as ct\n\n@ct.kernel\ndef my_kernel(TILE": "shows Constant, which C++ does not have",
}
CHECKS = "gather and scatter of Python check every index; C++ has a form for it, which this kernel does not use"
# What one form has and the other has not: the reason, and the ops of Python and of C++.
DIFFERENCES: dict[str, list[tuple[str, dict[str, int], dict[str, int]]]] = {
    "vec_add_gather": [
        (CHECKS, {"cast": 1, "reshape": 3, "broadcast": 3, "cmp": 4, "and": 3}, {}),
    ],
    "tile_sum": [
        ("C++ computes the length of the array, 8 * num_tiles; Python's arrays know theirs", {}, {"mul": 1}),
    ],
    "gemm": [
        ("num_tiles of Python is one division upwards; C++ writes (K + tk - 1) / tk", {"div": 1}, {"add": 1, "shr": 1}),
        ("extents{M, K} of 64-bit numbers counts in 32 bits, by its deduction guide", {}, {"and": 3}),
    ],
    "block_sum": [
        (
            "C++ adds to a pointer; Python, which has none, to a view of one element",
            {"atomic_view": 1, "reshape": 1},
            {"atomic_rmw": 1},
        ),
        ("extents{N} of a 64-bit number counts in 32 bits, by its deduction guide", {}, {"and": 1}),
    ],
    "x = ct.full((8, 2)": [
        ("C++ adds iotas, Python constants, which are added when compiled", {}, {"iota": 2, "broadcast": 2, "add": 1}),
    ],
}


_PYTHON = r"import (?:cuda\.tile|torch|math)\b|@ct\.|\w+ *= ct\."


def python_blocks() -> list[str]:
    """The Python code of the guide: from a line that only Python has to the end of what follows it as code."""
    lines = GUIDE.read_text().split("\n")
    blocks, i = [], 0
    while i < len(lines):
        start = i
        i += 1
        if re.match(_PYTHON, lines[start]):
            while i < len(lines) and re.match(rf"$|[#( ]|def |\w+ *[=+] |{_PYTHON}", lines[i]):
                i += 1
            blocks.append("\n".join(lines[start:i]))
    return blocks


def cpp_before(block: str) -> str:
    """The C++ fragment that ends where the Python one starts."""
    text = GUIDE.read_text()
    lines = text[: text.index(block)].rstrip("\n").split("\n")
    start = len(lines)
    while re.search(r"^$|;(?: *//.*)?$|^//", lines[start - 1]):
        start -= 1
    return "\n".join(line for line in lines[start:] if "ill-formed" not in line)


def python_ops(code: str, name: str, arguments: list[ArgumentSpec]) -> list[tuple[str, str]]:
    """What the kernel ``name`` of Python ``code`` is made of."""
    file = f"<{name} {hash(code)}>"
    linecache.cache[file] = (len(code), None, code.splitlines(True), file)
    names: dict[str, Any] = {"ct": ct, "ByTarget": ct.ByTarget}
    exec(compile(code, file, "exec"), names)
    return essence(trace(names[name].function, Signature(tuple(arguments)), {}))


def fragment_kernels(block: str) -> tuple[str, str]:
    """The C++ and the Python form of a fragment, as kernels that store what they make."""
    cpp, python = [cpp_before(block)], [block]
    outputs = [row for start, rows in FRAGMENTS.items() if block.startswith(start) for row in rows]
    for i, (in_cpp, in_python, _, shape) in enumerate(outputs):
        lengths, places = ", ".join(f"{n}_ic" for n in shape), ", ".join("0" for _ in shape)
        view = f"ct::partition_view{{ct::tensor_span{{out{i}, ct::extents{{{lengths}}}}}, ct::shape{{{lengths}}}}}"
        cpp.append(f"{view}.store({in_cpp}, {places});")
        python.append(f"ct.store(out{i}, index=({places},), tile={in_python})")
    names = [f"out{i}" for i in range(len(outputs))]
    parameters = ", ".join(f"{C_TYPES[dtype.name]}* {name}" for name, (_, _, dtype, _) in zip(names, outputs))
    return (
        f"__tile_global__ void fragment({parameters}) {{\n" + "\n".join(cpp) + "\n}",
        f"@ct.kernel\ndef fragment({', '.join(names)}):\n" + textwrap.indent("\n".join(python), "    "),
    )


def explained(key: str) -> tuple[Counter[str], Counter[str]]:
    rows = DIFFERENCES.get(key, [])
    assert all(reason for reason, _, _ in rows)
    return sum((Counter(p) for _, p, _ in rows), Counter()), sum((Counter(c) for _, _, c in rows), Counter())


def check_same(key: str, python: list[tuple[str, str]], cpp: list[tuple[str, str]]) -> None:
    """The same ops, in the same order and on the same tiles, but for the differences that have a reason."""
    only_python, only_cpp = explained(key)
    if not only_python and not only_cpp:
        assert cpp == python
    names = [Counter(name for name, _ in ops) for ops in (python, cpp)]
    assert (names[0] - names[1], names[1] - names[0]) == (only_python, only_cpp)


def test_every_python_block_of_the_guide_is_compared_or_has_no_counterpart() -> None:
    kernels = [name for name in KERNELS for b in python_blocks() if f"\ndef {name}(" in b]
    assert set(kernels) == set(KERNELS)
    assert len(kernels) == len(KERNELS) + 1  # vec_add has two forms
    known = (*FRAGMENTS, *WITHOUT_COUNTERPART)
    for start in known:
        assert sum(b.startswith(start) for b in python_blocks()) == 1, start
    assert len(python_blocks()) == len(kernels) + len(known)


def test_kernels_in_both_languages_are_the_same_ops() -> None:
    sources = guide_kernels()
    kernels = dict(zip(sources, Module(PREAMBLE + "\n".join(sources.values()), "guide.cu").load(*sources)))
    for block in python_blocks():
        name = next((name for name in KERNELS if f"\ndef {name}(" in block), None)
        if name is not None:
            check_same(name, python_ops(block, name, KERNELS[name]), essence(kernels[name].function))


@pytest.mark.parametrize("start", FRAGMENTS)
def test_fragments_in_both_languages_are_the_same_ops(start: str) -> None:
    block = next(b for b in python_blocks() if b.startswith(start))
    cpp, python = fragment_kernels(block)
    arrays = [
        ArraySpec(dtype, (None,) * len(shape), (None,) * (len(shape) - 1) + (1,))
        for _, _, dtype, shape in FRAGMENTS[start]
    ]
    check_same(
        start, python_ops(python, "fragment", arrays), essence(Module(PREAMBLE + cpp).kernel("fragment").function)
    )
