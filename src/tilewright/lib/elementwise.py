"""Functions of one element."""

from __future__ import annotations

import math
from typing import Any

from tilewright import language as ct

# erf(x) / x - 1 on [0, 1] by powers of x * x, and -log(1 - erf(x)) from 1 on by powers of (x - centre) / radius. Both
# interpolate at Chebyshev nodes, computed with 50 digits; the errors of erf are below 2 units in the last place in
# float32 and 4 in float64.
_ERF_NEAR_32 = (
    *(0.1283791671, -0.3761263847, 0.112837825, -0.02686543073, 0.005221031808, -0.0008484080406, 0.0001126595903),
    -9.667044571e-6,
)
_ERF_FAR_32 = (
    *(7.806815273, 8.029021111, 2.123760907, 0.03664630296, -0.01096285255, 0.003194763892, -0.0008767322218),
    *(0.0002216819371, -4.689558702e-5, 2.54288862e-6, 2.211289408e-6),
)
_ERF_NEAR_64 = (
    *(0.128379167095512574, -0.376126389031837524, 0.112837916709551202, -0.0268661706451298408),
    *(0.00522397762542329831, -0.00085483270219348296, 0.000120553329028887354, -0.0000149256475675193321),
    *(1.64620454414684189e-6, -1.63646421581676153e-7, 1.4792401209404813e-8, -1.21645600572834501e-9),
    *(8.70904512905310669e-11, -4.23094582429533782e-12),
)
_ERF_FAR_64 = (
    *(14.1124374021481738, 18.165248970913016, 6.04220659213892587, 0.0816509097143913599, -0.0341284110786172605),
    *(0.0143845484191425217, -0.00595370450573682655, 0.00237399621623401325, -0.000893576229284531632),
    *(0.00030782663895153533, -0.0000909032937113907354, 0.0000184457876168501515, 1.48733547016504876e-6),
    *(-4.49117909342300687e-6, 3.39624157790451779e-6, -2.04515921414794672e-6, 9.57944664495551381e-7),
    *(-2.43763529161738445e-7, 8.37975569400899361e-8, -1.22850307281314521e-7, 3.45368278544928295e-8),
    *(3.69078600605160043e-8, -1.74575281695570057e-8),
)


def clamp(x: Any, low: Any, high: Any) -> Any:
    """``x`` where it lies between ``low`` and ``high``, else the nearer of the two; a NaN stays one.

    >>> lib.clamp(ct.arange(4, dtype=ct.int32), 1, 2)
    Tile([1, 1, 2, 2], dtype=int32)
    """
    inside = ct.minimum(ct.maximum(x, low), high)
    return ct.where(ct.isnan(x), x, inside) if ct.static_eval(_is_float(x)) else inside


def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))``.

    >>> lib.sigmoid(ct.zeros((2,), ct.float32))
    Tile([0.5, 0.5], dtype=float32)
    """
    y = _wide(x)
    return _narrow(1 / (1 + ct.exp(-y)), x)


def silu(x: Any) -> Any:
    """``x * sigmoid(x)``, also called swish.

    >>> lib.silu(ct.zeros((1,), ct.float32))
    Tile([0.], dtype=float32)
    """
    y = _wide(x)
    return _narrow(y / (1 + ct.exp(-y)), x)


def swiglu(gate: Any, up: Any) -> Any:
    """``silu(gate) * up``.

    >>> lib.swiglu(ct.zeros((1,), ct.float32), ct.ones((1,), ct.float32))
    Tile([0.], dtype=float32)
    """
    return _narrow(silu(_wide(gate)) * _wide(up), gate)


def gelu(x: Any, *, approximate: bool = False) -> Any:
    """``x * (1 + erf(x / sqrt(2))) / 2``, or with ``approximate`` the form with tanh that GPT-2 has.

    >>> lib.gelu(ct.zeros((1,), ct.float32))
    Tile([0.], dtype=float32)
    """
    y = _wide(x)
    if approximate:
        bell = ct.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y * y * y))
    else:
        bell = erf(y * math.sqrt(0.5))
    return _narrow(0.5 * y * (1 + bell), x)


def geglu(gate: Any, up: Any, *, approximate: bool = False) -> Any:
    """``gelu(gate) * up``.

    >>> lib.geglu(ct.zeros((1,), ct.float32), ct.ones((1,), ct.float32))
    Tile([0.], dtype=float32)
    """
    return _narrow(gelu(_wide(gate), approximate=approximate) * _wide(up), gate)


def erf(x: Any) -> Any:
    """The error function, to 2 units in the last place in float32 and 4 in float64.

    >>> lib.erf(ct.full((1,), 1.0, ct.float64))
    Tile([0.84270079], dtype=float64)
    """
    y = _wide(x)
    double = y.dtype == ct.float64
    size = ct.abs(y)
    small = ct.minimum(size, 1)
    near = small + small * _polynomial(small * small, _ERF_NEAR_64 if double else _ERF_NEAR_32)
    centre, radius = (3.5, 2.5) if double else (2.5, 1.5)
    large = (ct.minimum(ct.maximum(size, 1), centre + radius) - centre) * (1 / radius)
    far = 1 - ct.exp(-_polynomial(large, _ERF_FAR_64 if double else _ERF_FAR_32))
    result = ct.where(size < 1, near, far)
    return _narrow(ct.where(ct.isnan(y), y, ct.where(y < 0, -result, result)), x)


def log1p(x: Any) -> Any:
    """``log(1 + x)`` without the error of the sum.

    >>> lib.log1p(ct.full((1,), 1e-8, ct.float32))
    Tile([1.e-08], dtype=float32)
    """
    y = _wide(x)
    total = 1 + y
    log = ct.log(total)
    # The rounding error of the sum is in its quotient, too, and cancels.
    exact = (total == 1) | (ct.abs(total) == math.inf)
    corrected = log * (y / (total - 1))
    return _narrow(ct.where(exact, ct.where(total == 1, y, log), corrected), x)


def round(x: Any) -> Any:
    """The nearest whole number, of two the even one, as ``numpy.round``.

    >>> lib.round(ct.arange(4, dtype=ct.float32, start=0.5))
    Tile([0., 2., 2., 4.], dtype=float32)
    """
    if ct.static_eval(not _is_float(x) and not isinstance(x, float)):
        return x
    y = _wide(x)
    below = ct.floor(y)
    rest = y - below
    odd = ct.floor(below * 0.5) * 2 != below
    result = ct.where((rest > 0.5) | ((rest == 0.5) & odd), below + 1, below)
    return _narrow(ct.where(result == 0, y * 0, result), x)


def _wide(x: Any) -> Any:
    """``x`` in float32 if it is narrower, or a Python number."""
    return x if ct.static_eval(_dtype(x) == ct.float64) else ct.astype(x, ct.float32)


def _narrow(y: Any, x: Any) -> Any:
    """``y``, computed from ``_wide(x)``, in the dtype of ``x``; integers and Python numbers keep float32, as those of
    ``ct.exp``."""
    return ct.astype(y, x.dtype) if ct.static_eval(_is_float(x)) else y


def _dtype(x: Any) -> Any:
    """The dtype of a tile; None of a number of Python or NumPy."""
    return x.dtype if isinstance(getattr(x, "dtype", None), type(ct.float32)) else None


def _is_float(x: Any) -> bool:
    """Whether ``x`` is a tile of floats."""
    kind = _dtype(x)
    return kind is not None and kind.is_floating


def _polynomial(x: Any, coefficients: tuple[float, ...]) -> Any:
    """The sum of ``coefficients[i] * x**i``, by Horner's rule."""
    result = x * coefficients[-1] + coefficients[-2]
    for c in ct.static_iter(coefficients[-3::-1]):
        result = result * x + c
    return result
