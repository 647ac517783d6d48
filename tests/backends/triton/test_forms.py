"""Products have forms with more stages for grids that put few blocks on an SM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.driver import Driver, executable

from tilewright.backends.launch_arguments import LaunchArguments
from tilewright.gpu_runtime import driver
from tilewright.gpu_runtime.artifact import Artifact
from tilewright.runtime.arguments import RUNTIME_SLOT
from tilewright.runtime.cached_launch import cached_launch
from tilewright.runtime.rules import Rule

DEFAULT, SHARED = 16, 300  # the handle and the bytes of the form for many blocks
GRIDS = [
    (1, 1, 1),
    (132, 1, 1),
    (66, 2, 1),
    (133, 1, 1),
    (11, 12, 2),
    (3, 89, 1),
    (264, 1, 1),
    (265, 1, 1),
    (500, 9, 9),
]


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> Driver:
    found = Driver()
    monkeypatch.setattr(driver, "load", lambda: found)
    monkeypatch.setattr(driver, "device", lambda index: found)
    return found


def wanted(grid: tuple[int, int, int], depths: tuple[int, int]) -> tuple[int, int]:
    per_processor = -(-int(np.prod(grid)) // 132)
    stages = depths[per_processor - 1] if per_processor <= 2 else 0
    return (stages, 100 * stages) if stages else (DEFAULT, SHARED)


@pytest.mark.parametrize("depths", [(8, 4), (8, 0), (0, 5), (6, 6), (0, 0)])
def test_the_form_is_that_for_the_grid(looking: Driver, depths: tuple[int, int]) -> None:
    made = executable(("u64", "i32"), looking, depths=depths, shared=SHARED)
    for grid in GRIDS + GRIDS[::-1]:
        arguments = LaunchArguments((64, 5), (), 0, 0)
        made.launch(grid, LaunchArguments((64, 5), (), 0, 0))
        made.launch(grid, arguments)
        made.bind(grid, arguments)()
        assert looking.forms[-3:] == [wanted(grid, depths)] * 3, grid
        assert [launch[0] for launch in looking.launches[-3:]] == [grid] * 3


def by_machine_code(made: Any) -> Callable[..., bool]:
    rules, template = (Rule(), Rule()), (RUNTIME_SLOT, RUNTIME_SLOT)
    found = cached_launch(None, rules, (np.zeros(64, np.float32), 1), template, made, 0)
    assert found is not None
    return found


@pytest.mark.parametrize("depths", [(8, 4), (8, 0), (0, 5), (6, 6)])
def test_machine_code_starts_the_forms_that_are_there(looking: Driver, depths: tuple[int, int]) -> None:
    args = np.zeros(64, np.float32), 1
    made = executable(("u64", "i32"), looking, depths=depths, shared=SHARED)
    launch = by_machine_code(made)
    for grid in GRIDS:
        assert launch(None, grid, args, None) == (wanted(grid, depths)[0] == DEFAULT), grid
    for grid in GRIDS:
        made.launch(grid, LaunchArguments((64, 1), (), 0, 0))
    launch = by_machine_code(made)
    looking.forms.clear()
    for grid in GRIDS:
        assert launch(None, grid, args, None)
    assert looking.forms == [wanted(grid, depths) for grid in GRIDS]


def test_what_the_disk_cache_holds_has_forms() -> None:
    made = executable(("u64",), Driver(), depths=(8, 4))._first.artifact
    assert Artifact.from_bytes(made.to_bytes()).depths == (8, 4)
