"""Kernels for NVIDIA GPUs: the gpu dialect, to PTX through LLVM, and an interpreter of it."""
