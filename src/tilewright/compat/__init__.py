"""Runs programs written for ``cuda.tile`` on tilewright.

``install()`` makes ``import cuda.tile`` mean tilewright in this process; ``python -m tilewright.compat prog.py``
does that and runs a program. For a test suite of pytest: ``tilewright run --device cpu -m pytest tests``, or
``install()`` in ``conftest.py`` and a fixture that enters ``cuda_tensors_on_cpu()``.
"""

from tilewright.compat.cupy_cpu import cupy_arrays_on_cpu
from tilewright.compat.modules import Implementation, install
from tilewright.compat.program import add_program, run_program
from tilewright.compat.torch_cpu import cuda_tensors_on_cpu

__all__ = ["Implementation", "add_program", "cuda_tensors_on_cpu", "cupy_arrays_on_cpu", "install", "run_program"]
