"""Conversions of layouts by registers, shuffles and shared memory, checked by enumeration."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from tilewright.analysis.gpu.layout_conversion import (
    BANK_BYTES,
    BANKS,
    copy_layout,
    is_transposed,
    is_within_thread,
    shared_layout,
    within_warp,
)
from tilewright.ir.layouts import LANE, REGISTER, WARP, LinearLayout, log2
from tilewright.ir.ops.gpu.memory import is_vector
from tilewright.ir.ops.gpu.mma import accumulator_layout, operand_layouts

SEEDS = range(60)


def bank_conflicts(shared: LinearLayout, layout: LinearLayout, element_bytes: int, vector: int = 1) -> int:
    """How many different words of one bank are accessed at once, at most, when each lane accesses what it holds.

    By enumeration, over all registers and warps; 1 without conflicts. An access has ``vector`` elements.
    """
    offsets = shared.invert_and_compose(layout)
    bits = log2(vector)
    vector_bytes = element_bytes * vector
    at_once = 32 // max(vector_bytes // BANK_BYTES, 1)
    worst = 1
    table = offsets.table
    for warp in range(table.shape[2]):
        for register in range(table.shape[0]):
            for first in range(0, table.shape[1], at_once):
                words: dict[int, set[int]] = {}
                for offset in table[register, first : first + at_once, warp].tolist():
                    start = offset >> bits << bits
                    for byte in range(start * element_bytes, start * element_bytes + vector_bytes, BANK_BYTES):
                        words.setdefault(byte // BANK_BYTES % BANKS, set()).add(byte // BANK_BYTES)
                worst = max(worst, *(len(w) for w in words.values()))
    return worst


def random_distributed(rng: random.Random, size: int, warps: int, general: bool) -> LinearLayout:
    """A layout that holds each element: a permutation of bits, or any change of basis; free bits where it is small."""
    bits = size.bit_length() - 1
    flat = [1 << i for i in range(bits)]
    if general:
        for _ in range(2 * bits):
            i, j = rng.sample(range(bits), 2)
            flat[i] ^= flat[j]
    threads = 5 + warps
    flat += [0] * max(threads - bits, 0)
    rng.shuffle(flat)
    return LinearLayout(
        (size,), ((REGISTER, tuple(flat[threads:])), (LANE, tuple(flat[:5])), (WARP, tuple(flat[5:threads])))
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_within_a_warp(seed: int) -> None:
    """What it says is right; and a change of registers and lanes alone is always found."""
    rng = random.Random(seed)
    source = random_distributed(rng, 1 << rng.randrange(4, 10), 2, general=bool(seed % 2))
    other = random_distributed(rng, math.prod(source.shape), 2, general=False)
    inside = [*source.bases(REGISTER), *source.bases(LANE)]
    rng.shuffle(inside)
    moved = source.with_bases(LANE, inside[:5]).with_bases(REGISTER, inside[5:])
    registers = list(source.bases(REGISTER))
    rng.shuffle(registers)
    assert within_warp(source, moved) is not None
    own = within_warp(source, source.with_bases(REGISTER, registers))
    assert own is not None and is_within_thread(own)
    for target in (other, moved):
        conversion = within_warp(source, target)
        if conversion is None:
            continue
        where = conversion.table  # row-major over (register, lane, warp) of the source
        assert (source.table.ravel()[where] == target.table).all()
        warps = np.arange(4)
        assert (where % 4 == warps).all()


def test_other_warps_are_needed() -> None:
    source = LinearLayout((128,), ((REGISTER, ()), (LANE, (1, 2, 4, 8, 16)), (WARP, (32, 64))))
    target = LinearLayout((128,), ((REGISTER, ()), (LANE, (4, 8, 16, 32, 64)), (WARP, (1, 2))))
    assert within_warp(source, target) is None
    replicated = source.with_bases(WARP, (0, 0)).with_bases(REGISTER, (32, 64))
    assert within_warp(replicated, source) is not None  # each warp has everything


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("seed", SEEDS)
def test_shared_memory_has_no_bank_conflicts(seed: int, size: int) -> None:
    rng = random.Random(seed)
    elements = 1 << rng.randrange(5, 13)
    source, target = (random_distributed(rng, elements, 2, general=bool(seed % 2)) for _ in range(2))
    shared, vector = shared_layout(source, target, size)
    assert shared.is_injective and shared.is_surjective
    assert bank_conflicts(shared, source, size, vector) == 1
    assert bank_conflicts(shared, target, size, vector) == 1


@pytest.mark.parametrize("size", [2, 4])
def test_a_transpose_keeps_vectors_out_of_each_others_way(size: int) -> None:
    """Rows to columns: row-major memory would have every lane of a column in one bank."""
    vector = 16 // size
    rows = LinearLayout.blocked((64, 64), (1, vector), (32 * vector // 64, 64 // vector), (4, 1), (1, 0))
    columns = LinearLayout.blocked((64, 64), (vector, 1), (64 // vector, 32 * vector // 64), (1, 4), (0, 1))
    assert bank_conflicts(LinearLayout.row_major((64, 64)), columns, size) > 4
    shared, access = shared_layout(rows, columns, size)
    assert bank_conflicts(shared, rows, size, access) == bank_conflicts(shared, columns, size, access) == 1


def test_common_registers_make_vectors() -> None:
    source = LinearLayout.blocked((32, 64), (1, 4), (2, 16), (4, 1), (1, 0))
    target = LinearLayout.blocked((32, 64), (1, 4), (16, 2), (2, 2), (1, 0))
    shared, vector = shared_layout(source, target, 4)
    assert vector == 4
    for layout in (source, target):
        assert shared.invert_and_compose(layout).bases(REGISTER)[:2] == (1, 2)


@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
@pytest.mark.parametrize(("size", "instruction"), [(1, (16, 8, 32)), (2, (16, 8, 16)), (4, (16, 8, 8)), (8, (8, 8, 4))])
@pytest.mark.parametrize("shape", [(64, 64), (128, 32), (32, 128)])
def test_copies_of_operands_have_no_bank_conflicts(
    shape: tuple[int, int], size: int, instruction: tuple[int, int, int], order: tuple[int, int]
) -> None:
    """What is copied in runs of 16 bytes, and read as fragments of matrix products, along k or across."""
    vector, fast = 16 // size, order[0]
    registers, lanes = [1, 1], [1, 1]
    registers[fast] = vector
    lanes[fast] = min(shape[fast] // vector, 32)
    lanes[1 - fast] = 32 // lanes[fast]
    source = LinearLayout.blocked(shape, registers, lanes, (4, 1) if fast else (1, 4), order)
    for side in (0, 1):
        acc = accumulator_layout(instruction, (shape[0], 64) if side == 0 else (64, shape[1]), 4)
        target = operand_layouts(instruction, acc, shape[1 - side], 8 * size)[side]
        shared = copy_layout(source, target, size, vector)
        assert is_vector(shared, source, vector)
        assert bank_conflicts(shared, source, size, vector) == 1
        assert bank_conflicts(shared, target, size) == 1
        across = size == 2 and target.bases(LANE)[2:] == source.bases(REGISTER)[:3]
        assert is_transposed(source, target, size) == across or size != 2
        if across:
            bits = target.bases(REGISTER)
            rows = (bits[0], *target.bases(LANE)[:2], *bits[1:3])  # of four matrices, one after the other
            matrices = LinearLayout(shape, ((REGISTER, source.bases(REGISTER)[:3]), (LANE, rows), (WARP, ())))
            assert bank_conflicts(shared, matrices, size, vector) == 1
