"""What to write instead of a name that the language does not have."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Iterable
from typing import Any, TypeVar

# Names of NumPy, PyTorch, Triton, JAX Pallas and CUDA that people try first -> what to write.
_ELSEWHERE = {
    "absolute": "ct.abs",
    "all": "ct.reduce, or ct.min of a bool tile as int32",
    "amax": "ct.max",
    "amin": "ct.min",
    "any": "ct.reduce, or ct.max of a bool tile as int32",
    "array": "ct.full, ct.arange or ct.load",
    "asarray": "ct.full, ct.arange or ct.load",
    "associative_scan": "ct.scan",
    "atomic_load": "ct.atomic_add(array, index, 0)",
    "atomic_store": "ct.atomic_xchg",
    "average": "ct.sum(x) / n",
    "bf16": "ct.bfloat16",
    "bfloat": "ct.bfloat16",
    "block_id": "ct.bid(axis)",
    "block_idx": "ct.bid(axis)",
    "blockIdx": "ct.bid(axis)",
    "ceil_div": "ct.cdiv",
    "clamp": "ct.minimum(ct.maximum(x, low), high), or tilewright.lib.clamp",
    "clip": "ct.minimum(ct.maximum(x, low), high), or tilewright.lib.clamp",
    "concat": "ct.cat",
    "concatenate": "ct.cat",
    "constexpr": "ct.Constant",
    "constexpr_function": "a plain Python function",
    "debug_barrier": "nothing: a block is one thread, and its operations are in order",
    "device_assert": "ct.assert_",
    "device_print": "ct.print or print",
    "divide": "ct.truediv",
    "dot": "ct.mma(a, b, accumulator), or a @ b",
    "dot_scaled": "ct.mma_scaled",
    "double": "ct.float64",
    "einsum": "ct.matmul with ct.permute",
    "empty": "ct.zeros or ct.full",
    "empty_like": "ct.zeros(x.shape, x.dtype)",
    "expand": "ct.broadcast_to",
    "eye": "ct.where with a comparison of ct.arange(n)[:, None] and ct.arange(n)[None, :]",
    "fdiv": "ct.truediv",
    "fill": "ct.full",
    "flatten": "ct.reshape(x, (-1,))",
    "flip": "ct.gather with indices that count down",
    "float": "ct.float32",
    "float8": "ct.float8_e4m3fn or ct.float8_e5m2",
    "float_power": "ct.pow",
    "floor_divide": "ct.floordiv",
    "fma": "a * b + c",
    "fp16": "ct.float16",
    "fp32": "ct.float32",
    "fp64": "ct.float64",
    "fp8": "ct.float8_e4m3fn or ct.float8_e5m2",
    "full_like": "ct.full(x.shape, value, x.dtype)",
    "grid_dim": "ct.num_blocks(axis)",
    "gridDim": "ct.num_blocks(axis)",
    "half": "ct.float16",
    "heuristics": "@ct.autotune",
    "hstack": "ct.cat",
    "inf": 'float("inf")',
    "inline_asm_elementwise": "the operations of ct; there is no assembly in tile code",
    "inner": "ct.sum(a * b)",
    "int": "ct.int32",
    "int1": "ct.bool_",
    "jit": "@ct.kernel",
    "join": "ct.cat of tiles with a new axis, x[..., None]",
    "lib": "import tilewright.lib",
    "linspace": "ct.arange, scaled",
    "logical_and": "a & b",
    "logical_not": "~x",
    "logical_or": "a | b",
    "make_block_ptr": "array.tiled_view(tile_shape), or ct.load with an index of tiles",
    "make_tensor_descriptor": "array.tiled_view(tile_shape), or ct.load with an index of tiles",
    "mean": "ct.sum(x) / n",
    "moveaxis": "ct.permute",
    "multiple_of": "nothing: divisibility is found out at launch",
    "multiply": "ct.mul",
    "nan": 'float("nan")',
    "ndim": "x.ndim",
    "newaxis": "None, as in x[None, :]",
    "num_programs": "ct.num_blocks(axis)",
    "ones_like": "ct.ones(x.shape, x.dtype)",
    "outer": "a[:, None] * b[None, :]",
    "pi": "math.pi",
    "power": "ct.pow",
    "program_id": "ct.bid(axis)",
    "rand": "tilewright.lib.uniform",
    "randint": "tilewright.lib.random_bits",
    "randn": "tilewright.lib.normal",
    "random": "tilewright.lib.uniform",
    "ravel": "ct.reshape(x, (-1,))",
    "reciprocal": "1 / x",
    "relu": "ct.maximum(x, 0)",
    "remainder": "ct.mod",
    "repeat": "ct.broadcast_to and ct.reshape",
    "rint": "tilewright.lib.round",
    "rng": "tilewright.lib.uniform",
    "roll": "ct.gather with shifted indices",
    "shape": "x.shape",
    "shared": "nothing: the compiler decides what is in shared memory",
    "sign": "ct.where(x > 0, 1, ct.where(x < 0, -1, 0))",
    "size": "the product of the entries of x.shape",
    "split": "ct.extract",
    "square": "x * x",
    "squeeze": "ct.reshape",
    "stack": "ct.cat of tiles with a new axis, x[None, :]",
    "static_print": "ct.print",
    "static_range": "ct.static_iter(range(n))",
    "std": "ct.sqrt of ct.sum of the squares of x - mean, over n",
    "subtract": "ct.sub",
    "swapaxes": "ct.permute",
    "sync": "nothing: a block is one thread, and its operations are in order",
    "syncthreads": "nothing: a block is one thread, and its operations are in order",
    "tensor": "ct.full, ct.arange or ct.load",
    "tensordot": "ct.matmul with ct.permute",
    "thread_id": "nothing: a block is one thread; think in tiles",
    "thread_idx": "nothing: a block is one thread; think in tiles",
    "threadIdx": "nothing: a block is one thread; think in tiles",
    "tile": "ct.broadcast_to and ct.reshape",
    "topk": "tilewright.lib.top_k",
    "trans": "ct.transpose or ct.permute",
    "tril": "ct.where with a comparison of ct.arange(n)[:, None] and ct.arange(n)[None, :]",
    "triu": "ct.where with a comparison of ct.arange(n)[:, None] and ct.arange(n)[None, :]",
    "true_divide": "ct.truediv",
    "uint1": "ct.bool_",
    "unsqueeze": "ct.expand_dims, or x[None, :]",
    "var": "ct.sum of the squares of x - mean, over n",
    "view": "ct.reshape, or ct.bitcast for another dtype",
    "vdot": "ct.sum(a * b)",
    "vstack": "ct.cat",
    "zeros_like": "ct.zeros(x.shape, x.dtype)",
}
# The functions of tilewright.lib.
_OF_LIB = (
    *("argsort", "block_prefix", "clamp", "dropout", "erf", "geglu", "gelu", "layer_norm", "log1p", "log_softmax"),
    *("next_block", "normal", "online_softmax", "philox", "random_bits", "rms_norm", "round", "sigmoid", "silu"),
    *("softmax", "sort", "swiglu", "top_k", "uniform"),
)
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

# Keywords of NumPy, PyTorch and Triton, as above.
_KEYWORDS = {
    "allow_tf32": "operands cast to ct.tfloat32",
    "boundary_check": "nothing: what lies outside of the array is padded by padding_mode",
    "cache_modifier": "latency=, a hint of 1 to 10",
    "dim": "axis=",
    "eviction_policy": "latency=, a hint of 1 to 10",
    "input_precision": "operands cast to ct.tfloat32",
    "keep_dims": "keepdims=",
    "cluster_dims": "num_ctas=",
    "cluster_size": "num_ctas=",
    "mask": "nothing: what lies outside of the array is padded by padding_mode, and not stored; ct.gather takes a mask",
    "num_stages": "latency= of ct.load, a hint of 1 to 10",
    "num_warps": "num_worker_warps=",
    "other": "padding_mode=ct.PaddingMode.ZERO, or padding_value= of ct.gather",
    "out_dtype": "the dtype of acc",
    "padding_option": "padding_mode=",
    "scope": "memory_scope=",
    "sem": "memory_order=",
}

# How programs call modules whose functions are no tile code, and those that they forget to import -> how.
FOREIGN = ("cuda", "jnp", "np", "numpy", "tl", "torch", "triton")
_IMPORTS = {"lib": "from tilewright import lib", "math": "import math"}

# Attributes that arrays have elsewhere, as above.
_OF_ARRAYS = {
    "numel": "the product of the entries of x.shape",
    "load": "ct.load(x, index, shape)",
    "store": "ct.store(x, index, tile)",
    "size": "the product of the entries of x.shape",
    "T": "ct.load with order='F', or ct.transpose of a loaded tile",
}


def instead_of(name: str, known: Iterable[str], prefix: str = "") -> str:
    """``; did you mean ct.load?``, a misspelt ``name`` among ``known``, or nothing. ``prefix`` is written before it."""
    close = difflib.get_close_matches(name, [k for k in known if not k.startswith("_")], 1, 0.7)
    return f"; did you mean {prefix}{close[0]}?" if close else ""


def instead_of_undefined(name: str, known: Iterable[str]) -> str:
    """What to write instead of a name that nothing defines, which may be that of a module."""
    if name in _IMPORTS:
        return f"; write {_IMPORTS[name]} first"
    return instead_of(name, known) or "; assign it at module level, or make it a parameter"


def instead_of_keyword(name: str, known: Iterable[str]) -> str:
    """What to write instead of a keyword of a function whose parameters are ``known``."""
    return f"; write {_KEYWORDS[name]}" if name in _KEYWORDS else instead_of(name, known)


def instead_of_positional(arguments: Iterable[Any], parameters: Iterable[inspect.Parameter]) -> str:
    """How to write a call with ``arguments``, which are more than ``parameters`` take by position."""
    for p, given in zip(parameters, arguments):
        if p.name in ("shape", "axes") and not isinstance(given, tuple):
            return f"; write {p.name!r} as one tuple"
    named = ", ".join(f"{p.name}=" for p in parameters if p.kind is p.KEYWORD_ONLY)
    return f"; write {named} by name" if named else ""


def instead_of_ours(name: str, known: Iterable[str]) -> str:
    """What to write instead of a ``name`` that the language lacks, with names of other languages."""
    if name in _OF_LIB or name in _ELSEWHERE:
        return f"; write {_ELSEWHERE.get(name, f'tilewright.lib.{name}')}"
    return instead_of(name, known, "ct.") or instead_of(name, _OF_LIB, "tilewright.lib.")


def instead_of_foreign(name: str, known: Iterable[str]) -> str:
    """What to write for ``name`` of NumPy, PyTorch or Triton: its other name in the language, or the same one."""
    return f"; write ct.{name}" if name in known else instead_of_ours(name, known)


def instead_of_attribute_of_arrays(name: str, known: Iterable[str]) -> str:
    """What to write instead of an attribute of arrays; those that only tiles have need a load."""
    if name in _OF_ARRAYS:
        return f"; write {_OF_ARRAYS[name]}"
    return "; load a tile with ct.load first" if name in _OF_TILES else instead_of(name, known, "x.")


def instead_of_attribute(name: str, known: Iterable[str]) -> str:
    """What to write instead of an attribute of tiles."""
    return f"; write {_OF_TILES[name]}" if name in _OF_TILES else instead_of(name, known, "x.")


_T = TypeVar("_T", bound=Any)


def explains_arguments(callee: _T) -> _T:
    """A function or a class whose TypeError for arguments that it does not take says which ones it takes."""
    is_class = isinstance(callee, type)
    maker = "__new__" if "__new__" in vars(callee) else "__init__"
    body = getattr(callee, maker) if is_class else callee
    form = inspect.signature(callee)
    form = form.replace(parameters=[p.replace(annotation=p.empty) for p in form.parameters.values()])
    shown = f"{callee.__name__}{form.replace(return_annotation=form.empty)}"

    @functools.wraps(body)
    def checked(*args: Any, **keywords: Any) -> Any:
        try:
            form.bind(*args[is_class:], **keywords)
        except TypeError as e:
            unknown = next((name for name in keywords if name not in form.parameters), None)
            meant = "" if unknown is None else instead_of_keyword(unknown, form.parameters)
            raise TypeError(f"{callee.__name__}(): {e}{meant}; it is called as {shown}") from None
        return body(*args, **keywords)

    if is_class:
        setattr(callee, maker, checked)
    return callee if is_class else checked  # type: ignore[return-value]
