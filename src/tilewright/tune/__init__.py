"""Finding the fastest configuration of a kernel.

``exhaustive_search`` measures every configuration. ``Tuner`` searches with early stopping, remembers the outcome on
disk, and launches the kernel with it. ``autotune`` is a decorator that does so. A ``Gate`` refuses configurations that
compute something wrong.
"""

from tilewright.tune.autotune import AutotunedKernel, Config, autotune
from tilewright.tune.directory import DirectoryStore
from tilewright.tune.exhaustive import exhaustive_search
from tilewright.tune.gate import Gate, Refused
from tilewright.tune.results import Measurement, TuningResult
from tilewright.tune.space import space
from tilewright.tune.tuner import Tuner

__all__ = [
    "AutotunedKernel",
    "Config",
    "DirectoryStore",
    "Gate",
    "Measurement",
    "Refused",
    "Tuner",
    "TuningResult",
    "autotune",
    "exhaustive_search",
    "space",
]
