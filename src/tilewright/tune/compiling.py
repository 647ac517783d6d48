"""Compiling configurations in other processes, whose results this one then finds in its disk cache."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import Generic, TypeVar

from tilewright.runtime.abstract import abstract_like
from tilewright.runtime.ahead import CacheEntry, compile_at, launch_target
from tilewright.runtime.cache import disk_cache
from tilewright.runtime.grid import checked_grid
from tilewright.runtime.launchable import Launchable
from tilewright.tune.arrays import Args, with_arrays

T = TypeVar("T")
Chosen = tuple[Launchable, Args, tuple[int, ...]]  # a kernel, its arguments and the grid


class Compilations(Generic[T]):
    """The compilations of ``configs``, under way in ``executor``; with None, nothing is compiled ahead.

    ``choose(config)`` gives the kernel, its arguments and the grid. The executor is any of ``concurrent.futures``, or
    one of Dask, Ray or MPI with its interface; with processes, the kernel has to be at the top of a module.
    """

    def __init__(
        self,
        executor: Executor | None,
        configs: Sequence[T],
        choose: Callable[[T], Chosen],
    ) -> None:
        self._futures: dict[int, Future[list[CacheEntry]]] = {}
        self._cache = disk_cache() if executor is not None else None
        if executor is None:
            return
        if not hasattr(executor, "submit"):
            raise TypeError(f"executor is {executor!r}; pass one of concurrent.futures, or with its interface")
        if self._cache is None:
            raise ValueError("compiling in an executor needs the disk cache, which TILEWRIGHT_CACHE_DIR switches off")
        for config in configs:
            try:
                kernel, args, grid = choose(config)
                target, blocks = launch_target(kernel, args), checked_grid(grid)
                given = with_arrays(kernel, args, lambda _, array: abstract_like(array))
            except Exception:  # noqa: BLE001 - the search finds out, and lists it as a failure
                continue
            self._futures[id(config)] = executor.submit(compile_at, kernel, given, blocks, target)

    def first(self, configs: Sequence[T]) -> int:
        """The place among ``configs`` of the one that is compiled first, for which this waits; else that of the first.

        What an executor returns that is no future of ``concurrent.futures`` is waited for in order.
        """
        futures = [self._futures.get(id(config)) for config in configs]
        under_way = [future for future in futures if isinstance(future, Future)]
        if len(under_way) == len(futures):
            done = wait(under_way, return_when=FIRST_COMPLETED).done
            return next(i for i, future in enumerate(futures) if future in done)
        return next((i for i, future in enumerate(futures) if future is None), 0)

    def finish(self, config: T) -> None:
        """Wait for the compilation of ``config``. It raises what the executor does, such as PicklingError."""
        future = self._futures.pop(id(config), None)
        if future is None:
            return
        try:
            found = future.result()
        except (pickle.PicklingError, AttributeError) as e:
            raise pickle.PicklingError(f"the executor cannot send the kernel to another process: {e}") from e
        for key, data, label in found:
            if self._cache is not None and self._cache.get(key) is None:
                self._cache.put(key, data, label)

    def close(self) -> None:
        """Give up what has not begun."""
        for future in self._futures.values():
            future.cancel()
