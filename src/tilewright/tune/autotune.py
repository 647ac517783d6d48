"""``autotune``: a kernel that chooses its constants itself, as in Triton."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from concurrent.futures import Executor
from typing import Any, Union

from tilewright.runtime.backend_choice import requested
from tilewright.runtime.launch import launch
from tilewright.runtime.launchable import Launchable
from tilewright.tune.candidate import with_hints
from tilewright.tune.results import TuningResult
from tilewright.tune.space import checked_space
from tilewright.tune.tuner import Tuner, facts_of

Grid = Union[tuple[int, ...], Callable[[dict[str, Any]], tuple[int, ...]]]


class Config:
    """Values for parameters of a kernel, and hints for the compiler such as ``num_ctas=2``."""

    def __init__(self, values: Mapping[str, Any], **hints: Any) -> None:
        if not isinstance(values, Mapping):
            raise TypeError(
                f"a configuration is {values!r}; it must be a Config or a dictionary, such as {{'TILE': 64}}"
            )
        self.values, self.hints = dict(values), hints

    def __repr__(self) -> str:
        hints = "".join(f", {name}={value!r}" for name, value in self.hints.items())
        return f"Config({self.values!r}{hints})"


class AutotunedKernel:
    """A kernel with the values of some parameters left to a search. See ``autotune``."""

    is_autotuned = True

    def __init__(
        self, kernel: Launchable, configs: Sequence[Config], key: Sequence[str] | None, options: dict[str, Any]
    ) -> None:
        self.kernel, self.configs, self._options = kernel, list(configs), options
        names = [ref.argument for ref, _ in kernel.parameters]
        chosen = set(self.configs[0].values)
        for config in self.configs:
            unknown = set(config.values) - set(names)
            if unknown or set(config.values) != chosen:
                what = f"names {min(unknown)!r}, which is no parameter" if unknown else "names other parameters"
                raise ValueError(f"{config!r} {what} of {kernel.name}({', '.join(names)})")
        self._parameters, self._given = names, [name for name in names if name not in chosen]
        self._key = self._given if key is None else list(key)
        for name in self._key:
            if name not in self._given:
                raise ValueError(f"key names {name!r}, which is no argument of {kernel.name}: {', '.join(self._given)}")
        self._best: dict[Any, tuple[Config, Launchable]] = {}
        self.results: dict[Any, TuningResult[Config]] = {}

    def __getitem__(self, grid: Grid) -> Callable[..., None]:
        """``kernel[grid](*args)`` launches on the default stream, as in Triton; ``stream=`` names another one.

        Arguments may be given by name. TypeError for names that the kernel has not, or whose values are tuned.
        """

        def run(*args: Any, stream: Any = None, **named: Any) -> None:
            rest = [name for name in self._given[len(args) :] if name in named]
            other = next((name for name in named if name not in rest), None)
            if other is not None:
                wrong = "is tuned" if other in self._parameters and other not in self._given else "is given twice"
                wrong = wrong if other in self._parameters else "is no parameter"
                raise TypeError(f"{self.kernel.name}(): {other!r} {wrong}")
            self.launch(stream, grid, (*args, *(named[name] for name in rest)))

        return run

    def launch(self, stream: Any, grid: Grid, args: tuple[Any, ...]) -> None:
        """Launch with the best configuration for the key of these arguments; the first time, search for it.

        ``grid`` may be a function of a dictionary with all arguments by name. ``args`` leaves out what is chosen.
        """
        if len(args) != len(self._given):
            raise TypeError(
                f"{self.kernel.name}() takes {len(self._given)} arguments ({', '.join(self._given)}) besides those "
                f"that are tuned, but {len(args)} were given"
            )
        named = dict(zip(self._given, args))
        key = requested(), tuple(facts_of(named[name]) for name in self._key)
        found = self._best.get(key)
        if found is None:
            found = self._best[key] = self._search(key, grid, args, stream)
        config, kernel = found
        launch(stream, self._grid(grid, config, args), kernel, self._all(config, args))

    def _search(self, key: Any, grid: Grid, args: tuple[Any, ...], stream: Any) -> tuple[Config, Launchable]:
        tuner: Tuner[Config] = Tuner(
            self.kernel,
            self.configs,
            lambda config, *given: self._grid(grid, config, given),
            lambda config, *given: self._all(config, given),
            lambda config: config.hints,
            **self._options,
        )
        result = self.results[key] = tuner.search(*args, stream=stream)
        best = result.best.config
        return best, with_hints(self.kernel, best.hints)

    def _all(self, config: Config, args: tuple[Any, ...]) -> tuple[Any, ...]:
        values = config.values | dict(zip(self._given, args))
        return tuple(values[name] for name in self._parameters)

    def _grid(self, grid: Grid, config: Config, args: tuple[Any, ...]) -> tuple[int, ...]:
        return grid if isinstance(grid, tuple) else grid(config.values | dict(zip(self._given, args)))

    def _repr_html_(self) -> str:
        """What notebooks show: the configurations, and the times that were found for each key."""
        found = "".join(result._repr_html_() for result in self.results.values())
        return f"<p><code>{html.escape(repr(self))}</code></p>{found}"

    def __repr__(self) -> str:
        return f"<autotuned {self.kernel!r}, {len(self.configs)} configurations, {len(self._best)} searched>"


def autotune(
    configs: Sequence[Config | Mapping[str, Any]],
    key: Sequence[str] | None = None,
    *,
    store: MutableMapping[str, bytes] | None = None,
    executor: Executor | None = None,
    quiet: bool = True,
    **options: Any,
) -> Callable[[Launchable], AutotunedKernel]:
    """A decorator for kernels that are launched with the fastest of ``configs``, as in Triton.

    A configuration is a ``ct.tune.Config`` or a dictionary: values of parameters, which launches then leave out. When
    a launch comes with new values, or dtypes and shapes, of the arguments that ``key`` names (None: all of them), the
    configurations are measured; arrays that the kernel writes are copied for that. ``kernel[grid](x, out)`` launches,
    and so does ``ct.launch(stream, grid, kernel, (x, out))``; ``grid`` may be a function of the arguments by name.
    ``store``, ``executor`` and other ``options`` are those of ``ct.tune.Tuner``. ValueError for configurations without
    an entry, with other names than the kernel's, or that differ in names.

    >>> @ct.autotune([{"TILE": 64}, {"TILE": 256}], key=["x"])
    ... @ct.kernel
    ... def double(x, out, TILE: ct.Constant[int]):
    ...     ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,)) * 2)
    >>> x, out = np.ones(1000), np.zeros(1000)
    >>> double[lambda a: (ct.cdiv(a["x"].size, a["TILE"]),)](x, out)
    >>> float(out.sum())
    2000.0
    """
    found = [c if isinstance(c, Config) else Config(c) for c in checked_space("configs", configs, {})]
    given = {"store": store, "executor": executor, "quiet": quiet, **options}

    def decorate(kernel: Launchable) -> AutotunedKernel:
        if not isinstance(kernel, Launchable):
            raise TypeError(f"@ct.autotune marks a kernel, not {kernel!r}; put @ct.kernel below it")
        return AutotunedKernel(kernel, found, key, given)

    return decorate
