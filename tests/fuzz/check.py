"""Compares what backends make of random programs with the model and with each other."""

from __future__ import annotations

import numpy as np
from fuzz.model import Array
from fuzz.nodes import Level
from fuzz.programs import Program

_TOLERANCE = {2: 0.02, 4: 1e-4, 8: 1e-6}  # of the largest absolute value, by itemsize


def same_bits(x: Array, y: Array) -> Array:
    """Where the bits are equal. All NaN are one."""
    if x.dtype.kind in "biu":
        return np.asarray(x == y)
    nan = np.isnan(x.astype(np.float64)) & np.isnan(y.astype(np.float64))
    whole = f"u{x.dtype.itemsize}"
    return np.asarray(nan | (np.ascontiguousarray(x).view(whole) == np.ascontiguousarray(y).view(whole)))


def close(x: Array, y: Array) -> Array:
    with np.errstate(all="ignore"):
        a, b = x.astype(np.float64), y.astype(np.float64)
        bound = _TOLERANCE[x.dtype.itemsize] * np.maximum(1.0, np.maximum(np.abs(a), np.abs(b)))
        return np.asarray((np.isnan(a) & np.isnan(b)) | (a == b) | (np.abs(a - b) <= bound))


def differences(p: Program, wanted: dict[str, Array], found: dict[str, Array], who: str) -> list[str]:
    levels = {o.name: o.level for o in p.outputs}
    lines = []
    for name, expected in wanted.items():
        test = close if levels.get(name) == Level.CLOSE else same_bits
        wrong = ~test(expected, found[name])
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            lines.append(f"{who}: {name}{list(at)} of {wrong.sum()} is {found[name][at]} instead of {expected[at]}")
    return lines


def faults(p: Program, backends: tuple[str, ...], targets: tuple[str, ...] = ()) -> list[str]:
    """What is wrong with the program, nothing where it is right.

    The first of ``backends`` is compared with the model, the others with the first; for the GPU architectures
    ``targets`` it is compiled.
    """
    results = {}
    for target in targets:
        try:
            p.kernel().compile_for(target, p.arguments(p.written()))
        except Exception as error:  # noqa: BLE001 - every failure is a finding
            return [f"{target}: {type(error).__name__}: {str(error)[:2000]}"]
    for name in backends:
        try:
            results[name] = p.launch(name)
        except Exception as error:  # noqa: BLE001 - every failure is a finding
            return [f"{name}: {type(error).__name__}: {str(error)[:2000]}"]
    first = backends[0]
    predicted = p.predict()
    found = [] if predicted is None else differences(p, predicted, results[first], f"{first}, of the model")
    for name in backends[1:]:
        found += differences(p, results[first], results[name], f"{name}, of {first}")
    return found
