"""Products that are joined add the same products of the same operands to the same sums, for any straight line of PTX;
those of kernels with tiles side by side are joined."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest

import tilewright as ct

pytest.importorskip("triton", reason="the package triton is not installed")
from tilewright.backends.triton import wgmma_merging

_LAYOUTS = {64: 0x40000040, 32: 0x80000020}  # the upper half of the descriptor of a tile of so many columns
_PRODUCT = re.compile(
    r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16\.f32\.f16\.f16 \{(.*?)\}, (%rd\d+), (%rd\d+), (%p\d+), 1, 1, 0, 1;"
)
Term = tuple[int, int, int]  # the left operand, the place of a part of the right one, and whether the sum is kept


def product(columns: int, sums: Sequence[str], left: str, right: str, adds: str) -> str:
    form = f"m64n{columns}k16.f32.f16.f16"
    return f"\twgmma.mma_async.sync.aligned.{form} {{{','.join(sums)}}}, {left}, {right}, {adds}, 1, 1, 0, 1;"


def text_of(rng: random.Random) -> str:
    """Groups of products whose right operands are often equally far apart, and sometimes something else in between. The
    same right operands, or some of them, may follow for other left ones."""
    steps, late, usual = rng.choice((1, 2, 4)), rng.random() < 0.5, rng.choice((32, 64))
    distances = rng.choice(((8192,), (4096, 8192, 8192, 8192, 8192, 24)))
    places = [rng.choice(distances) * k for k in range(rng.randrange(1, 6))]
    if rng.random() < 0.2:
        rng.shuffle(places)
    rows = rng.choice((1, 1, 2, 3))
    lines = ["\tmov.pred \t%p1, -1;", "\tcvt.u64.u32 \t%rd1, %r1;"]
    lines += [f"\tadd.s64 \t%rd{10 + k}, %rd1, {(_LAYOUTS[64] << 32) + 2 * k};" for k in range(rows * steps)]
    number = 100
    made: dict[tuple[int, int], tuple[str, int]] = {}
    others = [places, *(rng.choice((places, places, places[::2], places[:-1])) for _ in range(rows - 1))]
    groups = [(row, place) for row, those in enumerate(others) for place in those]
    for group, (row, place) in enumerate(groups):
        columns = usual if rng.random() < 0.97 else 96 - usual
        address, unit, extended = (f"%r{20 + 3 * group + k}" for k in range(3))
        lines.append(f"\tadd.s32 \t{address}, %r2, {place};")
        lines.append(f"\tbfe.u32 \t{unit}, {address}, 4, 14;")
        lines.append("\twgmma.fence.sync.aligned;")
        sums = [f"%r{1000 + 32 * (group if rng.random() < 0.95 else 0) + k}" for k in range(columns // 2)]
        for k in range(steps):
            if (place, k) not in made or made[place, k][1] != columns or rng.random() < 0.02:
                number += 2
                made[place, k] = f"%rd{number + 1}", columns
                layout, step = _LAYOUTS[columns] << 32, 2 * columns * k
                if late:
                    lines.append(f"\tadd.s32 \t{extended}, {unit}, {step};")
                    lines.append(f"\tcvt.u64.u32 \t%rd{number}, {extended};")
                    lines.append(f"\tor.b64 \t%rd{number + 1}, %rd{number}, {layout};")
                else:
                    lines.append(f"\tcvt.u64.u32 \t%rd{number}, {unit};")
                    lines.append(f"\tadd.s64 \t%rd{number + 1}, %rd{number}, {layout + step};")
            left = 10 + row * steps + (k if rng.random() < 0.98 else 0)
            adds = "%p0" if k == 0 and rng.random() < 0.99 else "%p1"
            lines.append(product(columns, sums, f"%rd{left}", made[place, k][0], adds))
        lines.append("\twgmma.commit_group.sync.aligned;")
        if rng.random() < 0.15:
            lines.append(
                rng.choice(
                    [
                        "\tbar.sync \t0;",
                        "\tmov.b32 \t%r1032, 7;",
                        "\tadd.s32 \t%r2, %r2, 64;",
                        f"\tadd.s64 \t%rd10, %rd1, {(_LAYOUTS[64] << 32) + 4};",
                        "\tmov.pred \t%p0, -1;",
                        "$L__BB0_1:",
                        "\tadd.s32 \t%r3, %r2, 64;",
                        "\tmov.b64 \t{%r2, %r4}, %rd1;",
                    ]
                )
            )
    waits = [f"\twgmma.wait_group.sync.aligned {n};" for n in (0, len(groups), rng.randrange(4))]
    return "\n".join([*lines, *rng.sample(waits, 2)])


def run(text: str) -> tuple[dict[str, list[Term]], list[int]]:
    """What each register of a sum has been given, and how many groups with products are in flight after each wait."""
    values = {"%r1": 0x1000, "%r2": 0x8000, "%p0": 0, "%p1": 0}
    found: dict[str, list[Term]] = {}
    left: list[int] = []
    filled = False

    def value(name: str) -> int:
        return values[name] if name in values else int(name)

    flights: list[bool] = []
    for line in text.split("\n"):
        line = line.strip()
        if (mma := _PRODUCT.fullmatch(line)) is not None:
            filled = True
            sums, right = mma[2].split(","), value(mma[4])
            stride, registers = right >> 16 & 0x3FFF, 32 if right >> 32 == _LAYOUTS[64] else 16
            for k, register in enumerate(sums):
                part = (right & 0x3FFF) + (k // registers or len(sums) == registers) * stride
                found.setdefault(register, []).append((value(mma[3]), part << 5 | k % registers, value(mma[5])))
        elif line == "wgmma.commit_group.sync.aligned;":
            flights.append(filled)
            filled = False
        elif (wait := re.fullmatch(r"wgmma\.wait_group\.sync\.aligned (\d+);", line)) is not None:
            del flights[: max(len(flights) - int(wait[1]), 0)]
            left.append(sum(flights))
        elif (halves := re.fullmatch(r"mov\.b64\s+\{(%r\d+), (%r\d+)\}, (%rd\d+);", line)) is not None:
            values[halves[1]], values[halves[2]] = value(halves[3]) & 0xFFFFFFFF, value(halves[3]) >> 32
        elif (op := re.fullmatch(r"(\w+)(\.\w+)*\s+(\S+), (.*);", line)) is not None:
            numbers = [value(o) for o in op[4].split(", ")]
            values[op[3]] = {
                "mov": lambda n: n[0],
                "cvt": lambda n: n[0],
                "add": lambda n: n[0] + n[1],
                "or": lambda n: n[0] | n[1],
                "bfe": lambda n: n[0] >> n[1] & ((1 << n[2]) - 1),
            }[op[1]](numbers)
            if op[3] in found or re.fullmatch(r"%r1\d\d\d", op[3]):
                found.setdefault(op[3], []).append((-1, values[op[3]], 0))
    return found, left


def test_joined_products_are_the_same() -> None:
    sizes: Counter[int] = Counter()
    for seed in range(1200):
        text = text_of(random.Random(seed))
        joined = wgmma_merging.merge(text)
        sums, in_flight = run(joined)
        expected, groups = run(text)
        assert sums == expected, text
        widths = [int(n) for n in re.findall(r"m64n(\d+)k16", joined)]
        sizes.update(widths)
        assert all(n == 0 for n, m in zip(in_flight, groups) if m == 0), text
        assert all(n <= m for n, m in zip(in_flight, groups)), text
    assert all(sizes[n] > 40 for n in (32, 64, 96, 128, 192, 256)) and max(sizes) == 256


@ct.kernel
def side_by_side(a, b, c, TN: ct.Constant[int], SAME: ct.Constant[bool]):
    i, j = ct.bid(0), ct.bid(1)
    left = middle = right = ct.zeros((128, TN), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 64)):
        x = ct.load(a, (i, k), (128, 64))
        y = x if SAME else ct.load(a, (i + 1, k), (128, 64))
        one, two, three = (
            ct.load(b, (k, 3 * j), (64, TN)),
            ct.load(b, (k, 3 * j + 1), (64, TN)),
            ct.load(b, (k, 3 * j + 2), (64, TN)),
        )
        left, middle, right = ct.mma(x, one, left), ct.mma(y, two, middle), ct.mma(x, three, right)
    ct.store(c, (i, 3 * j), left.astype(c.dtype))
    ct.store(c, (i, 3 * j + 1), middle.astype(c.dtype))
    ct.store(c, (i, 3 * j + 2), right.astype(c.dtype))


@pytest.mark.parametrize(
    ("columns", "same", "width"), [(64, True, 192), (64, False, 64), (32, True, 96), (128, True, 128)]
)
@pytest.mark.parametrize("element", [np.float16, ml_dtypes.bfloat16])
def test_kernels_with_tiles_side_by_side(element: type, columns: int, same: bool, width: int) -> None:
    matrix = np.zeros((512, 768), element)
    made = side_by_side.compile_for("sm_90", (matrix, matrix, matrix, columns, same))
    assert set(re.findall(r"wgmma\.mma_async\S*\.m64n(\d+)k16", made.stage("PTX"))) == {str(width)}
