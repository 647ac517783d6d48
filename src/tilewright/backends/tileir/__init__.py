"""Kernels compiled by NVIDIA's assembler of CUDA Tile IR, ``tileiras``."""

from __future__ import annotations

from tilewright.backends.tileir.backend import BACKEND

__all__ = ["BACKEND"]
