"""What published programs import from private modules of ``cuda.tile``.

There the original defines its public names, so all of them are in each of these modules; a few things more are in the
module that has them.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tilewright.gpu_runtime import driver
from tilewright.ir.errors import UnsupportedCallError
from tilewright.ir.location import Loc
from tilewright.ir.promotion import casts_implicitly
from tilewright.language.dtypes import to_dtype
from tilewright.language.static import static_def
from tilewright.runtime import timeout
from tilewright.system.forks import load

PACKAGES = ("_bytecode", "_ir")
MODULES = (
    *("_cext", "_datatype", "_exception", "_execution", "_memory_model", "_numeric_semantics", "_stub", "_compile"),
    *(*PACKAGES, "_bytecode.float", "_bytecode.version", "_ir.typing_support"),
)

# Names of the classes of errors before they were public.
_ERRORS = {
    "CompilerExecutionError": "TileCompilerExecutionError",
    "CompilerTimeoutError": "TileCompilerTimeoutError",
    "InternalError": "TileInternalError",
    "InvalidValueError": "TileValueError",
    "RecursionLimitError": "TileRecursionError",
    "StaticAssertionError": "TileStaticAssertionError",
    "StaticEvalError": "TileStaticEvalError",
    "TypeCheckingError": "TileTypeError",
    "UnsupportedFeatureError": "TileUnsupportedFeatureError",
    "UnsupportedSyntaxError": "TileSyntaxError",
}


def module(name: str, public: types.ModuleType) -> types.ModuleType:
    """The private module ``name``, one of ``MODULES``, for the package ``public``."""
    made = types.ModuleType(f"cuda.tile.{name}", f"The public names of {public.__name__}.")
    made.__dict__.update({n: getattr(public, n) for n in public.__all__})
    if name in _MORE:
        made.__dict__.update(_MORE[name](public))
    return made


class _Settings:
    """The settings of the compiler that programs change."""

    @property
    def compiler_timeout_sec(self) -> float | None:
        return timeout.limit()

    @compiler_timeout_sec.setter
    def compiler_timeout_sec(self, seconds: float | None) -> None:
        timeout.set_limit(seconds)


class BytecodeVersion(enum.IntEnum):
    """The versions of CUDA Tile IR's bytecode."""

    V_13_1, V_13_2, V_13_3, V_13_4, V_13_5 = range(130100, 130600, 100)

    def major(self) -> int:
        return self // 10000

    def minor(self) -> int:
        return self // 100 % 100


class SimpleType(enum.Enum):
    """The types of floating-point numbers, by their names in the text form."""

    F16, BF16, F32, TF32, F64 = "f16", "bf16", "f32", "tf32", "f64"
    F8E4M3FN, F8E5M2, F8E8M0FNU, F4E2M1FN = "f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f4E2M1FN"
    F8E5M3FNU = FNV8E5M3FNU = "fnv8E5M3FNU"


def _from_bits(bits: int, ty: SimpleType) -> float:
    numbers = load("tilewright.tileir.numbers")
    return numbers.decode(numbers.FORMATS[ty.value], bits)


def _to_bits(val: float, ty: SimpleType) -> int:
    numbers = load("tilewright.tileir.numbers")
    return numbers.encode(numbers.FORMATS[ty.value], val)


def _capability(index: int = 0) -> tuple[int, int]:
    """The compute capability of a GPU; without any GPU that of ``torch.cuda`` in ``cuda_tensors_on_cpu``."""
    return divmod(90 if driver.why_not() else driver.device(index).capability, 10)


def _text(bytecode: bytes | bytearray, **_: Any) -> str:
    """The text of a module that is given as bytecode. What reads it is loaded then: most programs need none of it."""
    return load("tilewright.tileir.text").print_module(load("tilewright.tileir.bytecode").read(bytes(bytecode)))


def _traced(kernel: Any, args: Any) -> Any:
    """A kernel for arguments before any pass; its text is that of our IR, and has none of the original's classes."""
    return kernel.trace(kernel.described(tuple(args), None)[0])


_VERSIONS: dict[str, Any] = {"BytecodeVersion": BytecodeVersion}
_FLOATS: dict[str, Any] = {"SimpleType": SimpleType, "float_from_bits": _from_bits, "float_to_bits": _to_bits}
_MORE: dict[str, Callable[[Any], dict[str, Any]]] = {
    "_cext": lambda public: {
        "CallingConvention": public.compilation.CallingConvention,
        "TileDispatcher": public.kernel,
        "cconv_v3_enabled": lambda: False,
        "dev_features_enabled": lambda: True,
        "get_compute_capability": _capability,
        "default_tile_context": SimpleNamespace(config=_Settings(), autotune_cache=None),
    },
    "_exception": lambda public: {
        **{old: getattr(public, new) for old, new in _ERRORS.items()},
        "Loc": Loc,
        "UnsupportedCallError": UnsupportedCallError,
    },
    "_bytecode": lambda public: _VERSIONS | _FLOATS,
    "_bytecode.float": lambda public: _FLOATS,
    "_bytecode.version": lambda public: _VERSIONS,
    "_compile": lambda public: {
        "_SUPPORTED_VERSIONS": list(BytecodeVersion),
        "_get_max_supported_bytecode_version": lambda *_, **__: max(BytecodeVersion),
        "_bytecode_to_mlir_text": _text,
        "_get_final_ir": lambda function, args, *_: _traced(public.kernel(function), args),
        "get_sm_arch": lambda device_id=0: "sm_{}{}".format(*_capability(device_id)),
    },
    "_datatype": lambda public: {"can_autocast_dtypes": casts_implicitly},
    "_ir.typing_support": lambda public: {"to_dtype": to_dtype},
    "_execution": lambda public: {"TileDispatcher": public.kernel, "static_def": static_def},
}
