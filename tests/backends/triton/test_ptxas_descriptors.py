"""Descriptors made of two halves are those that the sums of 64 bits make, for any straight line of PTX."""

from __future__ import annotations

import random
import re

import ml_dtypes
import numpy as np
import pytest

import tilewright as ct

pytest.importorskip("triton", reason="the package triton is not installed")
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.triton import ptxas_workarounds
from tilewright.backends.triton.backend import compile_for
from tilewright.runtime.launch import specialization

_LAYOUTS = (0x40000040, 0x80000020, 0x80004020)
_MASK = (1 << 64) - 1


def signed(number: int) -> int:
    return number - (1 << 64 if number >> 63 else 0)


def line_of(rng: random.Random) -> str:
    """An instruction on one of a few registers, which are used again and again."""
    wide, place = rng.randrange(4), rng.randrange(4)
    layout, offset = rng.choice(_LAYOUTS) << 32, rng.choice((0, 2, 128, 3))
    return rng.choice(
        [
            f"\tcvt.u64.u32 \t%rd{place}, %r{rng.randrange(3)};",
            f"\tcvt.u64.u32 \t%rd{place}, %r{rng.randrange(3)};",
            f"\tor.b64 \t%rd{wide + 4}, %rd{place}, {signed(layout)};",
            f"\tadd.s64 \t%rd{wide + 4}, %rd{place}, {signed(layout + offset)};",
            *([f"\tadd.s64 \t%rd{place}, %rd{place}, {1 << 40};"] if rng.random() < 0.05 else []),
        ]
    )


def run(text: str) -> list[dict[str, int]]:
    """What the registers of 64 bits hold after each change."""
    values = {f"%r{i}": 0x100 + 0x40 * i for i in range(3)} | {f"%rd{i}": 0 for i in range(8)}
    history = []

    def value(name: str) -> int:
        return values[name] if name in values else int(name)

    for line in text.split("\n"):
        if line.strip() in ("{", "}") or ".reg" in line or "wgmma" in line:
            continue
        found = re.fullmatch(r"\s*(\S+)\s+(\S+), (.*);", line)
        assert found is not None, line
        name, result, operands = found[1], found[2], re.findall(r"[^\s,{}]+", found[3])
        numbers = [value(o) for o in operands]
        values[result] = {
            "cvt.u64.u32": lambda n: n[0],
            "cvt.u32.u64": lambda n: n[0] & 0xFFFFFFFF,
            "or.b64": lambda n: (n[0] | n[1]) & _MASK,
            "add.s64": lambda n: (n[0] + n[1]) & _MASK,
            "add.s32": lambda n: (n[0] + n[1]) & 0xFFFFFFFF,
            "mov.b64": lambda n: n[0] | n[1] << 32,
        }[name](numbers)
        if result.startswith("%rd"):
            history.append({k: v for k, v in values.items() if k.startswith("%rd")})
    return history


def test_registers_of_several_places() -> None:
    halves = 0
    for seed in range(300):
        rng = random.Random(seed)
        text = "\n".join(["\twgmma.mma_async.sync.aligned;", *(line_of(rng) for _ in range(12))])
        repaired = ptxas_workarounds.repair(text)
        halves += repaired != text
        assert run(repaired) == run(text), text
    assert halves > 200


@ct.kernel
def decode(q, k, v, out, D: ct.Constant[int], N: ct.Constant[int]):
    """Attention of a few queries, transposed: the weights take the place of the keys in another layout."""
    queries = ct.transpose(ct.load(q, (0, 0), (N, D)))
    keys = ct.load(k, (ct.bid(0), 0), (128, D), padding_mode=ct.PaddingMode.ZERO)
    scores = ct.mma(keys, queries, ct.zeros((128, N), ct.float32))
    weights = ct.exp2(scores - ct.max(scores, axis=0, keepdims=True))
    values = ct.transpose(ct.load(v, (ct.bid(0), 0), (128, D), padding_mode=ct.PaddingMode.ZERO))
    result = ct.mma(values, weights.astype(q.dtype), ct.zeros((D, N), ct.float32))
    ct.store(out, (ct.bid(0), 0), ct.transpose(result).astype(out.dtype))


@pytest.mark.parametrize("n", [16, 32, 64])
def test_descriptors_of_several_layouts_of_one_place_are_no_sums_of_64_bits(n: int) -> None:
    half = np.zeros((256, 128), ml_dtypes.bfloat16)
    function = specialization(decode, (half, half, half, half, 128, n), "reference").function
    text = compile_for(function, parse_target("sm_90"), {}).binary.texts["PTX"]
    layouts: dict[str, set[int]] = {}
    places = re.findall(r"cvt\.u64\.u32\s+(%rd\d+), ", text)
    for place, number in re.findall(r"(?:or\.b64|add\.s64)\s+%rd\d+, (%rd\d+), (-?\d+);", text):
        layouts.setdefault(place, set()).add(int(number) >> 32)
    assert "wgmma.mma_async" in text
    assert all(len(layouts.get(place, set()) - {0}) <= 1 for place in places)
