"""Variants of a kernel that launches need: compiled once each, and used from then on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from support.driver import versions

from tilewright.backends.base import NeedsKernel, NeedsVariant
from tilewright.backends.launch_arguments import LaunchArguments

HELPER: Any = SimpleNamespace(name="helper")


class Picky:
    """Takes numbers up to ``most``; odd ones need another kernel, too."""

    def __init__(self, most: int, log: list[Any]) -> None:
        self.most, self.log, self.kernels = most, log, dict[Any, Any]()

    def launch(self, grid: Any, arguments: LaunchArguments) -> None:
        (number,) = arguments.values
        if number > self.most:
            raise NeedsVariant(2 * self.most)
        if number % 2 and "odd" not in self.kernels:
            raise NeedsKernel("odd", HELPER, {})
        self.log.append((self.most, number, self.kernels.get("odd") if number % 2 else None))

    def bind(self, grid: Any, arguments: LaunchArguments) -> Callable[[], None]:
        self.launch(grid, arguments)
        self.log.pop()
        return lambda: self.launch(grid, arguments)

    def launch_stub(self, device: int, tables: Any, variants: Mapping[Any, Any]) -> Any:
        return tuple(variants)


@pytest.mark.parametrize("way", ["launch", "bind"])
def test_a_launch_runs_the_variant_that_it_needs(way: str) -> None:
    log: list[Any] = []
    made: list[Any] = []

    def make(function: Any, variant: int | None) -> Any:
        made.append("helper" if function is HELPER else variant)
        return f"helper {len(made)}" if function is HELPER else Picky(variant or 4, log)

    kernel = versions(SimpleNamespace(name="picky"), make)

    def launch(number: int) -> tuple[int, int, Any]:
        if way == "launch":
            kernel.launch((1, 1, 1), LaunchArguments((number,), ()))
        else:
            bound = kernel.bind((1, 1, 1), LaunchArguments((number,), ()))
            bound()
            bound()
            assert log.pop() == log[-1]
        return log.pop()

    assert launch(4) == (4, 4, None) and made == [None]
    assert launch(30) == (32, 30, None) and made == [None, 8, 16, 32]
    assert launch(3) == (4, 3, "helper 5") and made[4:] == ["helper"]
    assert launch(7) == (8, 7, "helper 5")  # of the same device: it is not compiled again
    assert launch(31) == (32, 31, "helper 5") and made[5:] == []
    assert kernel.launch_stub(0, (), {}) == (8, 16, 32)  # machine code may choose among those that are there
    assert not log
