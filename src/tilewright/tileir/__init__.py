"""CUDA Tile IR, the common form below cuTile Python, Tile C++ and others: read, run, and written."""

from __future__ import annotations
