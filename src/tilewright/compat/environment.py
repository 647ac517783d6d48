"""The environment variables of ``cuda.tile``, as ours."""

from __future__ import annotations

import os

_NAMES = {
    "CUDA_TILE_CACHE_DIR": "TILEWRIGHT_CACHE_DIR",
    "CUDA_TILE_CACHE_SIZE": "TILEWRIGHT_CACHE_SIZE",
    "CUDA_TILE_COMPILER_TIMEOUT_SEC": "TILEWRIGHT_COMPILER_TIMEOUT",
}
_LOGS = ("CUTILEIR", "TILEIR")


def adopt_environment() -> None:
    """Give what the variables of ``cuda.tile`` ask for to our own ones that are not set.

    The folder and size of the cache and the time limit mean the same; either kind of log shows the Tile IR of each
    kernel that is compiled. RuntimeError for logs that the original does not know either.
    """
    for theirs, ours in _NAMES.items():
        if theirs in os.environ:
            os.environ.setdefault(ours, os.environ[theirs])
    logs = [name.strip() for name in os.environ.get("CUDA_TILE_LOGS", "").split(",") if name.strip()]
    unknown = [name for name in logs if name not in _LOGS]
    if unknown:
        raise RuntimeError(f"CUDA_TILE_LOGS: there is no log {unknown[0]!r}; the logs are {', '.join(_LOGS)}")
    if logs:
        os.environ.setdefault("TILEWRIGHT_SHOW_IR", "1")
