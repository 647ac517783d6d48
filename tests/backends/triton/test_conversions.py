"""Conversions as the GPU backend writes them, computed with NumPy, give what the reference gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends.triton.evaluator import DTYPES, Computed, Evaluator

from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.triton.ttir import convert, text
from tilewright.ir.dtypes import ALL_DTYPES, DType, float8_e8m0fnu, float64
from tilewright.ir.enums import RoundingMode
from tilewright.ir.semantics.conversion import cast

RN, RZ, RM, RP, RA = RoundingMode.RN, RoundingMode.RZ, RoundingMode.RM, RoundingMode.RP, RoundingMode.RA
COUNT = 20_000


def samples(dtype: DType) -> np.ndarray[Any, Any]:
    """Every value of a narrow dtype; of others random bits, numbers of every magnitude, and numbers near ties."""
    rng = np.random.default_rng(dtype.bitwidth)
    if dtype.is_bool:
        return np.array([False, True])
    if dtype.bitwidth <= 16:
        size = 1 << dtype.bitwidth
        return np.arange(size, dtype=f"u{dtype.storage.itemsize}").view(dtype.storage)
    bits = rng.integers(0, 1 << 63, COUNT, dtype=np.uint64).astype(f"u{dtype.storage.itemsize}").view(dtype.storage)
    if not dtype.is_floating:
        shifts = rng.integers(0, dtype.bitwidth, COUNT).astype(dtype.storage)
        return np.concatenate([bits, bits >> shifts])
    scaled = rng.standard_normal(COUNT) * 2.0 ** rng.integers(-160, 160, COUNT)
    short = rng.integers(-512, 512, COUNT) / 16 * 2.0 ** rng.integers(-140, 130, COUNT)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan])
    found = np.concatenate([bits, *(x.astype(dtype.storage) for x in (scaled, short, special))])
    if dtype.short == "tf32":
        found = (found.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    if dtype is float64:  # the reference takes float64 to the smallest formats by way of float32
        found = found[(found == 0) | (np.abs(found) > 1e-38)]
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("target", ALL_DTYPES, ids=str)
@pytest.mark.parametrize("source", ALL_DTYPES, ids=str)
def test_conversion(source: DType, target: DType) -> None:
    writer = Evaluator(parse_target("sm_80"))
    x = samples(source)
    held = text.element(source, writer.target)
    value = Computed(x.view(DTYPES[held]), held)
    for mode in (RN, RZ, RM, RP, RA) if target.is_floating and source.bitwidth < 64 else (RN,):
        with np.errstate(all="ignore"):
            wanted = cast(x, source, target, mode)
            found = convert.cast(writer, value, source, target, mode).array.view(wanted.dtype)  # type: ignore[arg-type]
        assert_equal_bits(found, wanted, target)


def assert_equal_bits(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], dtype: DType) -> None:
    """The same values, NaN for NaN."""
    differ = found.view(f"u{found.dtype.itemsize}") != wanted.view(f"u{found.dtype.itemsize}")
    if dtype.is_floating and dtype.storage.kind != "u" and dtype.short != "f4e2m1fn":
        differ &= ~(np.isnan(found.astype(np.float32)) & np.isnan(wanted.astype(np.float32)))
    assert not differ.any(), f"{differ.sum()} of {differ.size} differ"


@pytest.mark.parametrize("mode", [RZ, RM, RP, RA])
def test_float64_rounds_once(mode: RoundingMode) -> None:
    writer = Evaluator()
    x = samples(float64)
    for target in ALL_DTYPES:
        if target.is_floating and target not in (float64, float8_e8m0fnu):
            with np.errstate(all="ignore"):
                found = convert.cast(writer, Computed(x, "f64"), float64, target, mode).array  # type: ignore[arg-type]
                wanted = cast(x, float64, target, mode)
            assert_equal_bits(found.view(wanted.dtype), wanted, target)
