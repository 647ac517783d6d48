"""Functions beside the language, written in it: they work in kernels of any backend, on eager tiles, and in programs
that import ``cuda.tile``. None of them is part of cuTile Python.

Floating-point tiles of less than 32 bits are computed in float32 and rounded once, at the end; integers give float32.
"""

from tilewright.lib.blocks import block_prefix, next_block
from tilewright.lib.elementwise import clamp, erf, geglu, gelu, log1p, round, sigmoid, silu, swiglu
from tilewright.lib.normalization import layer_norm, log_softmax, online_softmax, rms_norm, softmax
from tilewright.lib.random import dropout, normal, philox, random_bits, uniform
from tilewright.lib.sorting import argsort, sort, top_k

__all__ = [
    "argsort",
    "block_prefix",
    "clamp",
    "dropout",
    "erf",
    "geglu",
    "gelu",
    "layer_norm",
    "log1p",
    "log_softmax",
    "next_block",
    "normal",
    "online_softmax",
    "philox",
    "random_bits",
    "rms_norm",
    "round",
    "sigmoid",
    "silu",
    "softmax",
    "sort",
    "swiglu",
    "top_k",
    "uniform",
]
