"""The composition root: which backends there are, and what evaluates tile operations that Python itself calls.

Nothing below knows what is above it: the packages that need one get it from here. Backends load on first use.
"""

from __future__ import annotations

import functools

from tilewright.backends.base import Backend
from tilewright.backends.registry import register_backend
from tilewright.language.functions import set_evaluator
from tilewright.system.forks import load

# Name -> the module that defines ``BACKEND``, and the type of device whose arrays it runs launches on by default.
_BACKENDS = {
    "reference": ("tilewright.backends.reference", None),
    "cpu": ("tilewright.backends.cpu", "cpu"),
    "python": ("tilewright.eager", None),
    "gpu": ("tilewright.backends.gpu", None),
    "triton": ("tilewright.backends.triton", "cuda"),
    "tileir": ("tilewright.backends.tileir", None),
    "sanitizer": ("tilewright.sanitizer.backend", None),
}


def _backend(module: str) -> Backend:
    """The backend that ``module`` defines."""
    backend: Backend = load(module).BACKEND
    return backend


for _name, (_module, _device) in _BACKENDS.items():
    register_backend(_name, functools.partial(_backend, _module), default_for=_device)
set_evaluator(lambda: load("tilewright.eager"))  # it needs the reference backend, so it loads on first use, too
