"""Descriptors made of two halves are those that the sums of 64 bits make, for any straight line of PTX."""

from __future__ import annotations

import random
import re

import pytest

pytest.importorskip("triton", reason="the package triton is not installed")
from tilewright.backends.triton import ptxas_workarounds

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
