"""CUDA Tile IR, the common form below cuTile Python, Tile C++ and others: read, run, and written."""

from tilewright.tileir.kernels import flattened, load

__all__ = ["flattened", "load"]
