"""Kernels for NVIDIA GPUs: the gpu dialect, to PTX through LLVM, and an interpreter of it."""

from tilewright.backends.gpu.backend import BACKEND

__all__ = ["BACKEND"]
