"""Operators: one declaration of a kernel's launch for NumPy, PyTorch and JAX, with gradient, batching and sharding."""

from tilewright.ops.operator import Operator, op

__all__ = ["Operator", "op"]
