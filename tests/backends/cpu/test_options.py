"""Options of the CPU backend change who does the work, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.backends.cpu import threads
from tilewright.backends.cpu.executable import CpuExecutable


@ct.kernel
def squares(x, out, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (TILE,)) * ct.load(x, (i,), (TILE,)))


@ct.kernel
def in_turn(turn, TILE: ct.Constant[int]):
    while ct.atomic_cas(turn, (0,), ct.bid(0), ct.bid(0) + 1) != ct.bid(0):
        pass


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many threads each launch asked for."""
    found: list[int] = []

    def counting(run: Callable[..., None]) -> Callable[..., None]:
        def counted(work: Callable[[], None], count: int, *others: Any, **named: Any) -> None:
            found.append(count)
            run(work, count, *others, **named)

        return counted

    run_team = CpuExecutable._run_team

    def counted_team(self: CpuExecutable, runtime: Any, count: int, *others: Any) -> None:
        found.append(count)
        run_team(self, runtime, count, *others)

    monkeypatch.setattr(CpuExecutable, "_run_team", counted_team)
    for name in ("run", "supervise"):
        monkeypatch.setattr(threads.POOL, name, counting(getattr(threads.POOL, name)))
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "4")
    return found


@pytest.mark.parametrize(
    "options, count",
    [({}, [4]), ({"threads": 3}, [3]), ({"threads": 1}, []), ({"chunk": 7}, [4]), ({"threads": 9}, [4])],
)
def test_threads_and_chunks(options: dict[str, Any], count: list[int], used: list[int]) -> None:
    x = np.arange(1 << 18, dtype=np.float64)
    out = np.zeros_like(x)
    ct.launch(None, (1 << 10,), squares.replace_options("cpu", **options), (x, out, 256), backend="cpu")
    np.testing.assert_array_equal(out, x * x)
    assert used == count


def test_blocks_that_take_turns_get_a_thread_for_each_processor(used: list[int]) -> None:
    turn = np.zeros(1, np.int32)
    ct.launch(None, (20,), in_turn.replace_options("cpu", threads=1, chunk=20), (turn, 1), backend="cpu")
    assert turn[0] == 20 and used == [4]


def test_blocks_that_meet_get_a_thread_each_and_the_next_launch_begins_with_so_many(used: list[int]) -> None:
    @ct.kernel
    def meet(arrived):
        ct.atomic_add(arrived, 0, 1)
        while ct.atomic_add(arrived, 0, 0) < ct.num_blocks(0):
            pass

    for blocks in (20, 40, 10):
        arrived = np.zeros(1, np.int32)
        ct.launch(None, (blocks,), meet, (arrived,), backend="cpu")
        assert arrived[0] == blocks
    assert used == [4, 20, 10]


def test_hints_and_options_do_not_replace_each_other() -> None:
    for kernel in (
        squares.replace_hints(occupancy=2).replace_options("cpu", threads=1),
        squares.replace_options("cpu", threads=1).replace_hints(occupancy=2),
    ):
        assert dict(kernel.hints) == {"occupancy": 2} and kernel.options == {"cpu": {"threads": 1}}
    assert squares.options == {}


def test_inspect_lists_hints_without_effect() -> None:
    for kernel, listed in ((squares, "none"), (squares.replace_hints(occupancy=2, num_ctas=4), "occupancy, num_ctas")):
        ct.launch(None, (1,), kernel, (np.ones(8), np.ones(8), 8), backend="cpu")
        sizes = kernel.inspect().specializations[-1].stage("sizes")
        assert f"ignored hints: {listed}\n" in sizes


def test_options_of_one_backend_do_not_concern_another() -> None:
    x, out = np.arange(8.0), np.zeros(8)
    ct.launch(None, (1,), squares.replace_options("triton", num_warps=8), (x, out, 8), backend="cpu")
    np.testing.assert_array_equal(out, x * x)


@pytest.mark.parametrize("options", [{"thread": 1}, {"threads": 0}, {"threads": True}, {"chunk": 1.5}])
def test_mistakes(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="of the cpu backend is|the cpu backend has no option"):
        ct.launch(None, (1,), squares.replace_options("cpu", **options), (np.ones(8), np.ones(8), 8), backend="cpu")
