"""What the reference says of parameters, results and errors beside the docstrings: tables that many functions share.

A test holds that every parameter of every public name is described, here or in its docstring, and makes each of the
``MISTAKES``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tables import markdown

# Types as the signatures write them -> what may be passed.
TYPES: Mapping[str, str] = {
    "TileLike": "tile, scalar or number",
    "Tile": "tile",
    "Array": "array",
    "Shape": "constant integer or tuple of them",
    "Index": "integer scalar or tuple of them",
    "Axis": "constant integer, tuple of them or None",
    "Mode": "`RoundingMode`, its name or None",
    "RoundingMode | str | None": "`RoundingMode`, its name or None",
    "Padding": "`PaddingMode` or its name",
    "Order": "`MemoryOrder` or its name",
    "Scope": "`MemoryScope` or its name",
    "tuple[int, ...]": "tuple of constant integers",
    "int": "constant integer",
    "int | None": "constant integer or None",
    "bool": "constant bool",
    "str": "constant string",
    "str | None": "constant string or None",
}

# What may be passed where a signature says Any: by the name of the parameter, or of the function and the parameter.
_OF_ANY: Mapping[str, str] = {
    "allow_tma": "constant bool or None",
    "args": "tiles, scalars, numbers and strings",
    "bias": "tile, number or None",
    "block": "int32 scalar",
    "count": "integer, scalar or None",
    "dtype": "dtype",
    "expr": "Python expression",
    "func": "function of tiles",
    "function": "function",
    "gate": "floating-point tile",
    "high": "tile, scalar or number",
    "hints": "values of hints by their names",
    "identity": "number or tuple of them",
    "index": "integer tile",
    "indices": "integer tile, scalar or number, or tuple of them",
    "latency": "constant integer or None",
    "low": "tile, scalar or number",
    "maximum": "floating-point tile",
    "message": "constant string",
    "order": "string or tuple of constant integers",
    "pointee_dtype": "dtype",
    "prefixes": "1-D array",
    "probability": "number or floating-point scalar",
    "ready": "int32 array",
    "scores": "floating-point tile",
    "seed": "integer, or integer scalar",
    "start": "integer scalar or number",
    "stream": "stream, its address, or None",
    "tickets": "int32 array",
    "total": "tile or scalar",
    "up": "floating-point tile",
    "value": "tile, scalar, number, or nested tuple of numbers",
    "value_by_target": "values by the names of targets",
    "weight": "tile, number or None",
    "x": "tile",
    "y": "tile",
    "cdiv.x": "integer tile, scalar or number",
    "cdiv.y": "integer tile, scalar or number",
    "reduce.x": "tile or tuple of tiles",
    "scan.x": "tile or tuple of tiles",
}

# The same in every function of the language that has a parameter of that name.
LANGUAGE: Mapping[str, str] = {
    "acc": "what the product is added to; its dtype is that of the result",
    "allow_tma": "whether the tensor memory accelerator may be used on a GPU: a hint, None to let the compiler choose",
    "array": "an array that the kernel was launched with, or a part of one",
    "axis": "the axis, from the end where it is negative",
    "check_bounds": "False promises that everything accessed lies in the array",
    "cond": "the condition: bools",
    "dtype": "a dtype, of tilewright, NumPy, PyTorch or ml_dtypes",
    "flush_to_zero": "subnormal float32 operands and results are zeros",
    "func": "a function of tiles, which combines two elements (or the elements of two rows of a tuple of tiles)",
    "identity": "a constant, or a tuple of them, that `func` combines with x to x",
    "index": "the index of the tile: which of the tiles that the array, or tile, is cut into",
    "indices": "an integer tile, or a tuple of them with one entry for each axis of the array",
    "keepdims": "the axis stays, with the extent 1",
    "latency": "how costly the access is, from 1 to 10: a hint for the compiler",
    "mask": "bools; where they are false nothing is accessed",
    "memory_order": "what of other accesses it orders",
    "memory_scope": "among which threads of execution it does so",
    "order": '"C" (axes in their order), "F" (reversed) or a permutation: tile axis k walks array axis order[k]',
    "padding_mode": "what elements outside of the array are",
    "padding_value": "what elements are where nothing is read",
    "propagate_nan": "a NaN among the elements makes the result NaN; else numbers win",
    "reverse": "go from the last element to the first",
    "rounding_mode": "how floats are rounded; None is the nearest, of two the even one",
    "shape": "the shape of the result: powers of two",
    "start": "the first element",
    "step": "the distance of neighbours",
    "tile": "what is stored; converted where that loses nothing",
    "update": "the other operand, broadcast to the shape of the indices",
    "use_fast_acc": "float8 operands may accumulate with fewer bits on a GPU",
    "value": "what is stored or converted",
    "x": "the operand",
    "y": "the second operand; both are broadcast to one shape and promoted to one dtype",
}

# Where a name means something else, or stands in one function only. Keys are names of the reference.
SPECIAL: Mapping[str, Mapping[str, str]] = {
    "arange": {"size": "how many elements: a power of two"},
    "assert_": {"message": "what the error says"},
    "assume_divisible_by": {"x": "an integer scalar", "divisor": "a positive constant"},
    "atan2": {"x1": "the numerators", "x2": "the denominators"},
    "atomic_cas": {"expected": "what is there where the exchange happens", "desired": "what is stored then"},
    "bid": {"axis": "0, 1 or 2"},
    "num_blocks": {"axis": "0, 1 or 2"},
    "cat": {"tiles": "one or two tiles of one dtype, whose extents differ along `axis` at most"},
    "ensure_constant": {"value": "any value"},
    "extract": {"shape": "the shape of the part: powers of two that divide the extents of `x`"},
    "full": {"fill_value": "the element"},
    "insert": {"value": "the part that is replaced, of the rank of `x`"},
    "foreign_pointer_dtype": {"pointee_dtype": "the dtype of what the pointers point to"},
    "matmul": {"y": "the second matrix, or stack of matrices"},
    "mma": {"x": "a matrix (M, K), or a stack (B, M, K)", "y": "a matrix (K, N), or a stack (B, K, N)"},
    "mma_scaled": {
        "x": "a matrix (M, K) of float8 or float4",
        "x_scale": "scales (M, K / V) of `x`, for V neighbours along K each",
        "y": "a matrix (K, N) of float8 or float4",
        "y_scale": "scales (K / V, N) of `y`",
    },
    "permute": {"axes": "axis k of the result is axis axes[k] of `x`"},
    "print": {"args": "tiles, scalars, numbers and strings", "sep": "between them", "end": "after the last"},
    "printf": {"format": "text with conversions as in C", "args": "a tile or scalar for each conversion"},
    "Slice": {"start": "the first position", "length": "how many: a power of two"},
    "static_assert": {"condition": "a constant bool", "message": "what the error says"},
    "static_eval": {"expr": "an expression of constants, evaluated by Python"},
    "static_exception": {"exc": "an exception, which is raised where the kernel is compiled"},
    "static_iter": {"iterable": "constants: the loop over them is unrolled"},
    "transpose": {"axis0": "an axis; by default the last but one", "axis1": "another; by default the last"},
    "unpack_from_bytes": {"x": "bytes: a 1-D uint8 tile", "dtype": "the dtype of the elements"},
    "where": {"x": "elements where the condition holds", "y": "elements where it does not"},
    "autotune": {"quiet": "False shows what is measured"},
    "compiler_timeout": {"timeout_sec": "seconds, or None for no limit"},
    "function": {
        "func": "the function that is decorated; None where the decorator is called with options",
        "host": "whether it may also be called outside of kernels",
        "tile": "whether it may be called in kernels",
    },
    "kernel": {"function": "the function that is decorated; None where the decorator is called with hints"},
    "ByTarget": {"value_by_target": "targets by name, such as `sm_90=2`"},
    "view": {"title": "the title of the page"},
    "tune.AutotunedKernel": {
        "kernel": "the kernel",
        "configs": "what is tried",
        "key": "the parameters whose values are tuned apart",
        "options": "options of `Tuner`",
    },
    "tune.Config": {"values": "constants by parameter", "hints": "hints of the kernel, such as `num_ctas`"},
    "tune.Measurement": {"config": "the configuration", "mean_us": "the mean of the runs, in microseconds"},
    "tune.Tuner": {
        "kernel": "the kernel",
        "single_run_timeout_sec": "seconds after which a run is given up; None waits",
        "flush_l2": "empty the caches before every run",
    },
    "tune.autotune": {"quiet": "False shows what is measured"},
    "tune.exhaustive_search": {"stream": "the stream, as of `ct.launch`"},
    "compilation.ArrayConstraint": {"dtype": "the dtype of the elements", "ndim": "the number of axes"},
    "compilation.CallingConvention": {
        "name": "what it is called",
        "code": "its letter in mangled names",
        "version": "its version",
    },
    "compilation.ConstantConstraint": {"value": "the constant"},
    "compilation.KernelSignature": {"calling_convention": "how arguments are passed"},
    "compilation.TupleConstraint": {"items": "a constraint for each entry"},
    "compilation.demangle_kernel_name": {"symbol": "the name in the object file"},
    "cpp.Kernel": {
        "expression": "the kernel as C++ writes it, such as `add<float>`",
        "function": "its Tile IR",
        "checked": "makes the Tile IR with checks of the sanitizer",
        "target": "the GPU that `__CUDA_ARCH__` is of, or None",
        "request": "what was compiled, with which options",
    },
    "cpp.Module": {
        "request": "what is compiled, with which options",
        "target": "the GPU that `__CUDA_ARCH__` is of, or None",
    },
    "cpp.compile": {"source_or_path": "a file, or the text of one", "std": "the version of C++"},
}

_LIBRARY: Mapping[str, str] = {
    "approximate": "the form with tanh",
    "axis": "the axis, a constant; from the end where it is negative",
    "block": "the number of the block, of `next_block`",
    "bias": "what is added, broadcast to the shape of `x`; None for nothing",
    "count": "how many elements along the axis there are, where others are padding",
    "counter": "four uint32 words, tiles or numbers",
    "descending": "the greatest first",
    "eps": "what is added to the variance",
    "gate": "the tile that goes through the activation",
    "high": "the upper bound",
    "index": "an integer tile: which of the numbers of the seed",
    "k": "how many: a constant power of two",
    "key": "two uint32 words",
    "low": "the lower bound",
    "maximum": "the greatest score so far, at first -inf; its extent along the axis is 1",
    "prefixes": "an array with an element for each block, of the dtype of `total`",
    "probability": "of an element to become 0",
    "ready": "an int32 array with an element for each block, 0 at first",
    "rounds": "how many rounds, a constant",
    "scores": "the scores of this part",
    "seed": "an integer, up to 64 bits",
    "tickets": "an int32 array of one element, 0 at first",
    "total": "the sum so far, or of this block",
    "up": "the other factor",
    "weight": "the factor, broadcast to the shape of `x`; None for 1",
    "x": "a tile, of any rank and size that the language has",
}

_SAME = "of the shape and dtype of `x`"
_COMMON = "of the common shape and dtype of the operands"
_FLOAT = "of the shape of `x`; of its dtype where that is a float, else float32"
_BOOLS = "of bools, of the common shape of the operands"
_REDUCED = "without the axis, or without any where it is None; bools become int32"
_RESULTS: Mapping[str, Sequence[str]] = {
    _SAME: (
        *("abs", "ceil", "floor", "negative", "bitwise_not", "cumsum", "cumprod", "insert", "assume_divisible_by"),
        *("lib.clamp", "lib.sigmoid", "lib.silu", "lib.gelu", "lib.erf", "lib.log1p", "lib.round", "lib.softmax"),
        *("lib.log_softmax", "lib.rms_norm", "lib.layer_norm", "lib.sort", "lib.dropout"),
    ),
    _COMMON: (
        *("add", "sub", "mul", "floordiv", "mod", "pow", "atan2", "maximum", "minimum", "cdiv", "bitwise_and"),
        *("bitwise_or", "bitwise_xor", "bitwise_lshift", "bitwise_rshift"),
    ),
    _FLOAT: ("cos", "cosh", "sin", "sinh", "tan", "tanh", "exp", "exp2", "log", "log2", "sqrt", "rsqrt"),
    _BOOLS: ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    _REDUCED: ("sum", "prod", "max", "min"),
    "of int32, without the axis; without any where it is None": ("argmax", "argmin"),
    "of the common shape; integers give float32": ("truediv",),
    "of bools, of the shape of `x`": ("isnan",),
    "two tiles, quotient and remainder, of the common shape and dtype": ("divmod",),
    "of the common shape of all operands, and of the common dtype of `x` and `y`": ("where",),
    "an int32 scalar": ("bid", "num_blocks", "num_tiles", "lib.next_block"),
    "of `shape`, with the dtype of the array": ("load",),
    "of the common shape of the indices, with the dtype of the array": ("gather",),
    "of the extents of the indices, with the dtype of the array": ("load_advanced_indexing",),
    "what was there before, of the shape of the indices and the dtype of the array": (
        *("atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or", "atomic_xchg"),
        "atomic_xor",
    ),
    "of the given shape and dtype": ("full", "zeros", "ones"),
    "1-D, of the given size and dtype": ("arange",),
    "of the shape of the value, with the given dtype": ("astile", "astype", "bitcast"),
    "of `shape`, with the dtype of `x`": ("broadcast_to", "reshape", "extract"),
    "as the tiles, with the sum of their extents along the axis": ("cat",),
    "as `x`, with an axis of extent 1 more": ("expand_dims",),
    "as `x`, with its axes in the given order": ("permute", "transpose"),
    "a matrix (M, N), or a stack, of the common dtype": ("matmul",),
    "of the shape and dtype of `acc`": ("mma", "mma_scaled"),
    "1-D, of uint8": ("pack_to_bytes",),
    "1-D, of the given dtype": ("unpack_from_bytes",),
    "a tile, or a tuple of as many tiles as `x` has, without the axis": ("reduce",),
    "a tile, or a tuple of as many tiles as `x` has, of its shape": ("scan",),
    "the value": ("ensure_constant", "static_eval", "static_iter"),
    "the exception, to be raised": ("static_exception",),
    "a dtype of pointers": ("foreign_pointer_dtype",),
    "of int32, of the shape of `x`": ("lib.argsort",),
    "two tiles, of extent `k` along the axis: elements, and int32 indices": ("lib.top_k",),
    "of the shape and dtype of `gate`": ("lib.swiglu", "lib.geglu"),
    "(weights, rescale, maximum, total), the first of the shape of `scores`, the others of extent 1 along the axis": (
        "lib.online_softmax",
    ),
    "four uint32 tiles of the common shape": ("lib.philox",),
    "of uint32, of the shape of `index`": ("lib.random_bits",),
    "of float32, of the shape of `index`": ("lib.uniform", "lib.normal"),
    "a scalar of the dtype of `prefixes`": ("lib.block_prefix",),
}
RESULTS = {name: text for text, names in _RESULTS.items() for name in names}


class Mistake(NamedTuple):
    """A call that raises ``error``, and what is wrong with it. In it there are f, i and b: tiles of 4 elements."""

    call: str
    error: str
    why: str


_TYPE = "TileTypeError"
_TEXT, _SHAPES, _AXIS = "no tile and no number", "shapes that do not broadcast", "an axis that there is not"


def _mistakes() -> dict[str, list[Mistake]]:
    found = {name: [Mistake(f'ct.{name}("text")', _TYPE, _TEXT)] for name in RESULTS_OF_ONE}
    for name in (*_RESULTS[_COMMON], *_RESULTS[_BOOLS], "truediv", "divmod"):
        found[name] = [Mistake(f"ct.{name}(i, ct.zeros((8,), ct.int32))", _TYPE, _SHAPES)]
    for name in ("sum", "prod", "max", "min", "argmax", "argmin", "cumsum", "cumprod"):
        found[name] = [Mistake(f"ct.{name}(f, axis=1)", _TYPE, _AXIS)]
    for name in ("add", "sub", "mul", "truediv", "atomic_add", "atomic_max", "atomic_min", "atomic_xchg"):
        if name.startswith("atomic"):
            found[name] = [Mistake(f"ct.{name}(np.zeros(4), f, 1)", _TYPE, "indices that are no integers")]
        else:
            found[name].append(Mistake(f'ct.{name}(f, f, rounding_mode="up")', _TYPE, "a mode that there is not"))
    for name in ("atomic_and", "atomic_or", "atomic_xor"):
        found[name] = [Mistake(f"ct.{name}(np.zeros(4, np.float32), i, 1)", _TYPE, "a dtype that it does not have")]
    return {**found, **{name: [Mistake(*m) for m in rows] for name, rows in _OWN.items()}}


RESULTS_OF_ONE = (*_RESULTS[_FLOAT], "abs", "ceil", "floor", "negative", "bitwise_not", "isnan")
_POWER = "an extent that is no power of two"
_OWN: Mapping[str, Sequence[tuple[str, str, str]]] = {
    "load": [
        ("ct.load(np.zeros(4), (0, 0), (2,))", _TYPE, "index, shape and array of different ranks"),
        ("ct.load(np.zeros(4), (0,), (3,))", _TYPE, _POWER),
    ],
    "store": [
        ("ct.store(np.zeros(4), (0,), ct.zeros((2, 2), ct.float64))", _TYPE, "a tile of another rank"),
        ("ct.store(np.zeros(4, np.int32), (0,), f)", _TYPE, "a dtype that does not convert without loss"),
    ],
    "gather": [
        ("ct.gather(np.zeros(4), f)", _TYPE, "indices that are no integers"),
        ("ct.gather(np.zeros((4, 4)), i)", _TYPE, "not one index for each axis"),
    ],
    "scatter": [("ct.scatter(np.zeros(4), i, ct.zeros((2,), ct.float64))", _TYPE, _SHAPES)],
    "atomic_cas": [("ct.atomic_cas(np.zeros(4, np.int8), i, 1, 1)", _TYPE, "a dtype that it does not have")],
    "load_advanced_indexing": [("ct.load_advanced_indexing(np.zeros(4), (i,))", _TYPE, "an array of one axis")],
    "store_advanced_indexing": [("ct.store_advanced_indexing(np.zeros(4), (i,), f)", _TYPE, "an array of one axis")],
    "Slice": [("ct.Slice(0, 3)", _TYPE, "a length that is no power of two")],
    "bid": [("ct.bid(3)", _TYPE, _AXIS)],
    "num_blocks": [("ct.num_blocks(-1)", _TYPE, _AXIS)],
    "num_tiles": [("ct.num_tiles(np.zeros(4), 1, (2,))", _TYPE, _AXIS)],
    "arange": [("ct.arange(3, dtype=ct.int32)", _TYPE, _POWER)],
    "full": [("ct.full((3,), 1, ct.int32)", _TYPE, _POWER)],
    "zeros": [("ct.zeros((3,), ct.int32)", _TYPE, _POWER)],
    "ones": [('ct.ones((4,), "q")', _TYPE, "no dtype")],
    "astile": [('ct.astile("text", dtype=ct.int32)', _TYPE, _TEXT)],
    "astype": [('ct.astype(f, "q")', _TYPE, "no dtype")],
    "bitcast": [("ct.bitcast(f, ct.int8)", _TYPE, "a dtype of another width")],
    "broadcast_to": [("ct.broadcast_to(f, (8,))", _TYPE, _SHAPES)],
    "cat": [
        ("ct.cat((f, i), 0)", _TYPE, "different dtypes"),
        ("ct.cat((f, f, f), 0)", _TYPE, "more than two tiles"),
    ],
    "expand_dims": [("ct.expand_dims(f, 3)", _TYPE, _AXIS)],
    "extract": [("ct.extract(f, (0, 0), (2,))", _TYPE, "index and tile of different ranks")],
    "insert": [("ct.insert(f, (0,), ct.zeros((2, 2), ct.float32))", _TYPE, "a part of another rank")],
    "matmul": [
        ("ct.matmul(ct.zeros((2, 4), ct.float32), ct.zeros((8, 2), ct.float32))", _TYPE, "extents that do not meet"),
    ],
    "mma": [
        (
            "ct.mma(ct.zeros((2, 4), ct.float32), ct.zeros((4, 2), ct.float32), ct.zeros((2, 2), ct.int32))",
            _TYPE,
            "dtypes that have no product",
        ),
    ],
    "mma_scaled": [("ct.mma_scaled(f, f, f, f, f)", _TYPE, "dtypes or shapes that have no scaled product")],
    "pack_to_bytes": [("ct.pack_to_bytes(b)", _TYPE, "bools")],
    "unpack_from_bytes": [("ct.unpack_from_bytes(f, ct.int32)", _TYPE, "no 1-D uint8 tile")],
    "permute": [("ct.permute(ct.zeros((2, 2), ct.float32), (0, 0))", _TYPE, "no permutation")],
    "reshape": [("ct.reshape(f, (8,))", _TYPE, "another number of elements")],
    "transpose": [("ct.transpose(f)", _TYPE, "a tile of one axis")],
    "reduce": [("ct.reduce(f, 0, lambda a, b: (a, b), 0)", _TYPE, "a function with another number of results")],
    "scan": [("ct.scan(f, 1, lambda a, b: a + b, 0)", _TYPE, _AXIS)],
    "where": [("ct.where(b, f, ct.zeros((8,), ct.float32))", _TYPE, _SHAPES)],
    "assert_": [
        ('ct.assert_(i < 0, "negative")', "TileError", "a condition that is false, when the kernel runs"),
        ("ct.assert_(f)", _TYPE, "a condition that is no bool"),
    ],
    "assume_divisible_by": [("ct.assume_divisible_by(f, 4)", _TYPE, "no integer scalar")],
    "print": [("ct.print(f, sep=1)", _TYPE, "a separator that is no string")],
    "printf": [('ct.printf("%d", f)', _TYPE, "a conversion that does not suit its argument")],
    "static_assert": [('ct.static_assert(False, "no")', "TileStaticAssertionError", "a condition that is false")],
    "ensure_constant": [("ct.ensure_constant(f)", "TileStaticAssertionError", "a value known at run time only")],
    "foreign_pointer_dtype": [('ct.foreign_pointer_dtype("q")', "TypeError", "no dtype")],
    "compiler_timeout": [("ct.compiler_timeout(-1).__enter__()", "ValueError", "a limit that is not positive")],
    "kernel": [("ct.kernel(occupancy=0)(lambda x: None)", "ValueError", "a hint out of its range")],
    "launch": [
        ("ct.launch((1,), k, (1,))", "TypeError", "a forgotten stream"),
        ("ct.launch(None, (1,), k, (1, 2))", "TypeError", "another number of arguments than parameters"),
        ("ct.launch(None, (-1,), k, (1,))", "OverflowError", "a negative number of blocks"),
    ],
    "sanitize": [('ct.sanitize(enable=["luck"]).__enter__()', "ValueError", "no category of faults")],
    "use_backend": [('ct.use_backend("abacus").__enter__()', "ValueError", "no backend")],
    "view": [("ct.view(limit=0)", "ValueError", "a limit below 1")],
    "lib.top_k": [("lib.top_k(f, 3)", _TYPE, "a number that is no power of two")],
    "lib.next_block": [("lib.next_block(f)", _TYPE, "no array")],
    "lib.online_softmax": [("lib.online_softmax(f, f, f, 1)", _TYPE, _AXIS)],
    "lib.philox": [("lib.philox(f, f)", _TYPE, "a tile where four are needed")],
    **{f"lib.{n}": [(f"lib.{n}(f, 1)", _TYPE, _AXIS)] for n in ("softmax", "log_softmax")},
    "lib.rms_norm": [("lib.rms_norm(f, axis=1)", _TYPE, _AXIS)],
    **{f"lib.{n}": [(f"lib.{n}(f, axis=1)", "TileStaticAssertionError", _AXIS)] for n in ("layer_norm", "sort")},
}
MISTAKES = _mistakes()


def meaning(name: str, parameter: str) -> str | None:
    """What ``parameter`` of the public ``name`` is; None where its docstring says it."""
    special = SPECIAL.get(name, {}).get(parameter)
    if special is not None:
        return special
    if name.startswith("lib."):
        return _LIBRARY.get(parameter)
    return LANGUAGE.get(parameter) if name in RESULTS or name in MISTAKES else None


def sections(name: str, value: Any) -> list[str]:
    """The table of the parameters of a function, its result, and its errors, as Markdown; those that are known."""
    parts = []
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    known = [(p, meaning(name, p.name)) for p in parameters]
    rows = [[f"`{p.name}`", type_of(name, p), text.replace("|", "\\|")] for p, text in known if text is not None]
    if rows:
        parts.append(markdown(["parameter", "type", "meaning"], rows))
    if name in RESULTS:
        parts.append(f"*Result:* {RESULTS[name]}.")
    found = MISTAKES.get(name, ())
    if found:
        raised = "; ".join(f"`{m.error}` for {m.why}, as in `{m.call}`" for m in found)
        parts.append(f"*Errors:* {raised}.")
    return parts


def type_of(name: str, parameter: inspect.Parameter) -> str:
    """What may be passed as ``parameter`` of the public ``name``."""
    annotation = parameter.annotation
    if annotation in (parameter.empty, "Any") or not isinstance(annotation, str):
        return _OF_ANY.get(f"{name}.{parameter.name}") or _OF_ANY.get(parameter.name, "")
    return TYPES.get(annotation, f"`{annotation}`")  # a bar within code ends no cell
