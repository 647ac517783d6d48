"""Exported shared libraries, called through ctypes and from a C program."""

from __future__ import annotations

import ctypes
import importlib.util
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.backends.cpu import library_source
from tilewright.cli.demo import EXAMPLES
from tilewright.cli.files import load_module
from tilewright.compilation import ArrayConstraint, CallingConvention, KernelSignature, ScalarConstraint, export_kernel

V2 = CallingConvention.cutile_python_v2()
ZIG = [sys.executable, "-m", "ziglang", "cc"] if importlib.util.find_spec("ziglang") else None
COMPILER = shlex.split(os.environ.get("CC", "")) or (["cc"] if shutil.which("cc") else ZIG)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler: CC, cc on PATH, or the package ziglang")


@ct.kernel
def affine(x, out, scale, shift, TILE: ct.Constant[int]):
    i = ct.bid(0)
    tile = ct.load(x, (i,), (TILE,)).astype(ct.float32)
    ct.assert_(tile >= 0, "not negative")
    ct.store(out, (i,), ct.exp(tile * scale).astype(out.dtype) + shift)


@ct.kernel
def gemm(a, b, c, T: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((T, T), ct.float32)
    for k in range(ct.num_tiles(a, 1, (T, T))):
        left = ct.load(a, (i, k), (T, T), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, ct.load(b, (k, j), (T, T), padding_mode=ct.PaddingMode.ZERO), total)
    ct.store(c, (i, j), total)


@ct.kernel
def lists_and_tuples(xs, pair, out):
    total = ct.zeros((16,), ct.float64)
    for i in range(len(xs)):
        total += ct.load(xs[i], (0,), (16,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (0,), total * pair[0] + ct.load(pair[1], (0,), (16,)))


@ct.kernel
def ticket(counter, order):
    mine = ct.bid(0)
    while ct.atomic_cas(counter, (0,), mine, mine + 1) != mine:
        pass
    ct.store(order, (mine,), ct.full((1,), mine, ct.int32))


@ct.kernel
def visits(counts):
    i = ct.bid(0)
    ct.store(counts, (i, 0), ct.load(counts, (i, 0), (1, 64)) + 1)


@ct.kernel
def widen(x, out):
    ct.store(out, (0,), ct.load(x, (0,), (256,)).astype(ct.float32))


def array(ndim: int, dtype: ct.DType = ct.float32, **facts: Any) -> ArrayConstraint:
    return ArrayConstraint(
        dtype,
        ndim,
        index_dtype=ct.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
        **facts,
    )


def export(folder: Path, kernel: Any, parameters: Sequence[Any], symbol: str = "run") -> Any:
    """The exported function, and why it failed last."""
    path = folder / "lib.so"
    export_kernel(kernel, [KernelSignature(parameters, V2, symbol)], path, output_format="shared_library")
    loaded = ctypes.CDLL(str(path))
    loaded.lib_last_error.restype = ctypes.c_char_p
    return getattr(loaded, symbol), loaded.lib_last_error


def flat(x: np.ndarray) -> list[Any]:
    return [ctypes.c_void_p(x.ctypes.data), *x.shape, *(s // x.itemsize for s in x.strides)]


@needs_compiler
def test_a_matrix_product(tmp_path: Path) -> None:
    run, _ = export(tmp_path, gemm, [array(2), array(2), array(2), 32])
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s, dtype=np.float32) for s in ((70, 90), (90, 50)))
    ours, theirs = np.zeros((70, 50), np.float32), np.zeros((70, 50), np.float32)
    assert run(3, 2, 1, *flat(a), *flat(b), *flat(ours)) == 0
    ct.launch(None, (3, 2), gemm, (a, b, theirs, 32), backend="cpu")
    np.testing.assert_array_equal(ours, theirs)
    assert run(3, 2, 1, *flat(a[::2]), *flat(b.T), *flat(ours[::2].T)) == 0, "strides are those of the caller"


@needs_compiler
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_every_block_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    """Whatever range of blocks each thread begins with."""
    run, _ = export(tmp_path, visits, [array(2, ct.int32)])
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", str(threads))
    counts = np.zeros((1501, 64), np.int32)
    assert run(1501, 1, 1, *flat(counts)) == 0
    assert (counts == 1).all()


@needs_compiler
@pytest.mark.parametrize("dtype", [ct.float16, ct.bfloat16, ct.float64, ct.int8], ids=str)
def test_dtypes_of_arrays_and_scalars(tmp_path: Path, dtype: ct.DType) -> None:
    shift = ct.float64 if dtype is ct.float64 else ct.float32 if dtype.is_floating else ct.int8

    @ct.kernel
    def convert(x, out, scale, shift):
        i = ct.bid(0)
        ct.store(
            out, (i,), (ct.load(x, (i,), (64,)).astype(ct.float32) * scale).astype(out.dtype) + shift.astype(out.dtype)
        )

    scalars = [ScalarConstraint(ct.float32), ScalarConstraint(shift)]
    run, _ = export(tmp_path, convert, [array(1, dtype), array(1, dtype), *scalars])
    x = np.arange(200).clip(0, 31).astype(dtype.storage)
    out, expected = np.zeros_like(x), np.zeros_like(x)
    kind = ctypes.c_double if shift is ct.float64 else ctypes.c_float if shift.is_floating else ctypes.c_int8
    assert run(4, 1, 1, *flat(x), *flat(out), ctypes.c_float(1.5), kind(2)) == 0
    ct.launch(None, (4,), convert, (x, expected, 1.5, shift.storage.type(2)), backend="cpu")
    np.testing.assert_array_equal(out, expected)
    assert out.any()


@needs_compiler
def test_lists_and_tuples(tmp_path: Path) -> None:
    xs, base, out = [np.arange(10.0), np.ones(16)], np.ones(16), np.zeros(16)
    parameters = KernelSignature.from_kernel_args(lists_and_tuples, (xs, (2.0, base), out), V2).parameters
    run, _ = export(tmp_path, lists_and_tuples, parameters)
    table = np.array([[x.ctypes.data, x.size, 1] for x in xs], np.int64)
    pointer = ctypes.c_void_p(table.ctypes.data)
    assert run(1, 1, 1, pointer, 2, ctypes.c_float(2.0), *flat(base), *flat(out)) == 0
    np.testing.assert_array_equal(out, 2 * (np.pad(xs[0], (0, 6)) + 1) + 1)


@ct.kernel
def meet(arrived, expected):
    ct.atomic_add(arrived, 0, 1, memory_order="RELEASE")
    while ct.atomic_add(arrived, 0, 0, memory_order="ACQUIRE") < expected:
        pass


@needs_compiler
def test_blocks_that_wait_for_each_other(tmp_path: Path) -> None:
    run, _ = export(tmp_path, ticket, [array(1, ct.int32), array(1, ct.int32)])
    counter, order = np.zeros(1, np.int32), np.full(40, -1, np.int32)
    assert run(40, 1, 1, *flat(counter), *flat(order)) == 0
    assert counter[0] == 40 and (order == np.arange(40)).all()


@needs_compiler
def test_blocks_that_wait_for_all_others_and_for_one_that_never_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More blocks than any number of threads to begin with."""
    fields = re.sub(r"(TW_PATIENCE_NS) \d+", r"\1 100000000", library_source.FIELDS)
    assert fields != library_source.FIELDS
    monkeypatch.setattr(library_source, "FIELDS", fields)
    run, last_error = export(tmp_path, meet, [array(1, ct.int32), ScalarConstraint(ct.int32)])
    arrived = np.zeros(1, np.int32)
    assert run(90, 1, 2, *flat(arrived), 180) == 0 and arrived[0] == 180
    arrived[0] = 0
    assert run(5, 2, 1, *flat(arrived), 11) == 4 and arrived[0] == 10
    message, line = last_error().decode(), meet.function.__code__.co_firstlineno + 3
    assert message.startswith("deadlock: every block that is left waits for memory that none of them changes: block (")
    assert message.count(f"test_export.py:{line}:") == 8 and message.endswith("; and 2 more")


def arguments(kernel: Any, args: tuple[Any, ...]) -> list[Any]:
    """What a C program passes for ``args``."""
    flattened: list[Any] = []
    for (_, rule), value in zip(kernel.parameters, args):
        if isinstance(value, np.ndarray):
            flattened += flat(value)
        elif isinstance(value, float):
            flattened += [] if rule.constant else [ctypes.c_float(value)]
        else:
            flattened += [] if rule.constant else [value]
    return flattened


@needs_compiler
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.stem)
def test_the_examples(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel of an example computes the same in a library, bit for bit."""
    launches: list[Any] = []

    def copied(args: Any) -> tuple[Any, ...]:
        return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args)

    def recorded(stream: Any, grid: Any, kernel: Any, args: Any) -> None:
        before = copied(args)
        launch(stream, grid, kernel, args, backend="cpu")
        launches.append((grid, kernel, before, copied(args)))  # later launches may write to the same arrays

    launch = ct.launch
    monkeypatch.setattr(ct, "launch", recorded)
    monkeypatch.setattr(sys, "path", list(sys.path))
    module = load_module(path)
    for case in module.cases(small=True) if hasattr(module, "cases") else ():
        case.ours()
    made: dict[Any, Any] = {}
    for grid, kernel, before, after in launches:
        signature = KernelSignature.from_kernel_args(kernel, before, V2).with_mangled_symbol(kernel.name)
        if signature.symbol not in made:
            folder = tmp_path / str(len(made))  # the system loads the library of a path once
            folder.mkdir()
            made[signature.symbol] = export(folder, kernel, signature.parameters)
        run, why = made[signature.symbol]
        status = run(*(*grid, 1, 1)[:3], *arguments(kernel, before))
        assert status == 0, why().decode()
        for ours, theirs in zip(before, after):
            if kernel.name != "matmul_split_k":  # its blocks add in any order
                np.testing.assert_array_equal(ours, theirs)


@needs_compiler
def test_every_promise_is_checked(tmp_path: Path) -> None:
    x = array(1, stride_constant=(1,), shape_divisible_by=4, base_addr_divisible_by=16)
    out = array(1, shape_constant=(64,), stride_divisible_by=2)
    run, why = export(tmp_path, affine, [x, out, ScalarConstraint(ct.float32), ScalarConstraint(ct.float32), 16])
    memory = np.zeros(256, np.float32)
    memory = memory[-memory.ctypes.data // 4 % 4 :]
    good: list[Any] = [
        1,
        1,
        1,
        ctypes.c_void_p(memory.ctypes.data),
        16,
        1,
        ctypes.c_void_p(memory.ctypes.data + 512),
        64,
        2,
    ]

    def call(**changes: Any) -> tuple[int, str]:
        arguments = [*good]
        for position, value in changes.items():
            arguments[int(position[1:])] = value
        return run(*arguments, ctypes.c_float(1), ctypes.c_float(1)), why().decode()

    assert call() == (0, "")
    assert call(_0=0) == (1, "grid_x is 0; it must be from 1 to 16777215")
    assert call(_2=1 << 24) == (1, "grid_z is 16777216; it must be from 1 to 16777215")
    address = memory.ctypes.data + 4
    assert call(_3=ctypes.c_void_p(address)) == (
        1,
        f"the address of x is {address}, but the kernel is compiled for multiples of 16",
    )
    assert call(_4=18) == (1, "x.shape[0] is 18, but the kernel is compiled for multiples of 4")
    assert call(_4=-4) == (1, "x.shape[0] is -4, but it must be at least 0")
    assert call(_5=2) == (1, "x.strides[0] is 2, but the kernel is compiled for 1")
    assert call(_7=65) == (1, "out.shape[0] is 65, but the kernel is compiled for 64")
    assert call(_8=3) == (1, "out.strides[0] is 3, but the kernel is compiled for multiples of 2")
    memory[2] = -1
    status, words = call()
    assert status == 3 and words.endswith("assertion failed: not negative, in block (0, 0, 0)")
    assert "test_export.py:" in words
    memory[2] = 0
    assert call() == (0, "")


@ct.kernel
def flipped(x, out, flip):
    ct.store(out, (0,), ct.load(x, (0,), (4,)) ^ flip)


@needs_compiler
def test_bools(tmp_path: Path) -> None:
    run, _ = export(tmp_path, flipped, [array(1, ct.bool_), array(1, ct.bool_), ScalarConstraint(ct.bool_)])
    assert "bool *out" in (tmp_path / "lib.h").read_text() and "bool flip" in (tmp_path / "lib.h").read_text()
    x, out = np.array([True, False, True, True]), np.zeros(4, bool)
    for flip in (True, False):
        assert run(1, 1, 1, *flat(x), *flat(out), ctypes.c_bool(flip)) == 0
        np.testing.assert_array_equal(out, x ^ flip)


@ct.kernel
def unlucky(
    kernel,
    arguments,
    int32_t,
    grid_x,
    double,
    new,
    tw_run,
    errno,
    pair,
    pair_0,
    x,
    x_shape0,
    größe,
    assertions,
    printf,
    _,
):
    total = kernel + arguments + int32_t + grid_x + double + new + tw_run + errno + pair[0] + pair_0 + x_shape0 + größe
    ct.store(x, (0,), ct.full((1,), total + assertions + printf + _, ct.int32))


@needs_compiler
def test_names_that_c_has_other_uses_for(tmp_path: Path) -> None:
    x = np.zeros(1, np.int32)
    args = tuple(
        (7,) if n == "pair" else x if n == "x" else 1 << i
        for i, n in enumerate(unlucky.__wrapped__.__code__.co_varnames[:16])
    )
    run, _ = export(tmp_path, unlucky, KernelSignature.from_kernel_args(unlucky, args, V2).parameters)
    passed = arguments(unlucky, tuple(a[0] if isinstance(a, tuple) else a for a in args))
    assert run(1, 1, 1, *passed) == 0
    assert x[0] == 7 + sum(a for a in args if isinstance(a, int))
    subprocess.run([*(COMPILER or ()), "-x", "c", "-fsyntax-only", str(tmp_path / "lib.h")], check=True, timeout=300)


@ct.kernel
def prints(x, h, n, flag):
    tile = ct.load(x, (0, 0), (2, 4))
    half = ct.load(h, (0,), (4,))
    ct.print("100% of\t", tile, half, half.astype(ct.bool_), sep="|")
    ct.printf("%8.2f %-9.3e[%+g] %a %G\n", tile, tile, half, tile, half)
    for dtype in ct.static_iter((ct.int8, ct.uint8, ct.int16, ct.uint16, ct.int32, ct.uint32, ct.int64, ct.uint64)):
        whole = ct.full((2,), n, ct.int64).astype(dtype)
        a = whole
        ct.printf("%d %5i|%-6d|%06d %u %x %#X %o %.3d\n", a, a, a, a, a, a, a, a, a)
    print(f"{n:>9}{n:<8}|{n:+}|{flag:d}", 'é "??/"')
    ct.assert_(flag, "never printed")


@needs_compiler
def test_print(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    x = np.array([[1.5, -0.0, np.inf, np.nan], [-np.nan, 1e30, -2.25, 1 / 3]], np.float32)
    h = np.array([0.1, -np.inf, np.nan, 65504], np.float16)
    for n in (5, -3, 1 << 30):
        args = (x, h, n, True)
        folder = tmp_path / str(n)
        folder.mkdir()
        run, _ = export(folder, prints, KernelSignature.from_kernel_args(prints, args, V2).parameters)
        ct.launch(None, (1,), prints, args, backend="cpu")
        expected = capfd.readouterr().out
        assert run(1, 1, 1, *arguments(prints, args)) == 0
        assert capfd.readouterr().out == expected and "nan" in expected


PROGRAM = """\
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "kernels.h"

int main(void) {
  float x[100], out[100];
  for (int i = 0; i < 100; i++) x[i] = i / 50.0f;
  int32_t status = affine(7, 1, 1, x, 100, 1, out, 100, 1, 0.5f, 3.0f);
  if (status != TILEWRIGHT_OK) return printf("%s\\n", kernels_last_error()), 1;
  for (int i = 0; i < 100; i++)
    if (fabsf(out[i] - (expf(x[i] * 0.5f) + 3.0f)) > 1e-5f) return printf("out[%d] is %f\\n", i, out[i]), 1;
  uint16_t half[32] = {0x3c00}, result[32]; /* 1.0 */
  status = affine_f16(1, 1, 1, half, 32, 1, result, 32, 1, 0.0f, 1.0f);
  if (status || result[0] != 0x4000) return printf("0x%x %s\\n", result[0], kernels_last_error()), 1;
  x[0] = -1;
  status = affine(7, 1, 1, x, 100, 1, out, 100, 1, 0.5f, 3.0f);
  if (status != TILEWRIGHT_ASSERTION_FAILED || !strstr(kernels_last_error(), "not negative")) return 1;
  return puts("fine") < 0;
}
"""


@needs_compiler
def test_a_c_program(tmp_path: Path) -> None:
    floats = [ScalarConstraint(ct.float32)] * 2
    signatures = [
        KernelSignature([array(1), array(1), *floats, 16], V2, "affine"),
        KernelSignature(
            [
                array(1, ct.float16),
                array(1, ct.float16),
                ScalarConstraint(ct.float32),
                ScalarConstraint(ct.float16),
                32,
            ],
            V2,
            "affine_f16",
        ),
    ]
    export_kernel(affine, signatures, tmp_path / "kernels.so", output_format="shared_library")
    (tmp_path / "main.c").write_text(PROGRAM)
    assert COMPILER is not None
    command = [
        *COMPILER,
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
        "-std=c99",
        "main.c",
        "./kernels.so",
        "-lm",
        "-o",
        "main",
    ]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout) == (0, "fine\n")


def test_the_compiler_of_ziglang_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ziglang")
    monkeypatch.setenv("CC", f"{sys.executable} -m ziglang cc")
    run, _ = export(tmp_path, gemm, [array(2), array(2), array(2), 16])
    a, out = np.eye(20, dtype=np.float32), np.zeros((20, 20), np.float32)
    assert run(2, 2, 1, *flat(a), *flat(a), *flat(out)) == 0
    np.testing.assert_array_equal(out, a)


def refused(kernel: Any = gemm, signatures: Any = None, **options: Any) -> None:
    signatures = [KernelSignature([array(2), array(2), array(2), 16], V2)] if signatures is None else signatures
    export_kernel(kernel, signatures, "nowhere", **{"output_format": "shared_library", **options})


MISTAKES: dict[str, tuple[Any, type[Exception], str]] = {
    "kernel": (lambda: refused(len), TypeError, "must be a kernel, not <built-in function len>"),
    "signature": (lambda: refused(signatures=["x"]), TypeError, r"it must be a sequence of KernelSignature"),
    "one signature": (lambda: refused(signatures=KernelSignature([], V2)), TypeError, "it must be a sequence of"),
    "no signature": (lambda: refused(signatures=[]), ValueError, "signatures is empty"),
    "format": (
        lambda: refused(output_format="exe"),
        ValueError,
        "unknown output_format 'exe'; the formats are shared_library, cubin,",
    ),
    "version": (lambda: refused(bytecode_version="1"), ValueError, "unknown bytecode_version '1'; they are '13.1'"),
    "cubin": (lambda: refused(output_format="cubin"), ValueError, "a cubin is for one architecture"),
    "target": (lambda: refused(gpu_code="sm_90"), ValueError, "gpu_code is 'sm_90', but shared_library is for"),
    "symbol": (
        lambda: refused(signatures=[KernelSignature([array(2), array(2), array(2), 16], V2, "a-b")]),
        ValueError,
        "the symbol 'a-b' is no name in C",
    ),
    "header": (
        lambda: export_kernel(
            gemm,
            [KernelSignature([array(2), array(2), array(2), 16], V2)],
            "kernels.h",
            output_format="shared_library",
        ),
        ValueError,
        "kernels.h is where the header would go",
    ),
    "constant": (
        lambda: refused(signatures=[KernelSignature([array(2), array(2), array(2), 1 << 64], V2)]),
        OverflowError,
        "'T' of gemm\\(\\) is 18446744073709551616, which does not fit in 64 bits",
    ),
    "keyword": (
        lambda: refused(signatures=[KernelSignature([array(2), array(2), array(2), 16], V2, "double")]),
        ValueError,
        "the symbol 'double' is no name in C",
    ),
    "same symbol": (
        lambda: refused(signatures=[KernelSignature([array(2), array(2), array(2), n], V2, "f") for n in (8, 16)]),
        ValueError,
        "two of the signatures have the symbol 'f'",
    ),
}


@pytest.mark.parametrize("make, error, words", MISTAKES.values(), ids=MISTAKES)
def test_mistakes(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


def test_a_compiler_that_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(ct.TileUnsupportedFeatureError, match="the C compiler 'no-such-compiler' cannot be run"):
        refused()
    monkeypatch.setenv("CC", "false")
    with pytest.raises(ct.TileCompilerExecutionError, match="the C compiler false failed: status 1"):
        refused()


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_a_cubin_that_prints(architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it prints goes to a variable of the cubin, which the JSON file says how to read."""
    pytest.importorskip("triton", reason="the package triton is not installed")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))

    @ct.kernel
    def talks(x):
        tile = ct.load(x, (0,), (8,))
        ct.print("block", ct.bid(0), tile)
        ct.assert_(tile > 0, "positive")

    file = tmp_path / "kernels.cubin"
    signatures = [KernelSignature([array(1, dtype=d)], V2, f"talks_{d}") for d in (ct.float32, ct.int32)]
    export_kernel(talks, signatures, file, gpu_code=architecture, output_format="cubin")
    content, launches = file.read_bytes(), json.loads(file.with_suffix(".json").read_text())
    for symbol, launch in launches.items():
        output = launch["output"]
        printed, failed = output["sites"]
        assert output["symbol"] == f"{symbol}_output" and f"{symbol}_output".encode() in content
        assert [v["shape"] for v in printed["values"]] == [[], [8]] and printed["words"] == 4 + 1 + 8
        assert (failed["assert"], failed["condition"]) == ("positive", {"dtype": "bool_", "shape": [8]})


def test_cubin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two variants in one file, made without a GPU: each symbol is there, and takes what the convention says."""
    pytest.importorskip("triton", reason="the package triton is not installed")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    file = tmp_path / "kernels.cubin"
    signatures = [KernelSignature([array(2), array(2), array(2), tile], V2, f"gemm{tile}") for tile in (16, 32)]
    export_kernel(gemm, signatures, file, gpu_code="sm_90", output_format="cubin")
    content = file.read_bytes()
    assert content[:4] == b"\x7fELF"
    memory = io.BytesIO()  # a conversion from f8 is inline assembly with a block of its own
    narrow = KernelSignature([array(1, dtype=ct.float8_e4m3fn), array(1)], V2, "widen")
    export_kernel(widen, [narrow], memory, gpu_code="sm_90", output_format="cubin")
    assert b".text.widen" in memory.getvalue()
    launches = json.loads(file.with_suffix(".json").read_text())
    assert list(launches) == ["gemm16", "gemm32"]
    for symbol, launch in launches.items():
        assert f".text.{symbol}".encode() in content
        assert launch["threads_per_block"] % 32 == 0 and launch["dynamic_shared_bytes"] >= 0
