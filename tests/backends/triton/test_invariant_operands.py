"""Left operands that a loop does not change are in shared memory where other products of the loop use registers."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from gpu.test_assembler import scaled_queries
from support.left_operands import clobbered

import tilewright as ct
from tilewright.backends.triton import invariant_operands

pytest.importorskip("triton", reason="the package triton is not installed")

BRAIN, SINGLE = np.zeros((512, 64), ml_dtypes.bfloat16), np.zeros((512, 64), np.float32)


@ct.kernel
def alternating(a, b, out):
    """The sum of one product, in registers, is the left operand of the next; that of the first stays."""
    left = ct.where(ct.load(a, (0, 0), (64, 64)) > 0, 1.0, -1.0).astype(ct.bfloat16)
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.num_tiles(b, 0, (64, 64))):
        first = ct.mma(left, ct.maximum(ct.load(b, (k, 0), (64, 64)), 0), ct.zeros((64, 64), ct.float32))
        total = ct.mma((first % 2).astype(ct.bfloat16), ct.load(b, (k, 0), (64, 64)), total)
    ct.store(out, (0, 0), total)


@pytest.mark.parametrize(
    ("kernel", "arguments"),
    [(scaled_queries, (BRAIN, BRAIN, BRAIN, SINGLE, 0.5, 64, 64)), (alternating, (BRAIN, BRAIN, SINGLE))],
)
def test_no_product_reads_registers_that_its_loop_does_not_set(kernel, arguments) -> None:
    text = kernel.compile_for("sm_90", arguments).stage("PTX")
    assert text.count("wgmma.mma_async") > 1
    assert clobbered(text) == []


def test_what_a_loop_does_not_change_is_in_memory() -> None:
    text = scaled_queries.compile_for("sm_90", (BRAIN, BRAIN, BRAIN, SINGLE, 0.5, 64, 64)).stage("TTGIR")
    operands = re.findall(r"ttng\.warp_group_dot [^:]* : (!ttg\.memdesc|tensor)<", text)
    assert operands == ["!ttg.memdesc", "tensor"]


OPERAND = "tensor<64x64xbf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>"
RIGHT, SUM = "!ttg.memdesc<64x64xbf16, #shared, #smem, mutable>", "tensor<64x64xf32, #mma>"


def product(result: str, left: str, total: str) -> str:
    return f"{result} = ttng.warp_group_dot {left}, %right, {total} {{isAsync = true}} : {OPERAND} * {RIGHT} -> {SUM}"


def wait(result: str, total: str, left: str) -> str:
    return f"{result}:3 = ttng.warp_group_dot_wait {total}, %right, {left} {{pendings = 0 : i32}} : {SUM}, {RIGHT}, {OPERAND}"


def test_the_copy_is_made_once_and_waits_know_of_it() -> None:
    text = "\n".join(
        [
            f"  %kept = arith.truncf %x : tensor<64x64xf32, #mma> to {OPERAND}",
            "  %r = scf.for %i = %zero to %n step %one iter_args(%sum = %none) -> (tensor<64x64xf32, #mma>)  : i32 {",
            "    scf.for %j = %zero to %n step %one  : i32 {",
            f"      {product('%1', '%kept', '%none')}",
            f"      {wait('%2', '%1', '%kept')}",
            f"      %own = arith.truncf %2#0 : tensor<64x64xf32, #mma> to {OPERAND}",
            f"      {product('%3', '%own', '%sum')}",
            f"      {wait('%4', '%3', '%own')}",
            "    }",
            f"    {product('%5', '%kept', '%sum')}",
            "    scf.yield %5 : tensor<64x64xf32, #mma>",
            "  }",
        ]
    )
    lines = invariant_operands.keep_in_shared_memory(text).split("\n")
    copy = lines[1].split(" = ")[0].strip()
    assert "ttg.local_alloc %kept :" in lines[1] and lines[2].strip().startswith("ttng.fence_async_shared")
    uses = [line for line in lines[4:] if copy in line]
    assert len(uses) == 3 and not any("%kept," in line for line in lines[4:])
    assert uses[1].count("memdesc") == 2 and uses[1].endswith("#ttg.shared_memory>")
    assert lines.count(f"      {product('%3', '%own', '%sum')}") == 1


def test_one_product_of_a_loop_keeps_its_registers() -> None:
    text = (
        f"  %kept = arith.truncf %x : tensor<64x64xf32, #mma> to {OPERAND}\n  scf.for %i = %a to %n step %b  : i32 {{\n"
    )
    text += f"    {product('%1', '%kept', '%none')}\n  }}\n  {product('%2', '%other', '%none')}"
    assert invariant_operands.keep_in_shared_memory(text) == text
