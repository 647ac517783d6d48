"""Mathematical functions against MPFR: every backend keeps the bounds that docs/numerics.md states."""

from __future__ import annotations

import numpy as np
import pytest
from support.accuracy import BOUNDS, FUNCTIONS, SIZE, error, largest_error, samples
from support.accuracy_table import committed
from support.elementwise import BACKENDS, apply
from support.mpfr_oracle import assert_same, function_values

import tilewright as ct
from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType

CASES = [(name, dtype) for name, function in FUNCTIONS.items() for dtype in function.dtypes()]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("name", "dtype"), CASES, ids=str)
def test_error_is_within_its_bound(backend: str, name: str, dtype: DType) -> None:
    (x, *_) = samples(name, dtype)
    assert x.size >= SIZE or (dtype.bitwidth == 16 and x.size == 1 << 16)
    largest, where = error(backend, name, dtype)
    bound = BOUNDS[backend][name][dtype.short]
    assert largest <= bound, f"{largest:.3f} ulp at {where}, more than {bound}"


@pytest.mark.parametrize("backend", sorted(BOUNDS))
def test_the_page_is_complete_and_states_these_bounds(backend: str) -> None:
    cells = committed(backend)
    assert cells.keys() == {(name, dtype.short) for name, dtype in CASES}
    for (name, short), (measured, bound) in cells.items():
        assert bound == BOUNDS[backend][name][short], (name, short)
        assert 0 < measured <= bound, (name, short)


@pytest.mark.parametrize("backend", BACKENDS)
def test_functions_of_integers_are_float32(backend: str) -> None:
    x = np.arange(-128, 128).astype(np.int8)
    for operation in (ct.exp, ct.sqrt, ct.cos, ct.log2):
        got, expected = apply(
            backend,
            [
                lambda v, operation=operation: operation(v),
                lambda v, operation=operation: operation(v.astype(ct.float32)),
            ],
            [x],
            [np.float32] * 2,
        )
        assert_same(got, expected.astype(np.float64), x)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_a_power_with_an_integer_exponent(backend: str, dtype: DType) -> None:
    """Small integer powers of small integers are exact in every dtype that holds them."""
    base = np.repeat(np.arange(-4, 5), 4).astype(dtype.storage)
    exponent = np.tile(np.arange(4), 9).astype(np.int32)
    (got,) = apply(backend, [lambda x, y: x**y], [base, exponent], [dtype.storage])
    np.testing.assert_array_equal(got.astype(np.float64), base.astype(np.float64) ** exponent)


@pytest.mark.parametrize("backend", BACKENDS)
def test_huge_angles(backend: str) -> None:
    """The float64 that is closest to a multiple of pi/2, and the largest numbers."""
    x = np.array([6381956970095103 * 2.0**797, 5.319372648326541e255, 1.7976931348623157e308, 2.0**1000, 1e22, 1.0])
    for name in ("sin", "cos", "tan"):
        (got,) = apply(backend, [FUNCTIONS[name].formula], [x], [np.float64])
        largest, where = largest_error(got, *function_values(FUNCTIONS[name].exact, x), dtypes.float64, (x,), False)
        assert largest <= BOUNDS[backend][name]["f64"], (name, largest, where)


@pytest.mark.exhaustive
@pytest.mark.parametrize("quarter", range(4))
@pytest.mark.parametrize("name", [n for n, f in FUNCTIONS.items() if f.operands == 1 and "flushed" not in n])
def test_every_float32(name: str, quarter: int) -> None:
    """All values on the CPU backend, with the C library's float64 functions as the measure."""
    plain = name.split(",")[0]
    measure = (lambda v: 1 / np.sqrt(v)) if plain == "rsqrt" else getattr(np, plain)
    step, share = 1 << 23, 1 << 30
    for start in range(quarter * share, (quarter + 1) * share, step):
        x = np.arange(start, start + step, dtype=np.uint32).view(np.float32)
        (got,) = apply("cpu", [FUNCTIONS[name].formula], [x], [np.float32])
        exact = measure(x.astype(np.float64))
        fitted = exact.astype(np.float32)
        regular = np.isfinite(fitted) & (exact != 0)
        assert_same(got[~regular], fitted[~regular].astype(np.float64), x[~regular])
        spacing = np.spacing(np.maximum(np.abs(fitted[regular]), np.float32(2.0**-126))).astype(np.float64)
        largest = (np.abs(got[regular] - exact[regular]) / spacing).max(initial=0)
        assert largest <= BOUNDS["cpu"][name]["f32"], (name, largest, hex(start))
