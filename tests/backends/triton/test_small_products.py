"""Products of few rows, columns and batches, and where the TMA unit has no part in them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from backends.triton.compiled_kernels import compiled, disassembler

import tilewright as ct

pytest.importorskip("triton", reason="the package triton is not installed")
from tilewright.ir.gpu_parameters import SMALLEST_BYTES, Descriptor


@ct.kernel
def batches(x, y, out, B: ct.Constant[int], M: ct.Constant[int], K: ct.Constant[int], N: ct.Constant[int]):
    a, b = ct.load(x, (0, 0, 0), (B, M, K)), ct.load(y, (0, 0, 0), (B, K, N))
    ct.store(out, (0, 0, 0), ct.mma(a, b, ct.zeros((B, M, N), out.dtype)))


_SUMS = {np.float16: np.float32, np.float64: np.float64, ml_dtypes.float8_e5m2: np.float32}


@pytest.mark.parametrize("dtype", _SUMS)
@pytest.mark.parametrize("columns", [1, 2, 8])
def test_batches_have_the_columns_of_an_instruction(dtype: Any, columns: int) -> None:
    """With one column, Triton lets the sums of a batch be where those of the one before are."""
    sizes = 16, 4, 32, columns
    x, y, out = (np.zeros((16, *shape), dtype) for shape in ((4, 32), (32, columns), (4, columns)))
    artifact = compiled(batches, (x, y, out.astype(_SUMS[dtype]), *sizes), "sm_90")
    found = re.findall(r"tt\.dot .* -> tensor<16x\d+x(\d+)x", artifact.binary.texts["TTIR"])
    assert found and all(int(n) >= 8 for n in found)


def test_descriptors_of_smaller_tiles_are_faults_of_the_compiler() -> None:
    extents, strides = (("c", 64, 1),) * 2, (("c", 64, 1), ("c", 1, 1))
    Descriptor(0, extents, strides, (0, 1), (SMALLEST_BYTES // 32, 16), "f16")
    with pytest.raises(AssertionError):
        Descriptor(0, extents, strides, (0, 1), (SMALLEST_BYTES // 64, 16), "f16")


@ct.kernel
def looks(x, out):
    i = ct.bid(0)
    ct.load(x, (i % 40, i % 17), (), memory_order=ct.MemoryOrder.ACQUIRE, memory_scope=ct.MemoryScope.DEVICE)
    ct.store(out, (i,), i)


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.float32, np.float64])
def test_an_acquiring_load_that_nobody_reads_is_in_the_machine_code(dtype: Any, tmp_path: Path) -> None:
    """What ptxas made of it without its load was no instruction."""
    path = tmp_path / "kernel.cubin"
    arguments = np.zeros((64, 64), dtype)[::2, ::2], np.zeros(80, np.int32)
    path.write_bytes(compiled(looks, arguments, "sm_90").binary.code)
    command = [disassembler("sm_90"), "-c", str(path)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert re.search(r"LDG\S*\.STRONG", listing)
