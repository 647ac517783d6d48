"""What ptxas compiles wrongly is not given to it."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as ct

pytest.importorskip("triton", reason="the package triton is not installed")
from tilewright.backends.triton import ptxas


@ct.kernel
def narrowed(sums, last):
    """Numbers that LLVM knows to be small, in pairs, of which not all are used."""
    small = ct.arange(1024, dtype=ct.int32).reshape((4, 256)) % 33 - 5
    ct.store(sums, (0, 0), ct.cumsum(small, axis=1) & 127)
    ct.store(last, (0, 0), small + 1)


@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
def test_sums_of_16_bits_are_made_one_by_one(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With constants, of one of which nobody knows the result, ptxas 12.8 and 12.9 add 0."""
    given: list[str] = []
    repair = ptxas.repair

    def watched(text: str) -> str:
        given.append(text)
        return repair(text)

    monkeypatch.setattr(ptxas, "repair", watched)
    repaired = narrowed.compile_for(target, tuple(np.zeros((4, 256), np.int32) for _ in range(2))).stage("PTX")
    assert "add.s16x2" in given[0] and "16x2" not in repaired
    assert repaired.count("add.s16 ") == given[0].count("add.s16 ") + 2 * given[0].count("add.s16x2")


def test_other_text_stays() -> None:
    text = "\tmin.s16x2 \t%r1, %r2, %r3;\n\tadd.s32 \t%r1, %r2, %r3;\n\tadd.f16x2 \t%r1, %r2, %r3;"
    assert ptxas.repair(text) == text
