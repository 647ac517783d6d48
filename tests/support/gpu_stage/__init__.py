"""Runs functions of the gpu stage for all threads of a CTA with NumPy, and reports what is wrong with them.

Races, reads of shared memory before it is written or before a copy has arrived, barriers that cannot complete, accesses
out of range, and replicated elements that disagree: each is a ``Fault`` at the op that shows it.
"""

from support.gpu_stage.backend import InterpreterBackend, InterpreterExecutable
from support.gpu_stage.faults import Fault

__all__ = ["Fault", "InterpreterBackend", "InterpreterExecutable"]
