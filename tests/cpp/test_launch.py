"""Kernels written in Tile C++, launched from Python: arguments, errors, backends."""

from __future__ import annotations

import copy
import pickle
import threading
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as ct
from tilewright.cpp import Kernel, Module

HEAD = """#include "cuda_tile.h"
#include "cuda_fp16.h"
#include "cuda_bf16.h"
#include "cuda_fp8.h"
#include "cuda_tf32.h"
namespace ct = cuda::tiles;
using namespace ct::literals;
"""
SOURCE = (
    HEAD
    + """
__tile_global__ void add(float const* x, float* out, int n) {
    auto view = [n](auto* p) { return ct::partition_view{ct::tensor_span{p, ct::extents{n}}, ct::shape{16_ic}}; };
    int i = ct::bid().x;
    view(out).store_masked(view(x).load_masked(i) + view(out).load_masked(i), i);
}

template <typename T, int N>
__tile_global__ void fill(T* p, T value) {
    ct::store(p + ct::bid().x * N + ct::iota<ct::tile<int, ct::shape<N>>>(), ct::full<ct::tile<T, ct::shape<N>>>(value));
}

__tile_global__ void choose(int* p, int* q, int* out) {
    if (q) ct::store(out, ct::load(q));
    else ct::store(out, ct::load(p));
}

__tile_global__ void bytes(void const* p, int* out) {
    ct::store(out, ct::load(static_cast<int const*>(p)));
}

__tile_global__ void overloaded(int* p) { ct::store(p, 1); }
__tile_global__ void overloaded(float* p) { ct::store(p, 2.0f); }

__tile_global__ void reads(int* p, int* out) { ct::store(out, ct::load(p)); }
#ifdef FACTOR
namespace inner { __tile_global__ void defined(int* p) { ct::store(p, FACTOR); } }
#endif
"""
)


@pytest.fixture(scope="module")
def module() -> Module:
    return ct.cpp.compile(SOURCE, name="kernels.cu")


@pytest.fixture(scope="module")
def add(module: Module) -> Kernel:
    return module.kernel("add")


def run(kernel: Kernel, *arguments: Any, grid: int = 1, **options: Any) -> None:
    ct.launch(None, (grid,), kernel, arguments, **options)


def test_the_module_names_its_kernels(module: Module) -> None:
    assert module.kernels == ("add", "choose", "bytes", "overloaded", "reads")
    assert (
        repr(module)
        == "<Tile C++ module kernels.cu: add, choose, bytes, overloaded, reads, template fill, template defined>"
    )
    assert repr(module.kernel("add")) == "<Tile C++ kernel add of kernels.cu>"
    assert module.kernel("add") is module.kernel("add")


def test_launch(add: Kernel, backend: str) -> None:
    x, out = np.arange(40, dtype=np.float32), np.ones(40, np.float32)
    run(add, x, out, 40, grid=3)
    np.testing.assert_array_equal(out, x + 1)
    again = add.bind((3,), (x, out, np.int64(40)))
    again()
    np.testing.assert_array_equal(out, 2 * x + 1)


def test_addresses_that_are_not_aligned(add: Kernel, backend: str) -> None:
    x, out = np.arange(41, dtype=np.float32), np.zeros(41, np.float32)
    for start in (0, 1):
        run(add, x[start:], out[start:], 40, grid=3)
    np.testing.assert_array_equal(out, np.where((x > 0) & (x < 40), 2 * x, x))


# C++ type -> NumPy dtype of the arrays, a value of each kind of number that its parameter takes.
TYPES: list[tuple[str, Any, list[Any]]] = [
    ("bool", np.bool_, [True, np.True_]),
    *((f"int{n}_t", f"i{n // 8}", [-3, np.int8(-3), True]) for n in (8, 16, 32, 64)),
    *((f"uint{n}_t", f"u{n // 8}", [250, np.uint8(250), np.int64(5)]) for n in (8, 16, 32, 64)),
    ("__half", np.float16, [1.5, 3, np.float16(0.1), np.float64(0.1), np.inf, ml_dtypes.bfloat16(3)]),
    ("__nv_bfloat16", ml_dtypes.bfloat16, [0.1, np.float32(0.2), -np.inf]),
    ("float", np.float32, [0.1, 7, np.float16(0.1), False]),
    ("double", np.float64, [0.1, np.float32(0.1), 1 << 60]),
    ("__nv_fp8_e4m3", ml_dtypes.float8_e4m3fn, [0.1, 448]),
    ("__nv_fp8_e5m2", ml_dtypes.float8_e5m2, [0.1, 57344]),
    ("__nv_tf32", np.float32, [0.5]),
]


@pytest.mark.parametrize(("c_type", "dtype", "values"), TYPES, ids=[c for c, _, _ in TYPES])
def test_every_type_of_parameter(c_type: str, dtype: Any, values: list[Any]) -> None:
    source = f"{HEAD}__tile_global__ void fill({c_type}* p, {c_type} v) {{ ct::store(p + ct::iota<ct::tile<int, ct::shape<4>>>(), ct::full<ct::tile<{c_type}, ct::shape<4>>>(v)); }}"
    fill = ct.cpp.compile(source).kernel("fill")
    for value in values:
        for backend in ("reference", "cpu"):
            out = np.zeros(4, dtype)
            run(fill, out, value, backend=backend)
            np.testing.assert_array_equal(out.view(np.uint8), np.full(4, value).astype(dtype).view(np.uint8))


def test_null_and_untyped_pointers(module: Module, backend: str) -> None:
    p, q, out = np.array([1], np.int32), np.array([2], np.int32), np.zeros(1, np.int32)
    for other, expected in ((q, 2), (None, 1)):
        run(module.kernel("choose"), p, other, out)
        assert out[0] == expected
    run(module.kernel("bytes"), np.array([7, 0, 0, 0], np.uint8), out)
    assert out[0] == 7


def test_overloads_are_named_by_their_parameters(module: Module) -> None:
    out = np.zeros(1, np.float32)
    run(module.kernel("overloaded(float*)"), out)
    assert out[0] == 2
    with pytest.raises(ct.TileError, match="'overloaded' names no kernel: .* kernels.cu has add, choose"):
        module.kernel("overloaded")


def test_memory_that_must_not_be_written(module: Module) -> None:
    p, out = np.array([4], np.int32), np.zeros(1, np.int32)
    p.flags.writeable = False
    run(module.kernel("reads"), p, out)
    assert out[0] == 4
    with pytest.raises(ValueError, match=r"argument 'out' of reads\(\) is read-only, but the kernel stores to it"):
        run(module.kernel("reads"), out, p)
    with pytest.raises(ValueError, match=r"argument 'out' of reads\(\) is written but overlaps 'p'"):
        run(module.kernel("reads"), out, out, check_overlap=True)


def test_accesses_outside_are_found(add: Kernel) -> None:
    x = np.zeros(8, np.float32)
    with pytest.raises(ct.TileError, match="kernels.cu:.*outside argument 'x' .32 bytes.*"):
        run(add, x, np.zeros(16, np.float32), 16, backend="reference")


F32, F64 = np.zeros(8, np.float32), np.zeros(8)
REFUSED = [
    ((F32, F32), TypeError, "add() takes 3 arguments (x, out, n), but 2 were given"),
    ([F32, F32, 8], TypeError, "the arguments of add() must be a tuple, not list"),
    ((F64, F32, 8), TypeError, "argument 'x' of add() is a float64 array, but its parameter is a pointer to float32"),
    ((F32, 1234, 8), TypeError, "'out' of add() is the number 1234, but its parameter is a pointer to float32"),
    (("x", F32, 8), TypeError, "argument 'x' of add() is of type str"),
    (((F32,), F32, 8), TypeError, "argument 'x' of add() is of type tuple"),
    ((F32, np.ma.zeros(8, np.float32), 8), TypeError, "is a masked array, whose mask would be ignored"),
    (
        (F32, F32, 8.0),
        TypeError,
        "argument 'n' of add() is the number 8.0, but its parameter is int32: pass an integer",
    ),
    ((F32, F32, np.zeros(1, np.int32)), TypeError, "argument 'n' of add() is of type ndarray"),
    ((F32, F32, None), TypeError, "argument 'n' of add() is None"),
    ((F32, F32, 1 << 31), OverflowError, "argument 'n' of add() is 2147483648, which does not fit in int32"),
    ((F32, F32, np.int64(-1 << 31) - 1), OverflowError, "is -2147483649, which does not fit in int32"),
]


@pytest.mark.parametrize(("arguments", "error", "words"), REFUSED, ids=[w[:40] for _, _, w in REFUSED])
def test_refused_arguments(add: Kernel, arguments: Any, error: type[Exception], words: str) -> None:
    out = F32.copy()
    for _ in range(2):  # also when an accepted launch came before
        with pytest.raises(error) as caught:
            ct.launch(None, (1,), add, arguments)
        assert words in str(caught.value)
        run(add, F32, out, 8)


def test_numbers_out_of_range(module: Module) -> None:
    half, flag = module.kernel("fill<__half, 4>"), module.kernel("fill<bool, 4>")
    with pytest.raises(OverflowError, match=r"argument 'value' of fill<__half, 4>\(\) is 70000, which does not fit"):
        run(half, np.zeros(4, np.float16), 70000)
    for wrong in (1, 0.0, np.int8(1)):
        with pytest.raises(TypeError, match="but its parameter is bool_: pass True or False"):
            run(flag, np.zeros(4, np.bool_), wrong)


def test_kernels_are_not_called(add: Kernel) -> None:
    with pytest.raises(TypeError, match=r"launch it: ct.launch\(stream, grid, kernel, \(x, out, n\)\)"):
        add(1, 2, 3)


def test_backends(module: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = ct.cpp.compile(SOURCE, target="reference").kernel("reads")
    p, out = np.ones(1, np.int32), np.zeros(1, np.int32)
    assert reading.described((p, out), None)[1].name == "reference"
    assert reading.described((p, out), "cpu")[1].name == "cpu"
    monkeypatch.setenv("TILEWRIGHT_BACKEND", "cpu")
    assert reading.described((p, out), None)[1].name == "cpu"
    with pytest.raises(ct.TileError, match="the backend 'python' steps through Python source"):
        run(reading, p, out, backend="python")


def test_files_macros_and_folders(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "near.h").write_text("#define NEAR 10\n")
    (tmp_path / "inc" / "far.h").write_text("#define FAR 100\n")
    text = '#include "near.h"\n#include "far.h"\n__tile_global__ void k(int* p) { ct::store(p, NEAR + FAR + ONE); }\n'
    (tmp_path / "k.cu").write_text(HEAD + text)
    options: dict[str, Any] = {
        "std": "c++23",
        "defines": {"ONE": True, "EMPTY": None},
        "include_dirs": [tmp_path / "inc"],
    }
    for path in (tmp_path / "k.cu", str(tmp_path / "k.cu")):
        out = np.zeros(1, np.int32)
        run(ct.cpp.compile(path, **options).kernel("k"), out)
        assert out[0] == 111
    with pytest.raises(ct.TileError) as caught:
        ct.cpp.compile(tmp_path / "k.cu", include_dirs=[tmp_path / "inc"])
    assert f"{tmp_path / 'k.cu'}:10:" in str(caught.value) and "ONE" in caught.value.message
    inner = ct.cpp.compile(SOURCE, defines={"FACTOR": "3"}).kernel("inner::defined")
    out = np.zeros(1, np.int32)
    run(inner, out)
    assert out[0] == 3


def test_wrong_requests(tmp_path: Path, module: Module) -> None:
    for options, words in (
        ({"std": "c++98"}, "std='c++98' is not a standard"),
        ({"std": "c++17"}, "has tile code, which needs std='c++20' or later, not 'c++17'"),
        ({"target": "abacus"}, "unknown target 'abacus'"),
        ({"defines": {"A B": 1}}, "'A B' is not the name of a macro"),
        ({"defines": {"A": 1.5}}, "the macro A is 1.5"),
    ):
        with pytest.raises(ValueError) as caught:
            ct.cpp.compile(SOURCE, **options)  # type: ignore[arg-type]
        assert words in str(caught.value)
    with pytest.raises(TypeError, match="the path of a file or the text of one, not 3"):
        ct.cpp.compile(3)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError, match="there is no file .*nowhere.cu"):
        ct.cpp.compile(tmp_path / "nowhere.cu")
    for expression in ("nope", "fill", "fill<int>", "fill<float, 3>"):
        with pytest.raises(ct.TileError):
            module.kernel(expression)
    with pytest.raises(ct.TileSyntaxError, match="does not name a kernel"):
        module.kernel("1 + 2")
    with pytest.raises(TypeError, match="a kernel is named by a string"):
        module.kernel(3)  # type: ignore[arg-type]
    with pytest.raises(ct.TileSyntaxError, match="<tile C\\+\\+>:1:"):
        ct.cpp.compile("int f( {")


def test_threads_share_a_module(module: Module) -> None:
    outs = [np.zeros(4, np.int32) for _ in range(4)]
    threads = [threading.Thread(target=lambda out=out: run(module.kernel("fill<int, 4>"), out, 9)) for out in outs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all((out == 9).all() for out in outs)


def test_no_compiler_needs_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.frontend.cpp.toolchain.find_compiler", lambda: None)
    with pytest.raises(ct.TileUnsupportedFeatureError, match=r"pip install 'tilewright\[cpp\]'"):
        ct.cpp.compile("// nothing\n")


def test_a_source_file_is_in_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "latin.cu"
    file.write_bytes(b"// one\n// caf\xe9\n")
    with pytest.raises(ct.TileSyntaxError, match=r"latin.cu:2:1: the byte 0xe9 is not UTF-8"):
        ct.cpp.compile(file)


def test_kernels_and_modules_can_be_pickled_and_copied() -> None:
    source = '#include "cuda_tile.h"\n__tile_global__ void put(int* out, int n) { *out = n; }\n'
    module = ct.cpp.compile(source, name="put.cu")
    kernel = module.kernel("put").replace_options("cpu", threads=1)
    assert copy.deepcopy(kernel) is kernel and copy.deepcopy(module) is module
    found = pickle.loads(pickle.dumps(kernel))
    assert found.options == kernel.options
    out = np.zeros(1, np.int32)
    ct.launch(None, (1,), found, (out, 7), backend="cpu")
    assert out[0] == 7
    assert pickle.loads(pickle.dumps(module)).kernels == ("put",)
