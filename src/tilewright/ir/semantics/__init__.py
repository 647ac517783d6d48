"""The meaning of every numeric elementwise op on NumPy arrays.

Constant folding, the reference back end and everything built on it evaluate elements here and nowhere else.
"""

from tilewright.ir.semantics.constants import constant_array
from tilewright.ir.semantics.table import evaluate

__all__ = ["constant_array", "evaluate"]
