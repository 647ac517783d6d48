"""Kernels and arrays that several tests compile without a GPU."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.triton.backend import compile_for
from tilewright.backends.triton.resource_usage import resource_usage
from tilewright.gpu_runtime.artifact import Artifact, GpuBinary
from tilewright.runtime.launch import specialization
from tilewright.runtime.launchable import Launchable


def compiled(kernel: Launchable, args: tuple[Any, ...], target: str, **options: Any) -> Artifact:
    return compile_for(specialization(kernel, args, "reference").function, parse_target(target), options)


@ct.kernel
def product(a, b, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((TM, TN), ct.float32)
    for k in range(ct.num_tiles(a, 1, (TM, TK))):
        x = ct.load(a, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, (k, j), (TK, TN), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, y, total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def product_of_transposed(a, b, c, K: ct.Constant[int], ALONG: ct.Constant[bool], FAST: ct.Constant[bool]):
    x, y = ct.load(a, (0, 0), (128, K)), ct.load(b, (0, 0), (K, 128), order="F" if ALONG else "C")
    ct.store(c, (0, 0), ct.mma(x, y, ct.zeros((128, 128), ct.float32), use_fast_acc=FAST))


HALF = np.zeros((512, 512), ml_dtypes.bfloat16)
PRODUCT_ARGS = (HALF, HALF, HALF, 128, 256, 64)


def spills(binary: GpuBinary) -> bool:
    """Whether what the assembler made keeps values of a thread in memory."""
    return resource_usage(binary, parse_target("sm_90"))["bytes of stack and spilled registers per thread"] > 0


@ct.kernel
def handshake(x, out, N: ct.Constant[int]):
    tile = ct.load(x, 0, N, memory_order=ct.MemoryOrder.ACQUIRE, memory_scope=ct.MemoryScope.DEVICE)
    ct.store(out, 0, tile, memory_order=ct.MemoryOrder.RELEASE, memory_scope=ct.MemoryScope.SYS)


@ct.kernel
def tf32_product(a, b, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((TM, TN), ct.float32)
    for k in range(ct.num_tiles(a, 1, (TM, TK))):
        x = ct.load(a, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, (k, j), (TK, TN), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x.astype(ct.tfloat32), y.astype(ct.tfloat32), total)
    ct.store(c, (i, j), total.astype(c.dtype))


def assembler(target: str) -> Path:
    """The program that Triton uses for ``target``."""
    get_ptxas = importlib.import_module("triton.backends.nvidia.compiler").get_ptxas
    return Path(get_ptxas(parse_target(target).capability).path)


def disassembler(target: str) -> str:
    return str(assembler(target).with_name("nvdisasm"))


def serialized(ptx: str, folder: Path) -> bool:
    """Whether the assembler waits for each matrix instruction."""
    path = folder / "kernel.ptx"
    path.write_text(ptx)
    command = [
        str(assembler("sm_90")),
        "--gpu-name=sm_90a",
        "-v",
        str(path),
        "-o",
        str(folder / "kernel.cubin"),
    ]
    report = subprocess.run(command, capture_output=True, text=True, check=True)
    return "are serialized" in report.stdout + report.stderr


@ct.kernel
def persistent(a, b, c):
    columns = ct.cdiv(c.shape[1], 256)
    for tile in range(ct.bid(0), ct.cdiv(c.shape[0], 128) * columns, ct.num_blocks(0)):
        i, j = tile // columns, tile % columns
        total = ct.zeros((128, 256), ct.float32)
        for k in range(ct.cdiv(a.shape[1], 64)):
            x = ct.load(a, (i, k), (128, 64), padding_mode=ct.PaddingMode.ZERO)
            total = ct.mma(x, ct.load(b, (k, j), (64, 256), padding_mode=ct.PaddingMode.ZERO), total)
        ct.store(c, (i, j), total.astype(c.dtype))


SINGLE = np.zeros((512, 512), np.float32)


@ct.kernel
def persistent_product(a, b, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    columns = ct.cdiv(c.shape[1], TN)
    for tile in range(ct.bid(0), ct.cdiv(c.shape[0], TM) * columns, ct.num_blocks(0)):
        i, j = tile // columns, tile % columns
        total = ct.zeros((TM, TN), ct.float32)
        for k in range(ct.cdiv(a.shape[1], TK)):
            x = ct.load(a, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
            y = ct.load(b, (k, j), (TK, TN), padding_mode=ct.PaddingMode.ZERO)
            total = ct.mma(x, y, total)
        ct.store(c, (i, j), total.astype(c.dtype))
