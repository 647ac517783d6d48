"""The meaning of every numeric elementwise op on NumPy arrays.

Constant folding, the reference backend and everything built on it evaluate elements here and nowhere else.
"""

from tilewright.ir.semantics.constants import constant_array
from tilewright.ir.semantics.table import TABLE, as_ufunc, evaluate

__all__ = ["TABLE", "as_ufunc", "constant_array", "evaluate"]
