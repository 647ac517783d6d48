"""Kernels that do not fit or take too long, and compilers that fail: what is said then."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from backends.triton.compiled_kernels import HALF, PRODUCT_ARGS, compiled, handshake, persistent, product

import tilewright as ct
from tilewright.backends.triton.backend import TritonBackend
from tilewright.runtime.launch import specialization

pytest.importorskip("triton", reason="the package triton is not installed")


def test_tiles_that_registers_cannot_hold(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    with pytest.raises(ct.TileError, match=r"f32\[1024,512\] takes 2048 registers .* 256 threads .* which have 255"):
        compiled(product, (HALF, HALF, HALF, 1024, 512, 64), "sm_90")

    def fail(*_: Any, **__: Any) -> None:
        print("a page of PTX")
        raise RuntimeError("ptxas fatal: (C7600) Register allocation failed with register count of '255'")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("triton.compile", fail)
    with pytest.raises(ct.TileError, match=r"more than the 255 registers of a thread, with 8 warps .* compiler is in"):
        compiled(product, PRODUCT_ARGS, "sm_90")
    with pytest.raises(ct.TileError, match=r"more than the 64 registers of a thread that maxnreg .* a larger limit,"):
        compiled(product, PRODUCT_ARGS, "sm_90", maxnreg=64)
    assert capfd.readouterr() == ("", "")
    report = min(tmp_path.glob("tilewright-gpu-*.ttir"), key=lambda p: "maxnreg" in p.read_text())
    assert "// a page of PTX" in report.read_text()
    monkeypatch.undo()
    command = re.search(r"^// (triton\.compile\(.*\))$", report.read_text(), re.MULTILINE)
    assert command is not None
    triton = importlib.import_module("triton")
    repeated = eval(command[1], {"triton": triton, "GPUTarget": triton.backends.compiler.GPUTarget})
    assert "mma.sync" in repeated.asm["ptx"] or "wgmma" in repeated.asm["ptx"]


def test_tiles_that_shared_memory_cannot_hold() -> None:
    @ct.kernel
    def turn(x, out):
        ct.store(out, (0, 0), ct.transpose(ct.load(x, (0, 0), (256, 512))))

    large = np.zeros((1024, 1024), np.float32)
    words = r"operands .* and f32\[{},256\] of an MMA op need {} bytes of shared memory, and this GPU has {} per block"
    for target, depth, *sizes in (("sm_90", 256, 262144, 232448), ("sm_80", 256, 262144, 166912)):
        with pytest.raises(ct.TileError, match=words.format(depth, *sizes)):
            compiled(product, (large, large, large, 256, 256, depth), target)
    with pytest.raises(ct.TileError, match=r"needs 524288 bytes .* has 166912; its largest tile is f32\[256,512\]"):
        compiled(turn, (large, large), "sm_80")
    half = np.zeros((1024, 1024), np.float16)
    with pytest.raises(ct.TileError, match=r"has 232448; its largest tile is f32\[128,256\]\."):
        compiled(persistent, (half, half, half), "sm_90", num_stages=8)
    with pytest.raises(ct.TileError, match=r"the tile f32\[256,256\] takes 512 registers .* of the 128 threads"):
        compiled(carrying, (np.zeros((4096, 4096), np.float32), large), "sm_80", num_warps=4)


@ct.kernel
def carrying(x, out):
    total = ct.zeros((256, 256), ct.float32)
    steps = 0
    for k in range(ct.cdiv(x.shape[1], 256)):
        total = ct.mma(ct.load(x, (0, k), (256, 16)), ct.load(x, (k, 0), (16, 256)), total)
        steps += ct.bid(0)
    ct.store(out, (0, 0), total + steps)


def test_a_compilation_that_takes_too_long_leaves_the_output_alone(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    begun, going, ended = threading.Event(), threading.Event(), threading.Event()
    seconds = 0.25

    def endless(*_: Any, **__: Any) -> None:
        begun.set()
        going.wait(300)
        ended.set()
        raise RuntimeError("nobody listens")

    monkeypatch.setattr("triton.compile", endless)
    while not begun.is_set():  # else the limit came before the compiler
        seconds *= 2
        with ct.compiler_timeout(seconds), pytest.raises(ct.TileCompilerTimeoutError, match=r"product\(\) took longer"):
            product.compile_for("sm_90", PRODUCT_ARGS)
    print("output")
    os.write(2, b"error")
    assert capfd.readouterr() == ("output\n", "error")
    going.set()
    assert ended.wait(300)


def test_a_process_ends_in_peace_while_a_compilation_goes_on(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np, tilewright as ct\n\ndef waves(x, out):\n    t = ct.load(x, 0, 4096)\n"
        + "    t = ct.sin(t) + t\n" * 6
        + "    ct.store(out, 0, t)\n\nx, seconds = np.zeros(4096, np.float32), 0.1\nimport triton\n"
        "try:\n    while True:\n        with ct.compiler_timeout(seconds):\n"
        "            ct.kernel(waves).compile_for('sm_90', (x, x))\n        seconds /= 2  # on a quick machine\n"
        "except ct.TileCompilerTimeoutError:\n    print('late')\n"
    )
    environment = {
        **os.environ,
        "TILEWRIGHT_BACKEND": "triton",
        "TILEWRIGHT_CACHE_DIR": "off",
        "TRITON_CACHE_DIR": str(tmp_path / "cache"),
    }
    command = [sys.executable, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "late\n", ""), done


def test_a_first_compilation_does_not_read_all_of_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = importlib.import_module("triton.runtime.cache")
    monkeypatch.setattr(cache, "triton_key", lambda: pytest.fail("it takes longer than the compilation"))
    before = cache.triton_key
    compiled(handshake, (np.zeros(128, np.float32),) * 2 + (64,), "sm_90")
    assert cache.triton_key is before


def test_kernels_that_would_compile_for_minutes() -> None:
    @ct.kernel
    def wave(x, out, N: ct.Constant[int]):
        ct.store(out, 0, ct.sin(ct.load(x, 0, N)))

    x = np.zeros(1 << 20, np.float32)
    with pytest.raises(ct.TileError, match=r"f32\[1048576\] takes 1024 registers .* in each of the 1024 threads"):
        compiled(wave, (x, x, 1 << 20), "sm_90")

    @ct.kernel
    def unrolled(x):
        for i in ct.static_iter(range(200)):
            ct.store(x, i, ct.load(x, i + 1, 16))

    with pytest.raises(ct.TileError, match=r"has 400 loads, .* takes minutes for more than 320; loop over range"):
        compiled(unrolled, (x,), "sm_90")


def test_gpus_that_cannot_run_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.gpu_runtime.driver.device", lambda _: SimpleNamespace(capability=75))
    with pytest.raises(ct.TileError, match=r"cannot run kernels: sm_75 is not supported: .* sm_80, sm_86, "):
        TritonBackend().compile(specialization(product, PRODUCT_ARGS, "reference").function, {})


def test_a_failure_of_the_compiler_names_a_report(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tilewright.backends.triton.ttir.kernel.entry_name", lambda name: "not a name")
    with pytest.raises(
        ct.TileError, match="the GPU compiler failed on this kernel for sm_90; its report is in"
    ) as error:
        compiled(product, PRODUCT_ARGS, "sm_90")
    report = str(error.value).split()[-1]
    with open(report) as f:
        assert "not a name" in f.read()
