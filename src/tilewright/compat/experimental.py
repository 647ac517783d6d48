"""``cuda.tile_experimental``: the tuner from before ``cuda.tile.tune``, on top of ours."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from tilewright.runtime.launch import launch
from tilewright.runtime.timeout import compiler_timeout
from tilewright.tune import exhaustive_search

__all__ = ["TunedResult", "autotune_launch", "clear_autotune_cache"]


@dataclass
class TunedResult:
    """The configuration that a launch was made with, and the milliseconds of all that were measured."""

    tuned_config: Any
    grid: tuple[int, ...]
    kernel: Any
    tuning_record: list[tuple[Any, float]]
    cache_hit: bool


_found: dict[tuple[Any, Hashable], TunedResult] = {}


def autotune_launch(
    stream: Any,
    grid_fn: Callable[[Any], tuple[int, ...]],
    kernel: Any,
    args_fn: Callable[[Any], tuple[Any, ...]],
    launch_args_fn: Callable[[Any], tuple[Any, ...]] | None = None,
    hints_fn: Callable[[Any], dict[str, Any]] | None = None,
    *,
    search_space: Iterable[Any] | Callable[[], Iterable[Any]],
    key: Hashable | None = None,
    max_iter: int = 60,
    compiler_time_limit_sec: float = 10,
    seed: int | None = None,
    force_retune: bool = False,
) -> TunedResult:
    """Launch ``kernel`` with the fastest of at most ``max_iter`` configurations, which is searched once for a ``key``.

    Without ``key``, once for the shapes, dtypes and strides of the arrays and the types of the other arguments of the
    first configuration. ValueError when no configuration works.
    """
    configurations = list(search_space() if callable(search_space) else search_space)
    if not configurations:
        raise ValueError("No valid config: the search space is empty")
    entry = (kernel, _default_key(args_fn(configurations[0])) if key is None else key)
    result = None if force_retune else _found.get(entry)
    if result is None:
        chosen = random.Random(seed).sample(configurations, min(max_iter, len(configurations)))
        with compiler_timeout(compiler_time_limit_sec):
            search = exhaustive_search(chosen, stream, grid_fn, kernel, args_fn, hints_fn, quiet=True)
        best = search.best.config
        tuned = kernel if hints_fn is None else kernel.replace_hints(**hints_fn(best))
        record = [(m.config, m.mean_us * 1e-3) for m in search.successes]
        result = TunedResult(best, grid_fn(best), tuned, record, cache_hit=False)
        _found[entry] = TunedResult(best, result.grid, tuned, record, cache_hit=True)
    launch(stream, result.grid, result.kernel, (launch_args_fn or args_fn)(result.tuned_config))
    return result


def clear_autotune_cache(kernel: Any = None, key: Hashable | None = None) -> None:
    """Forget what was found: for ``kernel``, for ``key``, or for everything."""
    for entry in list(_found):
        if kernel in (None, entry[0]) and key in (None, entry[1]):
            del _found[entry]


def _default_key(arguments: tuple[Any, ...]) -> Hashable:
    return tuple(
        (tuple(a.shape), str(a.dtype), a.stride() if callable(getattr(a, "stride", None)) else a.strides)
        if hasattr(a, "shape") and hasattr(a, "dtype")
        else type(a).__name__
        for a in arguments
    )
