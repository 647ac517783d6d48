"""Compiling configurations in other processes, whose results this one then finds in its disk cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import Generic, TypeVar

from tilewright.runtime.ahead import CacheEntry, CompileRequest, compile_at, compile_request
from tilewright.runtime.cache import disk_cache
from tilewright.runtime.grid import checked_grid
from tilewright.runtime.launchable import Launchable
from tilewright.system.processors import available_processors
from tilewright.tune.arrays import Args
from tilewright.tune.workers import AVAILABLE, Workers

T = TypeVar("T")
Chosen = tuple[Launchable, Args, tuple[int, ...]]  # a kernel, its arguments and the grid


class Compilations(Generic[T]):
    """The compilations of ``configs``, under way in ``executor``, which is any of ``concurrent.futures``, or one of
    Dask, Ray or MPI with its interface.

    Without one, processes of our own compile for a GPU, whose times they do not disturb, and this process begins with
    the first configuration; on a CPU nothing is compiled ahead then.
    ``choose(config)`` gives the kernel, its arguments and the grid.
    """

    def __init__(self, executor: Executor | None, configs: Sequence[T], choose: Callable[[T], Chosen]) -> None:
        self._futures: dict[int, Future[list[CacheEntry]]] = {}
        self._workers: Workers | None = None
        self._cache = disk_cache()
        if executor is not None and not hasattr(executor, "submit"):
            raise TypeError(f"executor is {executor!r}; pass one of concurrent.futures, or with its interface")
        if executor is not None and self._cache is None:
            raise ValueError("compiling in an executor needs the disk cache, which TILEWRIGHT_CACHE_DIR switches off")
        if self._cache is None or (executor is None and not AVAILABLE):
            return
        if executor is None:
            self._submit_to_own(configs[1:], choose)
            return
        for config in configs:
            request = _request(config, choose)
            if request is not None:
                self._futures[id(config)] = executor.submit(compile_at, request)

    def _submit_to_own(self, configs: Sequence[T], choose: Callable[[T], Chosen]) -> None:
        """The longest first, so that none of them is left for the end; the processes start meanwhile."""
        count, requests = min(len(configs), available_processors()), list[tuple[T, CompileRequest]]()
        for config in configs if count > 1 else ():
            request = _request(config, choose)
            if request is None:
                continue
            if request.machine is None:
                return
            if self._workers is None:
                self._workers = Workers(count, (request.machine.target, request.backend))
            requests.append((config, request))
        for config, request in sorted(requests, key=lambda found: -found[1].elements):
            assert self._workers is not None
            self._futures[id(config)] = self._workers.submit(compile_at, request)

    def first(self, configs: Sequence[T]) -> int:
        """The index in ``configs`` of one that is compiled; else of one that no process of our own has begun with,
        which this one does meanwhile; else of the one that is compiled first, for which this waits.

        What an executor returns that is no future of ``concurrent.futures`` is waited for in order.
        """
        futures = [self._futures.get(id(config)) for config in configs]
        under_way = [future for future in futures if isinstance(future, Future)]
        if len(under_way) == len(futures):
            ours = reversed(range(len(futures))) if self._workers is not None else ()
            left = next((i for i in ours if not (under_way[i].running() or under_way[i].done())), None)
            found = wait(under_way, timeout=None if left is None else 0, return_when=FIRST_COMPLETED)
            return next((i for i, future in enumerate(futures) if future in found.done), left or 0)
        return next((i for i, future in enumerate(futures) if future is None), 0)

    def finish(self, config: T) -> None:
        """Wait for the compilation of ``config``, where it has begun. It raises what compiler or executor do."""
        future = self._futures.pop(id(config), None)
        if future is None or (isinstance(future, Future) and future.cancel()):
            return
        for key, data, label in future.result():
            if self._cache is not None and self._cache.get(key) is None:
                self._cache.put(key, data, label)

    def close(self) -> None:
        """Give up what has not begun."""
        for future in self._futures.values():
            future.cancel()
        if self._workers is not None:
            self._workers.close()


def _request(config: T, choose: Callable[[T], Chosen]) -> CompileRequest | None:
    """What ``config`` compiles. None where something is wrong: the search finds out, and lists it as a failure."""
    try:
        kernel, args, grid = choose(config)
        return compile_request(kernel, args, checked_grid(grid))
    except Exception:  # noqa: BLE001 - see above
        return None
