"""Compiled execution on the CPU."""

from tilewright.backends.cpu.backend import BACKEND

__all__ = ["BACKEND"]
