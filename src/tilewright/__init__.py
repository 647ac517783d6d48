"""Tile kernels in Python and C++: ``import tilewright as ct``.

A kernel is a function of tiles, compiled for the processor or GPU at hand and run once per block of a grid::

    @ct.kernel
    def add(a, b, out, TILE: ct.Constant[int]):
        i = ct.bid(0)
        ct.store(out, (i,), ct.load(a, (i,), (TILE,)) + ct.load(b, (i,), (TILE,)))

    ct.launch(None, (ct.cdiv(n, 1024),), add, (a, b, out, 1024))
"""

from typing import TYPE_CHECKING, Any

from tilewright import composition, language  # noqa: F401 - the composition root wires them
from tilewright.ir.diagnostics import show_short_tracebacks
from tilewright.language import *  # noqa: F403
from tilewright.language.suggestions import instead_of_ours
from tilewright.system import forks
from tilewright.system.environment import SettingError, warn_of_misspelt
from tilewright.version import __version__

if TYPE_CHECKING:
    from tilewright import compilation, cpp, lib, tileir, tune
    from tilewright.ops.operator import op
    from tilewright.runtime.backend_choice import use_backend
    from tilewright.runtime.kernel import kernel
    from tilewright.runtime.launch import launch
    from tilewright.runtime.timeout import compiler_timeout
    from tilewright.sanitizer import sanitize
    from tilewright.tune.autotune import autotune
    from tilewright.viewer import view

# What is loaded when it is asked for: programs in C++ start without it.
_PACKAGES = ("compilation", "cpp", "lib", "tileir", "tune")
_MODULES = {
    "autotune": "tilewright.tune",
    "compiler_timeout": "tilewright.runtime.timeout",
    "kernel": "tilewright.runtime.kernel",
    "launch": "tilewright.ops.traced_launch",  # which lets PyTorch trace it
    "op": "tilewright.ops.operator",
    "sanitize": "tilewright.sanitizer",
    "use_backend": "tilewright.runtime.backend_choice",
    "view": "tilewright.viewer",
}

__all__ = [
    "__version__",
    "autotune",
    "compilation",
    "compiler_timeout",
    "cpp",
    "kernel",
    "launch",
    "lib",
    "op",
    "sanitize",
    "tileir",
    "tune",
    "use_backend",
    "view",
]
__all__ += language.__all__


show_short_tracebacks((language.TileError, SettingError), unless=language.TileInternalError)
warn_of_misspelt()


def __getattr__(name: str) -> Any:
    """A public name that is not loaded yet; AttributeError for one that there is not, with what to write instead."""
    if name in _PACKAGES:
        return forks.load(f"{__name__}.{name}")
    if name in _MODULES:
        found = globals()[name] = getattr(forks.load(_MODULES[name]), name)
        return found
    # Special names are asked for by protocols, such as ``__array_interface__`` for each ``ct`` in tile code.
    advice = "" if name.startswith("__") else instead_of_ours(name, __all__)
    # With ``obj``, Python would add a suggestion of its own.
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{advice}", name=name, obj=None)


def __dir__() -> list[str]:
    """What completion offers: the language and the public names, not the packages that happen to be loaded."""
    return sorted(__all__)
