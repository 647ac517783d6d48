"""What to write instead of a name that the language does not have."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# Names of NumPy, PyTorch, Triton, JAX Pallas and CUDA that people try first -> what to write.
_ELSEWHERE = {
    "absolute": "ct.abs",
    "all": "ct.reduce, or ct.min of a bool tile as int32",
    "amax": "ct.max",
    "amin": "ct.min",
    "any": "ct.reduce, or ct.max of a bool tile as int32",
    "array": "ct.full, ct.arange or ct.load",
    "associative_scan": "ct.scan",
    "blockIdx": "ct.bid(axis)",
    "block_idx": "ct.bid(axis)",
    "ceil_div": "ct.cdiv",
    "clamp": "ct.minimum(ct.maximum(x, low), high), or tilewright.lib.clamp",
    "clip": "ct.minimum(ct.maximum(x, low), high), or tilewright.lib.clamp",
    "concatenate": "ct.cat",
    "constexpr": "ct.Constant",
    "debug_barrier": "nothing: a block is one thread, and its operations are in order",
    "device_assert": "ct.assert_",
    "device_print": "ct.print or print",
    "divide": "ct.truediv",
    "dot": "ct.mma(a, b, accumulator), or a @ b",
    "einsum": "ct.matmul with ct.permute",
    "empty": "ct.zeros or ct.full",
    "erf": "tilewright.lib.erf",
    "expand": "ct.broadcast_to",
    "fdiv": "ct.truediv",
    "fill": "ct.full",
    "fma": "a * b + c",
    "gelu": "tilewright.lib.gelu",
    "gridDim": "ct.num_blocks(axis)",
    "inline_asm_elementwise": "the operations of ct; there is no assembly in tile code",
    "jit": "@ct.kernel",
    "lib": "import tilewright.lib",
    "log1p": "tilewright.lib.log1p",
    "make_block_ptr": "array.tiled_view(tile_shape), or ct.load with an index of tiles",
    "make_tensor_descriptor": "array.tiled_view(tile_shape), or ct.load with an index of tiles",
    "mean": "ct.sum(x) / n",
    "multiple_of": "nothing: divisibility is found out at launch",
    "num_programs": "ct.num_blocks(axis)",
    "ones_like": "ct.ones(x.shape, x.dtype)",
    "power": "ct.pow",
    "program_id": "ct.bid(axis)",
    "rand": "tilewright.lib.uniform",
    "randn": "tilewright.lib.normal",
    "round": "tilewright.lib.round",
    "sigmoid": "tilewright.lib.sigmoid",
    "silu": "tilewright.lib.silu",
    "softmax": "tilewright.lib.softmax",
    "stack": "ct.cat of tiles with a new axis, x[None, :]",
    "sort": "tilewright.lib.sort",
    "static_range": "ct.static_iter(range(n))",
    "subtract": "ct.sub",
    "syncthreads": "nothing: a block is one thread, and its operations are in order",
    "tensor": "ct.full, ct.arange or ct.load",
    "threadIdx": "nothing: a block is one thread; think in tiles",
    "topk": "tilewright.lib.top_k",
    "trans": "ct.transpose or ct.permute",
    "view": "ct.reshape, or ct.bitcast for another dtype",
    "zeros_like": "ct.zeros(x.shape, x.dtype)",
}
# What tiles have elsewhere as attributes and methods -> what to write.
_OF_TILES = {
    "T": "ct.transpose(x)",
    "any": _ELSEWHERE["any"],
    "all": _ELSEWHERE["all"],
    "exp": "ct.exp(x)",
    "flatten": "x.reshape((-1,))",
    "itemsize": "x.dtype.bitwidth, on the host",
    "max": "ct.max(x)",
    "mean": "ct.sum(x) / n",
    "min": "ct.min(x)",
    "prod": "ct.prod(x)",
    "size": "the product of the entries of x.shape",
    "sum": "ct.sum(x)",
    "to": "x.astype(dtype)",
    "trans": "ct.transpose(x)",
    "view": "x.reshape(shape), or ct.bitcast(x, dtype)",
}

# Attributes that arrays have elsewhere, as above.
_OF_ARRAYS = {
    "numel": "the product of the entries of x.shape",
    "size": "the product of the entries of x.shape",
    "T": "ct.load with order='F', or ct.transpose of a loaded tile",
}


def instead_of(name: str, known: Iterable[str], prefix: str = "") -> str:
    """``; did you mean ct.load?``, a misspelt ``name`` among ``known``, or nothing. ``prefix`` is written before it."""
    close = difflib.get_close_matches(name, [k for k in known if not k.startswith("_")], 1, 0.7)
    return f"; did you mean {prefix}{close[0]}?" if close else ""


def instead_of_ours(name: str, known: Iterable[str]) -> str:
    """The same for a ``name`` that a program looks up in the language, with names of other languages."""
    return f"; write {_ELSEWHERE[name]}" if name in _ELSEWHERE else instead_of(name, known, "ct.")


def instead_of_foreign(name: str, known: Iterable[str]) -> str:
    """What to write for ``name`` of NumPy, PyTorch or Triton: its other name in the language, or the same one."""
    return f"; write ct.{name}" if name in known else instead_of_ours(name, known)


def instead_of_attribute_of_arrays(name: str, known: Iterable[str]) -> str:
    """The same for an attribute of arrays, of which those that only tiles have need a load."""
    if name in _OF_ARRAYS:
        return f"; write {_OF_ARRAYS[name]}"
    return "; load a tile with ct.load first" if name in _OF_TILES else instead_of(name, known, "x.")


def instead_of_attribute(name: str, known: Iterable[str]) -> str:
    """The same for an attribute of tiles."""
    return f"; write {_OF_TILES[name]}" if name in _OF_TILES else instead_of(name, known, "x.")
