"""Every Python kernel of the programming guide, taken from the document itself, on both CPU backends.

The document is not part of this repository: the test looks for it in ``shared/spec`` beside the checkout.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as ct

GUIDE = Path(__file__).parents[3] / "shared" / "spec" / "programming-guide-tile-kernels.txt"
pytestmark = pytest.mark.skipif(not GUIDE.exists(), reason="the programming guide is not beside this checkout")
BACKENDS = ("reference", "cpu", "python")


def sources() -> Iterator[str]:
    """The decorated functions of the guide, in order."""
    lines = GUIDE.read_text().splitlines()
    i = 0
    while i < len(lines):
        if not lines[i].startswith(("@ct.kernel", "@ct.function")):
            i += 1
            continue
        start = i
        while i < len(lines) and (i == start or not lines[i] or lines[i][0] in " @)" or lines[i].startswith("def ")):
            if lines[i].startswith("@ct.") and i != start:
                break
            i += 1
        yield "\n".join(lines[start:i]).rstrip() + "\n"


def define(source: str, label: str) -> Any:
    """The function that ``source`` defines, compiled so that its text can be found again."""
    filename = f"<guide {label}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    namespace: dict[str, Any] = {"ct": ct, "ByTarget": ct.ByTarget}
    exec(compile(source, filename, "exec"), namespace)
    (name,) = [line.split("(")[0][4:] for line in source.splitlines() if line.startswith("def ")]
    return namespace[name]


@pytest.fixture(scope="module")
def guide() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for i, source in enumerate(sources()):
        function = define(source, str(i))
        name = next(line.split("(")[0][4:] for line in source.splitlines() if line.startswith("def "))
        found.setdefault(name, []).append(function)
    return found


def test_nothing_is_overlooked(guide: dict[str, list[Any]]) -> None:
    assert {name: len(functions) for name, functions in guide.items()} == {
        "my_kernel": 3,
        "helper": 1,
        "factories": 1,
        "vec_add": 2,
        "edge_safe": 1,
        "vec_add_gather": 1,
        "tile_sum": 1,
        "conditional_load": 1,
        "elementwise": 1,
        "gemm": 1,
        "block_sum": 1,
        "optimization_hints": 1,
    }


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    with ct.use_backend(request.param):
        yield request.param


def run(kernel: Any, grid: tuple[int, ...], *args: Any) -> None:
    ct.launch(None, grid, kernel, args)


def test_declarations_and_block_position(guide: dict[str, list[Any]], backend: str) -> None:
    a = floats(4)
    before = a.copy()
    run(guide["my_kernel"][0], (2, 3), a, a.copy(), a.copy())
    run(guide["my_kernel"][1], (2, 3), a, a.copy(), a.copy())
    run(guide["my_kernel"][2], (1,), 128)
    np.testing.assert_array_equal(a, before)


def test_functions(guide: dict[str, list[Any]], backend: str) -> None:
    helper, factories = guide["helper"][0], guide["factories"][0]

    @ct.kernel
    def use(out):
        factories()
        ct.store(out, (0,), helper(ct.arange(4, dtype=ct.float32), 1.5))

    out = np.zeros(4, np.float32)
    run(use, (1,), out)
    np.testing.assert_array_equal(out, [1.5, 2.5, 3.5, 4.5])


@pytest.mark.parametrize("name", ["vec_add", "vec_add_gather", "elementwise"])
def test_vector_kernels(guide: dict[str, list[Any]], backend: str, name: str) -> None:
    a, b = floats(128), floats(128) + 1
    for kernel in guide[name]:
        out = np.full(128, np.nan, np.float32)
        run(kernel, (16,), a, b, out, 8)
        expected = np.float32(2.0) * a + b if name == "elementwise" else a + b
        np.testing.assert_array_equal(out, expected)


def test_edges(guide: dict[str, list[Any]], backend: str) -> None:
    a = floats(300)
    out = np.zeros(300, np.float32)
    run(guide["edge_safe"][0], (3,), a, out, 128)
    np.testing.assert_array_equal(out, a)


def test_loop_and_condition(guide: dict[str, list[Any]], backend: str) -> None:
    a = np.arange(64, dtype=np.float32)
    out = np.zeros(8, np.float32)
    run(guide["tile_sum"][0], (1,), a, out, 8, 8)
    np.testing.assert_array_equal(out, a.reshape(8, 8).sum(0))
    out = np.full(64, np.nan, np.float32)
    run(guide["conditional_load"][0], (8,), a, out, 8)
    np.testing.assert_array_equal(out, np.where(np.arange(64) < 56, a, 0))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_gemm(guide: dict[str, list[Any]], backend: str, dtype: Any) -> None:
    a, b = floats(70, 50).astype(dtype), floats(50, 90).astype(dtype)
    c = np.zeros((70, 90), np.float32)
    run(guide["gemm"][0], (3, 3), a, b, c, 32, 32, 16)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-4, atol=1e-4)


def test_atomics(guide: dict[str, list[Any]], backend: str) -> None:
    a = np.arange(100, dtype=np.int32)
    out = np.zeros(1, np.int32)
    run(guide["block_sum"][0], (7,), a, out, 16)
    assert out[0] == a.sum()


def test_hints(guide: dict[str, list[Any]], backend: str) -> None:
    a = floats(128)
    kernel = guide["optimization_hints"][0]
    for variant in (kernel, kernel.replace_hints(num_ctas=8)):
        out = np.zeros(128, np.float32)
        run(variant, (16,), a, out, 8)
        np.testing.assert_array_equal(out, a)


# The fragments between the kernels, by their first line, and what the named variables then hold.
FRAGMENTS = {
    "x = ct.full((8, 2),    3, dtype=ct.int32)   # 8x2   (rank 2)": {"z": np.full((4, 8, 2), 8, np.int32)},
    "x = ct.full((8,), 3, dtype=ct.int32)": {},
    "x   = ct.arange(8, dtype=ct.int32).reshape((2, 4))    # [[0,1,2,3],[4,5,6,7]]": {
        "s": np.array([6, 22], np.int32),
        "s_k": np.array([[6], [22]], np.int32),
    },
    "tx = ct.arange(8, dtype=ct.int32).reshape((2, 4))": {
        "ty": np.arange(8, dtype=np.int32).reshape(2, 4).T,
        "tw": np.arange(8, dtype=np.int32).reshape(2, 2, 2).transpose(2, 0, 1),
    },
    "cond    = ct.arange(4, dtype=ct.int32) < 2                 # [T, T, F, F]": {
        "result": np.array([1, 1, -1, -1], np.float32)
    },
}


@pytest.mark.parametrize("first", FRAGMENTS)
def test_fragments(backend: str, first: str) -> None:
    lines = GUIDE.read_text().splitlines()
    start = lines.index(first)
    body = []
    for line in lines[start:]:
        if line and line[0] not in " #" and "=" not in line and not line.startswith("x + "):
            break
        body.append(line)
    expected = FRAGMENTS[first]
    outs = SimpleNamespace(**{name: np.zeros_like(value, order="C") for name, value in expected.items()})
    stores = [f"ct.store(out_{name}, {(0,) * value.ndim}, {name})" for name, value in expected.items()]
    text = "\n    ".join([*body, *stores])
    source = f"@ct.kernel\ndef fragment({', '.join(f'out_{n}' for n in expected)}):\n    {text}\n"
    run(define(source, first[:4]), (1,), *vars(outs).values())
    for name, value in expected.items():
        np.testing.assert_array_equal(getattr(outs, name), value)
