"""The composition root: which backends there are, and what evaluates tile operations that Python itself calls.

Nothing below knows what is above it: the packages that need one get it from here. Backends load on first use.
"""

from __future__ import annotations

import functools
import importlib.util

from tilewright.backends.base import Backend
from tilewright.backends.registry import register_backend
from tilewright.language.functions import set_evaluator
from tilewright.system.forks import load

# Name -> the module that defines ``BACKEND``, the type of device whose arrays it runs launches on by default, and the
# package without which it does not. Of several for one device the last counts.
_BACKENDS = {
    "reference": ("tilewright.backends.reference", None, None),
    "cpu": ("tilewright.backends.cpu", "cpu", None),
    "python": ("tilewright.eager", None, None),
    "gpu": ("tilewright.backends.gpu", "cuda", None),
    "triton": ("tilewright.backends.triton", "cuda", "triton"),
    "tileir": ("tilewright.backends.tileir", None, None),
    "sanitizer": ("tilewright.sanitizer.backend", None, None),
}


def _backend(module: str) -> Backend:
    """The backend that ``module`` defines."""
    backend: Backend = load(module).BACKEND
    return backend


for _name, (_module, _device, _needs) in _BACKENDS.items():
    _able = _needs is None or importlib.util.find_spec(_needs) is not None
    register_backend(_name, functools.partial(_backend, _module), default_for=_device if _able else None)
set_evaluator(lambda: load("tilewright.eager"))  # it needs the reference backend, so it loads on first use, too
