"""Configurations as dictionaries."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Config = dict[str, Any]


def space(*, where: Callable[[Config], bool] | None = None, **values: Sequence[Any]) -> list[Config]:
    """Every combination of ``values`` for which ``where`` holds, as dictionaries.

    >>> import tilewright as ct
    >>> ct.tune.space(tile=(64, 128), threads=(1, 2), where=lambda c: c["tile"] * c["threads"] < 256)
    [{'tile': 64, 'threads': 1}, {'tile': 64, 'threads': 2}, {'tile': 128, 'threads': 1}]
    """
    for name, choices in values.items():
        if not isinstance(choices, Iterable):
            raise TypeError(f"{name} is {choices!r}; it must be the values to choose from, such as {name}=(64, 128)")
    found = (dict(zip(values, combination)) for combination in itertools.product(*values.values()))
    return [config for config in found if where is None or where(config)]


def checked_space(name: str, configs: Any, functions: Mapping[str, Any]) -> list[Any]:
    """The configurations of the argument ``name``. TypeError when they, or what takes one, cannot be that; ValueError
    when there are none."""
    if not isinstance(configs, Iterable):
        raise TypeError(
            f"{name} is {configs!r}; it must be a sequence of configurations, such as ct.tune.space(tile=(64, 128))"
        )
    for function, value in functions.items():
        if not callable(value):
            raise TypeError(f"{function} is {value!r}; it must be a function of the configuration")
    found = list(configs)
    if not found:
        raise ValueError(f"{name} is empty: there is nothing to choose from")
    return found


def neighbours(config: Any, configs: Sequence[Any]) -> list[int]:
    """The indices in ``configs`` of those that differ from ``config`` in one entry, by one step where it is ordered."""
    if not isinstance(config, dict):
        return []
    found = []
    for name, value in config.items():
        same = [
            i
            for i, other in enumerate(configs)
            if isinstance(other, dict) and all(other.get(k) == v for k, v in config.items() if k != name)
        ]
        line = list(dict.fromkeys(configs[i][name] for i in same if name in configs[i]))
        here = line.index(value)
        near = line[max(here - 1, 0) : here] + line[here + 1 : here + 2]
        found += [i for i in same if configs[i].get(name) in near]
    return found
