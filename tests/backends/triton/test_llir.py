"""Vectors that LLVM makes of index arithmetic promise nothing that the code generator could take for true."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright as ct

pytest.importorskip("triton", reason="the package triton is not installed")
from backends.triton.compiled_kernels import compiled

from tilewright.backends.triton.llir import without_promises


def test_only_vectors_lose_their_promises() -> None:
    text = """
  %1 = shl nuw nsw <2 x i32> %0, <i32 31, i32 5>
  %2 = or disjoint <8 x i32> %a, %b
  %3 = trunc nuw nsw <2 x i64> %c to <2 x i32>
  %4 = icmp samesign ult <4 x i32> %d, %e
  %5 = shl nuw nsw i32 %0, 5
  %6 = zext nneg i32 %5 to i64
  %7 = lshr exact <2 x i32> %0, splat (i32 3)"""
    wanted = """
  %1 = shl <2 x i32> %0, <i32 31, i32 5>
  %2 = or <8 x i32> %a, %b
  %3 = trunc <2 x i64> %c to <2 x i32>
  %4 = icmp ult <4 x i32> %d, %e
  %5 = shl nuw nsw i32 %0, 5
  %6 = zext nneg i32 %5 to i64
  %7 = lshr <2 x i32> %0, splat (i32 3)"""
    assert without_promises(text) == wanted


@ct.kernel
def product(x, y, out):
    total = ct.zeros((16, 32), ct.float64)
    for k in range(ct.cdiv(x.shape[0], 32)):
        a = ct.load(x, (ct.bid(0), k), (16, 32), order="F", padding_mode=ct.PaddingMode.ZERO)
        b = ct.load(y, (k, ct.bid(1)), (32, 32), order="F", padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(a, b, total)
    ct.store(out, (ct.bid(0), ct.bid(1)), total)


def test_the_number_of_a_thread_stays_out_of_the_place_of_its_block() -> None:
    """Eight masks of loads that run ahead are a vector, with shifts by 31 that nobody needs; Triton 3.6 let them reach
    the column of the block. With 3.9 there are none."""
    x, y = np.zeros((36, 19))[1:, 1:17], np.zeros((64, 35))[:, ::-1]
    texts = compiled(product, (x, y, np.zeros((16, 64))), "sm_90").binary.texts
    assert "pipeline stages: 8" in texts["compile decisions"]
    assert not re.search(r"mul\.wide\.u32\s+%rd\d+, %r\d+, 2147483648;", texts["PTX"])
    assert not re.search(r"= \w+ (nuw|nsw|exact|disjoint)\b[^=]*<\d+ x i\d+>", texts["LLVM IR"])
