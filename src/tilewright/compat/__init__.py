"""Runs programs written for ``cuda.tile`` on tilewright.

``install()`` makes ``import cuda.tile`` mean tilewright in this process; ``python -m tilewright.compat prog.py``
does that and runs a program.
"""

from tilewright.compat.modules import Implementation, install
from tilewright.compat.program import run_program

__all__ = ["Implementation", "install", "run_program"]
