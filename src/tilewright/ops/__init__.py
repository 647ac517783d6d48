"""Operators: one declaration of a kernel's launch for NumPy, PyTorch and JAX, with gradient, batching and sharding."""
