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
# Kernels that the backend gpu takes in place of triton, where nobody asks for one of them: what people call them, and
# the predicate that finds them. A class moves when benchmarks/gpu.py --each --no-options, benchmarks/gpu_memory.py or
# benchmarks/gpu_attention.py has measured it as at least as fast; TILEWRIGHT_BACKEND and use_backend decide otherwise.
_TAKEN_BY_GPU = {
    "matmuls and attention of 16 bits, forward and backward, that warp groups multiply": "is_product_of_16_bits",
    "matmuls of aligned 8-bit floats whose steps have scales, in tiles of 64x128 to 128x128": "is_scaled_matmul",
    "persistent matmuls of aligned 8-bit floats along K with use_fast_acc": "is_persistent_matmul_of_bytes",
    "matmuls of aligned 8-bit integers in tiles of 64x64 or more": "is_matmul_of_integers",
    "matmuls of aligned 8-bit floats with use_fast_acc, the right ones along their rows": "is_matmul_of_bytes_by_rows",
    "matmuls of tfloat32 along K in 128x256, persistent ones in 128x128, by rows in 64x64": "is_matmul_of_tfloat32",
    "attention of 8-bit floats, forward": "is_attention_of_bytes",
    "reductions of aligned rows, each in one tile and a block of its own": "is_row_kernel",
    "such reductions after loops over pieces of a row, of 256 to 1,024 elements": "is_row_kernel_in_pieces",
}


def _holds(predicate: str, function: Any, backend: Backend) -> bool:
    holds: bool = getattr(load("tilewright.backends.gpu.kernel_classes"), predicate)(function, backend)
    return holds


def _backend(module: str) -> Backend:
    """The backend that ``module`` defines."""
    backend: Backend = load(module).BACKEND
    return backend


for _name, (_module, _device, _needs) in _BACKENDS.items():
    _able = _needs is None or importlib.util.find_spec(_needs) is not None
    register_backend(_name, functools.partial(_backend, _module), default_for=_device if _able else None)
for _class, _predicate in _TAKEN_BY_GPU.items():
    register_class(KernelClass(_class, "gpu", functools.partial(_holds, _predicate)), instead_of="triton")
set_evaluator(lambda: load("tilewright.eager"))  # it needs the reference backend, so it loads on first use, too
