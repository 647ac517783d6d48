"""Mathematical functions against MPFR: the bounds hold on the host's instructions and on the oldest ones, in vectors
and in scalars."""

from __future__ import annotations

import numpy as np
import pytest
from element_harness import HOST, LANES, PORTABLE, element_function
from support.accuracy import BOUNDS, FUNCTIONS, exact_values, largest_error, samples
from support.mpfr_oracle import assert_same

from tilewright.backends.vector import HostFeatures
from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType

FEATURES = pytest.mark.parametrize("features", [HOST, PORTABLE], ids=["host", "portable"])
NAMES = [name for name in FUNCTIONS if "," not in name]


@FEATURES
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", (dtypes.float32, dtypes.float64), ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_bounds(name: str, dtype: DType, lanes: int | None, features: HostFeatures) -> None:
    operands = samples(name, dtype)
    got = element_function(name, *[dtype] * len(operands), lanes=lanes, features=features)(*operands)
    largest, where = largest_error(got, *exact_values(name, dtype), dtype, operands, False)
    bound = BOUNDS["cpu"][name][dtype.short]
    assert largest <= bound, f"{largest:.3f} ulp at {where}, more than {bound}"


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("name", [n for n in NAMES if FUNCTIONS[n].operands == 1])
def test_sixteen_bits(name: str, lanes: int | None) -> None:
    """Every float16 and bfloat16 value: the float32 result, rounded."""
    for dtype in (dtypes.float16, dtypes.bfloat16):
        x = np.arange(1 << 16, dtype=np.uint16).view(dtype.storage)
        wide = element_function(name, dtypes.float32, lanes=lanes)(x.astype(np.float32))
        got = element_function(name, dtype, lanes=lanes)(x)
        assert_same(got, wide.astype(dtype.storage).astype(np.float64), x)


@pytest.mark.parametrize("name", ["pow", "tanh"])
def test_tables_in_vectors_of_any_length(name: str) -> None:
    """Whatever the number of lanes, an element gets the same bits."""
    operands = [operand[::7] for operand in samples(name, dtypes.float32)]
    types = [dtypes.float32] * len(operands)
    wanted = element_function(name, *types, lanes=16)(*operands)
    for lanes in (None, 4, 32):
        got = element_function(name, *types, lanes=lanes)(*operands)
        np.testing.assert_array_equal(got.view(np.uint32), wanted.view(np.uint32))
