"""Products for processors other than this one: their listings, and results where this one can run the code."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import numpy as np
import pytest
from backends.cpu.comparison import compare
from support.irbuild import KernelBuilder

from tilewright.backends.cpu import compiler
from tilewright.backends.cpu.jit import assemble
from tilewright.backends.cpu.target import Processor, described
from tilewright.ir.core import Function
from tilewright.ir.dtypes import DType, float32, float64
from tilewright.ir.ops.linear import Mma

AVX2 = described("x86_64-unknown-linux-gnu", "x86-64-v3", dict.fromkeys(("avx", "avx2", "fma", "f16c", "bmi2"), True))
AVX512 = described(
    "x86_64-unknown-linux-gnu", "x86-64-v4", dict.fromkeys(("avx512f", "avx512vl", "avx512bw", "avx512dq", "fma"), True)
)
NEON = described("aarch64-unknown-linux-gnu", "neoverse-n1", {})
# Multiply-adds of whole registers in the inner loop: four steps of the accumulators that each has room for.
SHAPES = [(AVX512, r"vfmadd\w+ps .*zmm", 4 * 24), (AVX2, r"vfmadd\w+ps .*ymm", 4 * 12), (NEON, r"fmla .*4s", 4 * 16)]


def product(m: int, n: int, k: int, dtype: DType = float32) -> Function:
    b = KernelBuilder()
    arrays = [b.array(name, dtype, 2) for name in "xyz"]
    zero = [b.constant(0)] * 2
    x, y, z = (b.load_tile(a, s, zero) for a, s in zip(arrays, ((m, k), (k, n), (m, n))))
    b.store_tile(arrays[2], b.emit(Mma, x, y, z), zero)
    return b.function()


@pytest.mark.parametrize(("processor", "multiply_add", "count"), SHAPES, ids=lambda v: getattr(v, "cpu", None))
def test_accumulators_stay_in_registers(processor: Processor, multiply_add: str, count: int) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    text = compiler.lower(compiler.optimize(product(64, 64, 64)), processor).text
    blocks = re.split(r"\n\.L\w+:", assemble(text, processor, verbose=True))
    found = [len(re.findall(multiply_add, b.replace("\t", " "))) for b in blocks]
    assert max(found) == count
    inner = re.split(r"\n\t(?:j|b\.)\w+", blocks[found.index(max(found))])[0]
    assert not re.search("Spill|Reload", inner)


@pytest.mark.skipif(not compiler.host().features.wide, reason="this processor may have no AVX2")
@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda t: t.short)
@pytest.mark.parametrize("shape", [(1, 64, 8), (8, 16, 4), (16, 8, 2), (32, 4, 16), (64, 32, 8), (128, 128, 1)])
def test_rows_that_are_left_over(shape: tuple[int, int, int], dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The accumulators for AVX2 have six rows."""
    monkeypatch.setattr(compiler, "host", lambda: AVX2)
    m, n, k = shape
    draw = np.random.default_rng(0).integers
    x, y, z = (draw(-9, 9, s).astype(dtype.storage) for s in ((m, k), (k, n), (m, n)))
    compare(product(m, n, k, dtype), x=x, y=y, z=z)
