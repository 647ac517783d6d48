"""The composition root: which backends there are, and what evaluates tile operations that Python itself calls.

Nothing below knows what is above it: the packages that need one get it from here. Backends load on first use.
"""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

from tilewright.backends.base import Backend
from tilewright.backends.registry import KernelClass, register_backend, register_class
from tilewright.language.functions import set_evaluator
from tilewright.system.forks import load

# Name -> the module that defines ``BACKEND``, and the type of device whose arrays it runs launches on by default.
# Of several exporters for one format the last counts.
_BACKENDS = {
    "reference": ("tilewright.backends.reference", None),
    "cpu": ("tilewright.backends.cpu", "cpu"),
    "python": ("tilewright.eager", None),
    "triton": ("tilewright.backends.triton", None),
    "gpu": ("tilewright.backends.gpu", "cuda"),
    "tileir": ("tilewright.backends.tileir", None),
    "sanitizer": ("tilewright.sanitizer.backend", None),
}
# Kernels that another backend takes in place of gpu, where nobody asks for one of them: what people call them, the
# backend, the package without which it does not, and the predicate that finds them. What was measured is in
# benchmarks/results. TILEWRIGHT_BACKEND and use_backend decide otherwise.
_TAKEN_FROM_GPU = {"MMA ops of floats that are slower": ("triton", "triton", "has_slower_mma")}


def _holds(predicate: str, function: Any, backend: Backend) -> bool:
    return getattr(load("tilewright.backends.gpu.kernel_classes"), predicate)(function, backend)


def _backend(module: str) -> Backend:
    """The backend that ``module`` defines."""
    return load(module).BACKEND


for _name, (_module, _device) in _BACKENDS.items():
    register_backend(_name, functools.partial(_backend, _module), default_for=_device)
for _class, (_name, _needs, _predicate) in _TAKEN_FROM_GPU.items():
    if importlib.util.find_spec(_needs) is not None:
        register_class(KernelClass(_class, _name, functools.partial(_holds, _predicate)), instead_of="gpu")
set_evaluator(lambda: load("tilewright.eager"))  # it needs the reference backend, so it loads on first use, too
