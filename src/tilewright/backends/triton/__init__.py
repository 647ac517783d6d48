"""GPU code through the Triton compiler."""

from tilewright.backends.triton.backend import BACKEND

__all__ = ["BACKEND"]
