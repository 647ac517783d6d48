"""Operators: one declaration of a kernel's launch for NumPy, PyTorch and JAX, with gradient, batching and sharding."""

from tilewright.ops import traced_launch as _traced_launch
from tilewright.ops.operator import Operator, op

__all__ = ["Operator", "op"]
del _traced_launch  # it is there for what it does when it is imported
