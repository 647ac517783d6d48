"""Products of tfloat32, and of operands that pass through registers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends.triton.compiled_kernels import SINGLE, compiled, serialized, spills, tf32_product

import tilewright as ct
from tilewright.backends.triton.requirements import version

pytest.importorskip("triton", reason="the package triton is not installed")


@ct.kernel
def two_products(a, b, c, d):
    """Loops over tiles and K, then one over K."""
    for i in range(ct.bid(0), ct.cdiv(c.shape[0], 128), ct.num_blocks(0)):
        total = ct.zeros((128, 128), ct.float32)
        for k in range(ct.cdiv(a.shape[1], 32)):
            x, y = ct.load(a, (i, k), (128, 32)), ct.load(b, (k, 0), (32, 128))
            total = ct.mma(x.astype(ct.tfloat32), y.astype(ct.tfloat32), total)
        ct.store(c, (i, 0), total)
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 32)):
        x, y = ct.load(a, (0, k), (64, 32)), ct.load(b, (k, 0), (32, 64))
        total = ct.mma(x.astype(ct.tfloat32), y.astype(ct.tfloat32), total)
    ct.store(d, (0, 0), total)


def test_loops_with_one_product_each_have_deep_pipelines() -> None:
    choices = compiled(two_products, (SINGLE, SINGLE, SINGLE, SINGLE), "sm_90").binary.texts["compile decisions"]
    assert "pipeline stages: 3" in choices
    assert "warps per block: 8" in choices


def test_each_step_of_a_product_loads_its_own_registers(tmp_path: Path) -> None:
    """In every loop of a kernel, though the loops use the same names."""
    a = np.zeros((512, 512), np.float32)
    binary = compiled(two_products, (a, a, a, a), "sm_90", num_warps=8).binary
    lines = binary.texts["TTGIR"].splitlines()
    steps = [at for at, line in enumerate(lines) if "ttng.warp_group_dot " in line]
    loops = 2  # over K, inside of that over tiles and behind it
    per_loop, pending = (4, 3) if version() < (3, 7) else (2, 1)  # Triton takes 8 or 16 of K in a step
    assert len(steps) == loops * per_loop
    for at in steps:
        assert "ttg.local_load" in lines[at - 1]
        assert f"pendings = {pending}" in lines[at + 1]
    assert not serialized(binary.texts["PTX"], tmp_path)
    assert not spills(binary)


@pytest.mark.parametrize(
    ("a", "b", "shape", "register_operand"),
    [
        (SINGLE, SINGLE, (256, 128, 32), True),
        (SINGLE, SINGLE, (128, 128, 64), True),
        (SINGLE, SINGLE.T, (256, 128, 32), False),
        (SINGLE.T, SINGLE.T, (128, 128, 32), True),
    ],
)
def test_tf32_operands_are_rounded_by_the_copy_engine(
    a: Any, b: Any, shape: tuple[int, int, int], register_operand: bool, tmp_path: Path
) -> None:
    """At most one operand passes through registers, each step of a product has a load of its own, and steps overlap."""
    artifact = compiled(tf32_product, (a, b, SINGLE, *shape), "sm_90", num_stages=3)
    assert [d.rounds for d in artifact.descriptors] == [True, True, False]
    texts = artifact.binary.texts
    loop = texts["TTGIR"].partition("scf.for")[2].partition("scf.yield")[0]
    assert "local_alloc" not in loop
    ops = re.findall(r"ttg\.local_load|ttng\.warp_group_dot ", loop)
    assert ops[::2] == ["ttg.local_load"] * (len(ops) // 2) if register_operand else "ttg.local_load" not in ops
    assert not serialized(texts["PTX"], tmp_path)


@ct.kernel
def rounded(x, out):
    ct.store(out, (0, 0), ct.load(x, (0, 0), (64, 64), allow_tma=True).astype(ct.tfloat32).astype(ct.float32))


def test_conversions_that_are_seen_are_not_left_to_the_copy_engine() -> None:
    """It does not keep the bits of NaN."""
    assert [d.rounds for d in compiled(rounded, (SINGLE, SINGLE.copy()), "sm_90").descriptors] == [False, False]


@ct.kernel
def scaled_product(a, b, c):
    total = ct.zeros((128, 128), ct.float32)
    for k in range(ct.num_tiles(a, 1, (128, 64))):
        x = ct.load(a, (0, k), (128, 64)).astype(ct.float16)
        total = ct.mma(x, ct.load(b, (k, 0), (64, 128)), total)
    ct.store(c, (0, 0), total)


def test_a_computed_operand_stays_until_its_product_has_ended(tmp_path: Path) -> None:
    half = np.zeros((512, 512), np.float16)
    texts = compiled(scaled_product, (half.astype(np.int8), half, SINGLE), "sm_90", num_stages=3).binary.texts
    loop = texts["TTGIR"].partition("scf.for")[2].partition("scf.yield")[0]
    assert re.findall(r"pendings = (\d)", loop)[-1] == "0"
    assert not serialized(texts["PTX"], tmp_path)
