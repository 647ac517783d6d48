"""What published programs import from private modules of ``cuda.tile``.

There the original defines its public names, so all of them are in each of these modules; a few things more are in the
module that has them.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tilewright.ir.errors import UnsupportedCallError
from tilewright.language.static import static_def
from tilewright.runtime import timeout

MODULES = ("_cext", "_datatype", "_exception", "_execution", "_memory_model", "_numeric_semantics", "_stub")

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


_MORE: dict[str, Callable[[Any], dict[str, Any]]] = {
    "_cext": lambda public: {
        "CallingConvention": public.compilation.CallingConvention,
        "TileDispatcher": public.kernel,
        "cconv_v3_enabled": lambda: False,
        "dev_features_enabled": lambda: False,
        "default_tile_context": SimpleNamespace(config=_Settings(), autotune_cache=None),
    },
    "_exception": lambda public: {
        **{old: getattr(public, new) for old, new in _ERRORS.items()},
        "UnsupportedCallError": UnsupportedCallError,
    },
    "_execution": lambda public: {"TileDispatcher": public.kernel, "static_def": static_def},
}
