"""What is compiled wrongly is refused, and named."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as ct

pytest.importorskip("triton", reason="the package triton is not installed")
from backends.triton.compiled_kernels import compiled

from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.triton.known_faults import in_integers

SM_80, SM_90 = parse_target("sm_80"), parse_target("sm_90")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("\tadd.s16x2 \t%r1, %r2, %r3;", "add.s16x2"),
        ("\tneg.s16 \t%rs1, %rs2;", "neg.s16"),
        ("@%p1 abs.s32 \t%r1, %r2;", "abs.s32"),
        ("\tmin.u16 \t%rs1, %rs2, %rs3;", "min.u16"),
        ("\tmma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32 {%r1}, {%r2}, {%r3}, {%r1};",
         "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32"),
    ],
)  # fmt: skip
def test_instructions_on_integers(line: str, name: str) -> None:
    texts = {"llir": "", "ptx": f"\tadd.s32 \t%r1, %r2, %r3;\n{line}\n\tret;"}
    assert in_integers(texts, SM_90, (3, 6)) == name
    assert in_integers(texts, SM_80, (3, 6)) == (None if name == "min.u16" else name)  # of two pairs, from Hopper on


def test_other_instructions() -> None:
    lines = "\tmin.s32 \t%r1, %r2, %r3;\n\tadd.s16 \t%rs1, %rs2, %rs3;\n\tadd.f16x2 \t%r1, %r2, %r3;\n$L__BB0_1:\n"
    assert in_integers({"llir": "  %1 = shl nuw <2 x i32> %0, splat (i32 16)", "ptx": lines}, SM_90, (3, 6)) is None


def test_shifts_of_vectors_of_which_not_all_may_be_used() -> None:
    texts = {"llir": "  %1 = shl nuw nsw <2 x i32> %0, <i32 31, i32 5>", "ptx": ""}
    assert in_integers(texts, SM_90, (3, 6)) == "shl of vectors" and in_integers(texts, SM_90, (3, 9)) is None


@ct.kernel
def integers(x, y, out):
    a, b = ct.load(x, (0,), (256,)), ct.load(y, (0,), (256,))
    ct.store(out, (0,), abs(ct.maximum(a, -b) + ct.minimum(a, b) - a))


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_the_language_has_other_instructions_for_integers(dtype: type, target: str) -> None:
    arrays = tuple(np.zeros(256, dtype) for _ in range(3))
    ptx = compiled(integers, arrays, target).binary.texts["PTX"]
    assert "abs.s" not in ptx and "16x2" not in ptx


@ct.kernel
def product(a, b, c):
    total = ct.mma(ct.load(a, (0, 0), (32, 32)), ct.load(b, (0, 0), (32, 32)), ct.zeros((32, 32), ct.int32))
    ct.store(c, (0, 0), total)


def test_products_of_integers_are_refused_where_they_saturate() -> None:
    arrays = np.zeros((32, 32), np.int8), np.zeros((32, 32), np.int8), np.zeros((32, 32), np.int32)
    with pytest.raises(
        ct.TileUnsupportedFeatureError, match="satfinite.* compiled wrongly for sm_80; use the backend 'gpu'"
    ):
        compiled(product, arrays, "sm_80")
