"""The language of kernels: what ``import tilewright as ct`` offers to tile code."""

from tilewright.ir.dtypes import (
    DType,
    bfloat16,
    bool_,
    float4_e2m1fn,
    float8_e4m3fn,
    float8_e5m2,
    float8_e5m3fnu,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    tfloat32,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tilewright.ir.enums import MemoryOrder, MemoryScope, PaddingMode, RoundingMode
from tilewright.ir.errors import (
    StaticException,
    TileCompilerExecutionError,
    TileCompilerTimeoutError,
    TileError,
    TileInternalError,
    TileRecursionError,
    TileStaticAssertionError,
    TileStaticEvalError,
    TileSyntaxError,
    TileTypeError,
    TileUnsupportedFeatureError,
    TileValueError,
)
from tilewright.ir.hints import ByTarget
from tilewright.language import annotations, arithmetic, array, dtypes, functions, memory, static, tiles
from tilewright.language.annotations import *  # noqa: F403
from tilewright.language.arithmetic import *  # noqa: F403
from tilewright.language.array import *  # noqa: F403
from tilewright.language.dtypes import *  # noqa: F403
from tilewright.language.functions import *  # noqa: F403
from tilewright.language.memory import *  # noqa: F403
from tilewright.language.static import *  # noqa: F403
from tilewright.language.suggestions import explains_arguments
from tilewright.language.tiles import *  # noqa: F403

explains_arguments(ByTarget)  # not where it is defined: `ir` imports nothing of the language

__all__ = [
    "ByTarget", "DType", "MemoryOrder", "MemoryScope", "PaddingMode", "RoundingMode", "StaticException",
    "TileCompilerExecutionError", "TileCompilerTimeoutError", "TileError", "TileInternalError", "TileRecursionError",
    "TileStaticAssertionError", "TileStaticEvalError", "TileSyntaxError", "TileTypeError",
    "TileUnsupportedFeatureError", "TileValueError", "bfloat16", "bool_", "float4_e2m1fn", "float8_e4m3fn",
    "float8_e5m2", "float8_e5m3fnu", "float8_e8m0fnu", "float16", "float32", "float64", "int8", "int16", "int32",
    "int64", "tfloat32", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip
__all__ += annotations.__all__
__all__ += arithmetic.__all__
__all__ += array.__all__
__all__ += dtypes.__all__
__all__ += functions.__all__
__all__ += memory.__all__
__all__ += static.__all__
__all__ += tiles.__all__
