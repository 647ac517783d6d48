"""``Tuner``: a search that stops early, and remembers what it found."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, MutableMapping, Sequence
from concurrent.futures import Executor
from typing import Any, Generic, TypeVar

from tilewright.ir.printer import print_function
from tilewright.runtime.backend_choice import requested
from tilewright.runtime.cache import cache_key, disk_cache
from tilewright.runtime.explain import facts
from tilewright.runtime.launch import launch, specialization
from tilewright.runtime.launchable import Launchable
from tilewright.tune import store as stored
from tilewright.tune.arrays import Args, copy_of, is_array, with_arrays
from tilewright.tune.attempts import Attempts, Procedure, checked_devices
from tilewright.tune.candidate import Work, with_hints
from tilewright.tune.compiling import Chosen, Compilations
from tilewright.tune.gate import Gate
from tilewright.tune.progress import Progress
from tilewright.tune.racing import Limits, Race
from tilewright.tune.results import TuningResult, no_success
from tilewright.tune.space import checked_space

T = TypeVar("T")
Key = tuple[Any, ...]


class Tuner(Generic[T]):
    """Chooses among ``configs`` for a kernel, and launches it.

    For a configuration and the arguments of ``search`` or ``launch``, ``grid_fn(config, *arguments)`` gives the grid
    and ``args_fn(config, *arguments)`` the kernel arguments; ``hints_fn(config)`` gives hints for the compiler, and
    ``options_fn(config)`` options of the backend, such as ``{"threads": 2}`` for the CPU backend.

    The search begins with the first configuration, which should be a good guess. It tries the neighbours of the best
    one known (where configurations are dictionaries: those that differ in one entry, by one step), and others at
    random when there are none. It ends after ``patience`` configurations without an improvement, after
    ``budget_sec``, or when all have been tried; the fastest few are then measured until their times are certain.
    Arrays that the kernel writes are copied for every run, so that a search leaves no trace. ``gate`` refuses wrong
    configurations. A progress bar is shown on a terminal unless ``quiet``.

    With ``executor``, any of ``concurrent.futures`` or with its interface (processes, Dask, Ray, MPI), configurations
    are compiled there, several at a time, while others are measured; without one, processes on this machine compile
    for a GPU. ``devices`` has an executor with one worker for
    each device: configurations are measured there, one on each at a time, with copies of the arguments, and this
    process collects the results.

    Results are kept in ``store``, any mutable mapping from strings to bytes, or else in the disk
    cache, by the source and the Tile IR of the kernel, the configurations, the
    arguments' dtypes, shapes, strides and numbers, and the machine. ValueError for empty ``configs`` and for limits
    that are not positive.

    >>> @ct.kernel
    ... def double(x, out, TILE: ct.Constant[int]):
    ...     ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,)) * 2)
    >>> doubler = ct.tune.Tuner(
    ...     double,
    ...     [256, 128],
    ...     lambda tile, x, out: (ct.cdiv(x.size, tile),),
    ...     lambda tile, x, out: (x, out, tile),
    ... )
    >>> x, out = np.ones(1000), np.zeros(1000)
    >>> doubler.launch(None, x, out)
    >>> float(out.sum())
    2000.0
    """

    def __init__(
        self,
        kernel: Launchable,
        configs: Sequence[T],
        grid_fn: Callable[..., tuple[int, ...]],
        args_fn: Callable[..., Args],
        hints_fn: Callable[[T], dict[str, Any]] | None = None,
        options_fn: Callable[[T], dict[str, Any]] | None = None,
        *,
        gate: Gate | None = None,
        store: MutableMapping[str, bytes] | None = None,
        patience: int = 16,
        budget_sec: float = 60.0,
        single_run_timeout_sec: float | None = None,
        flush_l2: bool = True,
        executor: Executor | None = None,
        devices: Sequence[Executor] | None = None,
        quiet: bool = False,
    ) -> None:
        if not isinstance(kernel, Launchable):
            raise TypeError(f"kernel is {kernel!r}; decorate it with @ct.kernel")
        if patience < 1 or not budget_sec > 0:
            raise ValueError(f"patience is {patience} and budget_sec {budget_sec}; both must be positive")
        self.kernel = kernel
        self.configs: list[T] = checked_space("configs", configs, {"grid_fn": grid_fn, "args_fn": args_fn})
        self._grid_fn, self._args_fn = grid_fn, args_fn
        self._hints_fn, self._options_fn = hints_fn, options_fn
        if store is not None and not isinstance(store, MutableMapping):
            raise TypeError(f"store is {store!r}; pass a mutable mapping from strings to bytes, such as a dict")
        self._gate, self._store = gate, store
        self._limits, self._run_sec = Limits(patience, budget_sec), single_run_timeout_sec
        self._devices = checked_devices(devices)
        self._flush, self._quiet, self._executor = flush_l2, quiet, executor
        self._kernels: dict[tuple[str, str], Launchable] = {}
        self._results: dict[Key, TuningResult[T]] = {}
        self._chosen: dict[Key, tuple[T, Launchable]] = {}  # the best configuration, and the kernel for it

    def launch(self, stream: Any, /, *arguments: Any) -> None:
        """Launch the kernel with the best configuration for these arguments; the first time, search for it."""
        key = _key(arguments)
        found = self._chosen.get(key)
        if found is None:
            config = self.search(*arguments, stream=stream).best.config
            found = self._chosen[key] = config, self.kernel_for(config, self._args_fn(config, *arguments))
        config, kernel = found
        launch(stream, self._grid_fn(config, *arguments), kernel, self._args_fn(config, *arguments))

    def search(self, *arguments: Any, stream: Any = None, refresh: bool = False) -> TuningResult[T]:
        """The outcome of the search for these arguments, now or earlier; ``refresh`` asks for a new one.

        ValueError when no configuration works.
        """
        key = _key(arguments)
        result = None if refresh else self._results.get(key)
        if result is None:
            result = self._stored_or_new(arguments, stream, refresh)
            self._results[key] = result
            self._chosen.pop(key, None)
        return result

    def kernel_for(self, config: T, args: Args) -> Launchable:
        """The kernel with the hints and options of ``config``; the same object each time."""
        _, backend = self.kernel.described(args, None)
        key = backend.name, repr(config)
        found = self._kernels.get(key)
        if found is None:
            found = self.kernel if self._hints_fn is None else with_hints(self.kernel, self._hints_fn(config))
            if self._options_fn is not None:
                found = found.replace_options(backend.name, **self._options_fn(config))
            self._kernels[key] = found
        return found

    def _stored_or_new(self, arguments: Args, stream: Any, refresh: bool) -> TuningResult[T]:
        cache = disk_cache() if self._store is None else None
        known = self._store if cache is None else cache
        if known is None:
            return self._measure(arguments, stream)
        key = self._name(arguments)
        data = None if refresh else known.get(key)
        if data is not None:
            try:
                return stored.decode(data, self.configs)
            except (ValueError, LookupError, TypeError) as e:
                if cache is not None:
                    raise
                raise ValueError(f"the entry {key!r} of the store is no result of a search: {e}; delete it") from e
        result = self._measure(arguments, stream)
        encoded = stored.encode(result, self.configs)
        if cache is not None:
            cache.put(key, encoded, f"the tuning of {self.kernel.name}")
        elif self._store is not None:
            self._store[key] = encoded
        return result

    def _measure(self, arguments: Args, stream: Any) -> TuningResult[T]:
        def choose(config: T) -> Chosen:
            given = self._args_fn(config, *arguments)
            return self.kernel_for(config, given), given, self._grid_fn(config, *arguments)

        compilations = Compilations(self._executor, self.configs, choose)

        plan = Procedure(stream, self._flush, self._gate, self._run_sec, self._devices)
        attempts = Attempts(lambda config: self._work(config, arguments), compilations, plan)
        race = Race(self.configs, attempts, self._limits)
        bar = Progress(len(self.configs), self._quiet)
        try:
            race.run(bar)
        finally:
            bar.close()
            compilations.close()
        if not race.candidates:
            raise no_success(race.failures)
        successes = tuple(c.measurement() for c in race.candidates)
        return TuningResult(best=successes[0], successes=successes, failures=tuple(race.failures))

    def _work(self, config: T, arguments: Args) -> Work:
        first = self._args_fn(config, *arguments)
        kernel = self.kernel_for(config, first)
        written = specialization(kernel, first).written

        def args() -> Args:
            found = self._args_fn(config, *arguments)
            return with_arrays(kernel, found, lambda name, array: copy_of(array) if name in written else array)

        return Work(kernel, self._grid_fn(config, *arguments), args)

    def _name(self, arguments: Args) -> str:
        """The name of the result in the disk cache."""
        choices = [_outcome(lambda c=config: self._choices(c, arguments)) for config in self.configs]  # type: ignore[misc]
        kernel = _outcome(lambda: self._traced(arguments))
        threads = f"{os.cpu_count()} {os.environ.get('TILEWRIGHT_NUM_THREADS')}"
        return f"tuned-{cache_key(repr(facts_of(arguments)), _source(self.kernel), kernel, *choices, threads)}"

    def _choices(self, config: T, arguments: Args) -> str:
        """Everything that a configuration decides, apart from arrays."""
        hints = None if self._hints_fn is None else self._hints_fn(config)
        options = None if self._options_fn is None else self._options_fn(config)
        args = facts_of(self._args_fn(config, *arguments))
        return repr((config, self._grid_fn(config, *arguments), args, hints, options))

    def _traced(self, arguments: Args) -> str:
        """The backend, the machine, what the kernel is keyed on, and its IR, for the first configuration."""
        signature, backend = self.kernel.described(self._args_fn(self.configs[0], *arguments), None)
        known = facts([ref.argument for ref, _ in self.kernel.parameters], signature)
        return f"{backend.name} {backend.target()} {known} {print_function(self.kernel.trace(signature))}"


def _key(arguments: Args) -> Key:
    """What the best configuration depends on while a program runs: the backend asked for, and the arguments."""
    return requested(), facts_of(arguments)


def facts_of(value: Any) -> Any:
    """What is known of an argument before it is compiled for: dtype, shape and strides of an array, or the value."""
    kind = type(value)
    if kind in (int, float, bool, str) or value is None:
        return kind.__name__, value
    if isinstance(value, (tuple, list)):
        return tuple(map(facts_of, value))
    if is_array(value):
        strides = value.stride() if callable(getattr(value, "stride", None)) else getattr(value, "strides", None)
        return getattr(value, "dtype", None), tuple(getattr(value, "shape", ())), strides
    return repr(value)


def _outcome(make: Callable[[], str]) -> str:
    """``make()``, or what it raises: the search will find out, and list it as a failure."""
    try:
        return make()
    except Exception as e:  # noqa: BLE001 - it is as good a fact as any
        return f"{type(e).__name__}: {e}"


def _source(kernel: Launchable) -> str:
    """The text of the kernel: other configurations than the first may take branches that its Tile IR does not show."""
    function = getattr(kernel, "function", None)
    return inspect.getsource(function) if inspect.isfunction(function) else ""
