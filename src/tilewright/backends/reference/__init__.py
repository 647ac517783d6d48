"""The reference backend: interprets unoptimized Tile IR with NumPy, and so defines what programs mean."""

from tilewright.backends.reference.backend import BACKEND, ReferenceExecutable
from tilewright.backends.reference.interpreter import BlockInterpreter, Observer

__all__ = ["BACKEND", "BlockInterpreter", "Observer", "ReferenceExecutable"]
