"""Kernels for NVIDIA GPUs: the gpu dialect, to PTX through LLVM."""

from tilewright.backends.gpu.backend import BACKEND

__all__ = ["BACKEND"]
