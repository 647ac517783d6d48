"""Every public name, its signature and its default values."""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.ir.errors import TileCompilerError, UnsupportedCallError
from tilewright.ir.hints import UNSPECIFIED

ROUNDED = "(x, y, /, *, rounding_mode=None, flush_to_zero=False)"
BINARY, UNARY = "(x, y, /)", "(x, /)"
EXTREMUM = "(x, y, /, *, flush_to_zero=False, propagate_nan=False)"
SUM = "(x, /, axis=None, *, keepdims=False, rounding_mode=None, flush_to_zero=False)"
MAX = "(x, /, axis=None, *, keepdims=False, flush_to_zero=False, propagate_nan=False)"
ARG = "(x, /, axis=None, *, keepdims=False, propagate_nan=False)"
CUMULATIVE = "(x, /, axis=0, *, reverse=False, rounding_mode=None, flush_to_zero=False)"
ORDERED = "memory_order=MemoryOrder.ACQ_REL, memory_scope=MemoryScope.DEVICE)"
ATOMIC = "(array, indices, update, /, *, check_bounds=True, " + ORDERED
WEAK = "memory_order=MemoryOrder.WEAK, memory_scope=MemoryScope.NONE)"
UNDETERMINED = "padding_mode=PaddingMode.UNDETERMINED"

FUNCTIONS: dict[str, str] = {
    "compiler_timeout": "(timeout_sec)",
    "function": "(func=None, /, *, host=False, tile=True)",
    "foreign_pointer_dtype": "(pointee_dtype)",
    "bid": "(axis)",
    "num_blocks": "(axis)",
    "num_tiles": "(array, /, axis, shape, order='C')",
    "assume_divisible_by": "(x, divisor)",
    "load": f"(array, /, index, shape, *, order='C', {UNDETERMINED}, check_bounds=True, latency=None, allow_tma=None, {WEAK}",
    "store": f"(array, /, index, tile, *, order='C', check_bounds=True, latency=None, allow_tma=None, {WEAK}",
    "Slice": "(start, length, /)",
    "load_advanced_indexing": f"(array, indices, /, *, {UNDETERMINED}, latency=None, allow_tma=None)",
    "store_advanced_indexing": "(array, indices, tile, /, *, latency=None, allow_tma=None)",
    "gather": "(array, indices, /, *, mask=None, padding_value=0, check_bounds=True, latency=None)",
    "scatter": "(array, indices, value, /, *, mask=None, check_bounds=True, latency=None)",
    "atomic_cas": "(array, indices, expected, desired, /, *, check_bounds=True, " + ORDERED,
    **{f"atomic_{name}": ATOMIC for name in ("xchg", "add", "max", "min", "and", "or", "xor")},
    "arange": "(size, /, *, dtype, start=0, step=1)",
    "full": "(shape, fill_value, dtype)",
    "ones": "(shape, dtype)",
    "zeros": "(shape, dtype)",
    "astile": "(value, /, *, dtype)",
    "reshape": "(x, /, shape)",
    "broadcast_to": "(x, /, shape)",
    "expand_dims": "(x, /, axis)",
    "permute": "(x, /, axes)",
    "transpose": "(x, /, axis0=None, axis1=None)",
    "cat": "(tiles, /, axis)",
    "extract": "(x, /, index, shape)",
    "insert": "(x, /, index, value)",
    "where": "(cond, x, y, /)",
    "astype": "(x, dtype, /, *, rounding_mode=None)",
    "bitcast": "(x, /, dtype)",
    "pack_to_bytes": UNARY,
    "unpack_from_bytes": "(x, /, dtype)",
    **dict.fromkeys(("add", "sub", "mul", "truediv"), ROUNDED),
    **dict.fromkeys(("floordiv", "mod", "pow", "divmod", "cdiv"), BINARY),
    **dict.fromkeys(("minimum", "maximum"), EXTREMUM),
    "atan2": "(x1, x2, /)",
    **dict.fromkeys(("greater", "greater_equal", "less", "less_equal", "equal", "not_equal"), BINARY),
    **{f"bitwise_{name}": BINARY for name in ("and", "or", "xor", "lshift", "rshift")},
    **dict.fromkeys(("bitwise_not", "log", "log2", "sin", "cos", "tan", "sinh", "cosh"), UNARY),
    **dict.fromkeys(("floor", "ceil", "abs", "negative", "isnan"), UNARY),
    **dict.fromkeys(("exp", "tanh"), "(x, /, *, rounding_mode=None)"),
    **dict.fromkeys(("exp2", "rsqrt"), "(x, /, *, flush_to_zero=False)"),
    "sqrt": "(x, /, *, rounding_mode=None, flush_to_zero=False)",
    **dict.fromkeys(("sum", "prod"), SUM),
    **dict.fromkeys(("max", "min"), MAX),
    **dict.fromkeys(("argmax", "argmin"), ARG),
    **dict.fromkeys(("cumsum", "cumprod"), CUMULATIVE),
    "reduce": "(x, /, axis, func, identity, *, keepdims=False)",
    "scan": "(x, /, axis, func, identity, *, reverse=False)",
    "mma": "(x, y, /, acc, *, use_fast_acc=False)",
    "matmul": BINARY,
    "mma_scaled": "(x, x_scale, y, y_scale, /, acc)",
    "printf": "(format, *args)",
    "print": "(*args, sep=' ', end='\\n')",
    "assert_": "(cond, /, message=None)",
    "static_eval": "(expr, /)",
    "static_assert": "(condition, message=None, /)",
    "static_iter": "(iterable)",
    "static_exception": "(exc, /)",
    "ensure_constant": "(value, /)",
    "grid_dependency_control_wait": "()",
    "grid_dependency_control_launch_dependents": "()",
}
METHODS: dict[str, dict[str, str]] = {
    "Array": {
        "slice": "(self, axis, start, stop)",
        "tiled_view": f"(self, tile_shape, *, {UNDETERMINED}, traversal_steps=None)",
        "from_foreign": "(pointer, shape, strides)",
        "get_raw_memory": "(self)",
    },
    "RawArrayMemory": {
        "load_offset": "(self, offset, /, *, mask=None, padding_value=0, latency=None)",
        "store_offset": "(self, offset, value, /, *, mask=None, latency=None)",
        "atomic_cas_offset": "(self, offset, expected, desired, /, *, mask=None, " + ORDERED,
        **{
            f"atomic_{name}_offset": "(self, offset, update, /, *, mask=None, " + ORDERED
            for name in ("xchg", "add", "max", "min", "and", "or", "xor")
        },
    },
    "Tile": {
        "item": "(self)",
        "extract": "(self, index, shape)",
        "insert": "(self, index, value)",
        "reshape": "(self, shape)",
        "permute": "(self, axes)",
        "transpose": "(self, axis0=None, axis1=None)",
        "astype": "(self, dtype, *, rounding_mode=None)",
    },
    "TiledView": {
        "num_tiles": "(self, axis)",
        "load": "(self, index, *, check_bounds=True, latency=None, allow_tma=None)",
        "store": "(self, index, tile, *, check_bounds=True, latency=None, allow_tma=None)",
        **{f"atomic_store_{name}": "(self, index, update, /)" for name in ("add", "max", "min", "and", "or", "xor")},
    },
    "kernel": {"replace_hints": "(self, **hints)"},
}
DATA = {
    "Array": ("dtype", "ndim", "shape", "strides", "foreign_pointer"),
    "RawArrayMemory": ("dtype",),
    "Tile": ("dtype", "shape", "ndim"),
    "TiledView": ("dtype", "tile_shape", "traversal_steps"),
}
DTYPES = "bool_ uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 tfloat32 "
DTYPES += "float8_e4m3fn float8_e5m2 float8_e8m0fnu float8_e5m3fnu float4_e2m1fn"
CLASSES = (
    "ArrayAnnotation ByTarget Constant ConstantAnnotation DType IndexedWithInt64 ListAnnotation Scalar ScalarInt64 "
)
CLASSES += "Array Tile TiledView Slice kernel"
ENUMS = {
    "RoundingMode": {
        "RN": "nearest_even",
        "RZ": "zero",
        "RM": "negative_inf",
        "RP": "positive_inf",
        "RA": "nearest_away",
        "FULL": "full",
        "APPROX": "approx",
        "RZI": "nearest_int_to_zero",
    },
    "PaddingMode": {n: n.lower() for n in ("UNDETERMINED", "ZERO", "NEG_ZERO", "NAN", "POS_INF", "NEG_INF")},
    "MemoryOrder": {n: n.lower() for n in ("WEAK", "RELAXED", "ACQUIRE", "RELEASE", "ACQ_REL")},
    "MemoryScope": {n: n.lower() for n in ("NONE", "BLOCK", "CLUSTER", "DEVICE", "SYS")},
}
EXCEPTIONS = {
    "TileError": Exception,
    **dict.fromkeys(
        [
            "TileSyntaxError",
            "TileTypeError",
            "TileValueError",
            "TileRecursionError",
            "TileUnsupportedFeatureError",
            "TileStaticAssertionError",
            "TileStaticEvalError",
            "TileInternalError",
        ],
        ct.TileError,
    ),
    "StaticException": ct.TileStaticEvalError,
    "TileCompilerExecutionError": TileCompilerError,
    "TileCompilerTimeoutError": TileCompilerError,
}


def shown(function: Any) -> str:
    """The signature without annotations, with enum members by name."""
    signature = inspect.signature(function)
    parameters = [
        p.replace(
            annotation=p.empty,
            default=_Bare(str(p.default)) if isinstance(p.default, enum.Enum) else p.default,
        )
        for p in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


class _Bare(str):
    __repr__ = str.__str__  # type: ignore[assignment]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signature(name: str) -> None:
    assert name in ct.__all__
    assert shown(getattr(ct, name)) == FUNCTIONS[name]


@pytest.mark.parametrize("owner", METHODS)
def test_methods(owner: str) -> None:
    cls = getattr(ct, owner)
    assert {name: shown(getattr(cls, name)) for name in METHODS[owner]} == METHODS[owner]


def test_launch_and_kernel() -> None:
    assert shown(ct.launch).startswith("(stream, grid, kernel, kernel_args, /, *, programmatic_dependent_launch=False")
    options = "(function=None, /, *, num_ctas=None, occupancy=None, opt_level=3, num_worker_warps=None)"
    assert shown(ct.kernel) == options
    assert shown(ct.ByTarget) == "(*, default=UNSPECIFIED, **value_by_target)"
    assert inspect.signature(ct.ByTarget).parameters["default"].default is UNSPECIFIED
    assert shown(ct.ArrayAnnotation) == "(*, index_dtype=int32, static_shape_dims=(), static_stride_dims=())"
    assert shown(ct.ListAnnotation) == "(*, element)"


def public() -> Iterator[tuple[str, Any]]:
    for name in (*FUNCTIONS, "launch", "kernel", "ByTarget", "ArrayAnnotation", "ListAnnotation", "ConstantAnnotation"):
        yield name, getattr(ct, name)
    for owner, names in METHODS.items():
        for name in names:
            yield f"{owner}.{name}", getattr(getattr(ct, owner), name)


def test_everything_is_documented_and_typed() -> None:
    """What an editor shows: a docstring, and a type for each parameter and for the result."""
    bare = []
    for name, thing in public():
        if not (inspect.getdoc(thing) or "").strip():
            bare.append(name)
        signature = inspect.signature(thing)
        untyped = [p.name for p in signature.parameters.values() if p.annotation is p.empty and p.name != "self"]
        result = signature.return_annotation is inspect.Signature.empty and not isinstance(thing, type)
        bare += [f"{name}({u})" for u in untyped] + [f"{name} -> ?"] * result
    assert bare == []


def test_data_attributes_are_declared() -> None:
    for owner, names in DATA.items():
        cls = getattr(ct, owner)
        assert [n for n in names if n not in cls.__annotations__ and not hasattr(cls, n)] == [], owner


def test_the_other_names() -> None:
    missing = [n for n in (*DTYPES.split(), *CLASSES.split(), *ENUMS, *EXCEPTIONS) if n not in ct.__all__]
    assert missing == []


@pytest.mark.parametrize("name", ENUMS)
def test_enum(name: str) -> None:
    assert {m.name: m.value for m in getattr(ct, name)} == ENUMS[name]


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_exception(name: str) -> None:
    cls = getattr(ct, name)
    assert cls.__base__ is EXCEPTIONS[name]
    if issubclass(cls, ct.TileError):
        error = cls("words")
        assert error.message == "words" and error.loc is None and str(error) == "words"
    if issubclass(cls, TileCompilerError):
        assert (
            cls("w", None, "-O3", "1.0").compiler_flags == "-O3" and cls("w", None, "", "1.0").compiler_version == "1.0"
        )


def test_exception_hierarchy_below_the_surface() -> None:
    assert UnsupportedCallError.__base__ is ct.TileError
    assert TileCompilerError.__base__ is ct.TileInternalError


@pytest.mark.parametrize("name", DTYPES.split())
def test_dtype(name: str) -> None:
    dtype = getattr(ct, name)
    assert isinstance(dtype, ct.DType) and dtype.name == name and repr(dtype) == name
    digits = "".join(c if c.isdigit() else " " for c in name.removeprefix("tfloat").split("_")[0]).split()
    assert dtype.bitwidth == (8 if name == "bool_" else int(digits[0]))
    assert not hasattr(dtype, "itemsize")


def test_dtypes_are_not_made_and_give_eager_scalars_on_the_host() -> None:
    with pytest.raises(TypeError):
        ct.DType()
    assert repr(ct.float32(1.0)) == "Tile(1., dtype=float32)"


def test_annotations() -> None:
    assert dataclasses.is_dataclass(ct.ArrayAnnotation) and ct.ArrayAnnotation() == ct.ArrayAnnotation()
    with pytest.raises(dataclasses.FrozenInstanceError):
        ct.ArrayAnnotation().index_dtype = ct.int64  # type: ignore[misc]
    assert ct.ArrayAnnotation(static_shape_dims=(-1, 0)).static_shape_dims == (-1, 0)
    with pytest.raises(ValueError):
        ct.ArrayAnnotation(index_dtype=ct.int16)
    for bad in ([0], (True,), (0.5,), 0):
        with pytest.raises(TypeError):
            ct.ArrayAnnotation(static_shape_dims=bad)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            ct.ArrayAnnotation(static_stride_dims=bad)  # type: ignore[arg-type]
    assert ct.ListAnnotation(element=ct.IndexedWithInt64).element == ct.ArrayAnnotation(index_dtype=ct.int64)
    for bad in (int, ct.Constant[int], None, ct.ScalarInt64):
        with pytest.raises(TypeError):
            ct.ListAnnotation(element=bad)
    assert ct.ConstantAnnotation() in ct.Constant[int].__metadata__


def test_by_target() -> None:
    hint = ct.ByTarget(default=2, sm_90=4, sm_100=8)
    assert hint == ct.ByTarget(sm_100=8, sm_90=4, default=2) != ct.ByTarget(sm_90=4, sm_100=8)
    assert "sm_90=4" in repr(hint) and "default=2" in repr(hint)
    for key in ("sm_90a", "default_", "gfx942", "sm_"):
        with pytest.raises(ValueError):
            ct.ByTarget(**{key: 1})


def test_host_versions() -> None:
    """The few functions that also work on the host."""
    assert ct.cdiv(7, 2) == 4 and ct.cdiv(-7, 2) == -3 and ct.cdiv(np.int64(8), 3) == 3
    items = [1, 2]
    assert ct.static_iter(items) is items
