"""The hint ``occupancy`` limits the registers of a thread, where that costs no memory for those that it lacks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.gpu_attention import to_first_keys

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.triton.backend import TritonBackend, compile_for
from tilewright.backends.triton.heuristics import choose
from tilewright.backends.triton.resource_usage import spilled
from tilewright.gpu_runtime.artifact import Artifact
from tilewright.ir.core import Function
from tilewright.runtime.launch import specialization
from tilewright.transforms.pipelines import optimize

pytest.importorskip("triton", reason="the package triton is not installed")

HOPPER = parse_target("sm_90")


@ct.kernel
def softmax(x, out, N: ct.Constant[int]):
    tile = ct.exp(ct.load(x, (ct.bid(0), 0), (1, N)))
    ct.store(out, (ct.bid(0), 0), tile / ct.sum(tile))


def attention(occupancy: int | None, tile: int = 128, width: int = 128) -> Function:
    heads = np.zeros((512, width), np.float16)
    arguments = (heads, heads, heads, heads, 0.1, 512, width, tile, tile)
    return specialization(to_first_keys.replace_hints(occupancy=occupancy), arguments, "reference").function


def rows(occupancy: int | None, size: int = 1024) -> Function:
    x = np.zeros((8, size), np.float32)
    return specialization(softmax.replace_hints(occupancy=occupancy), (x, x, size), "reference").function


@functools.cache
def decided() -> Artifact:
    """Attention, whose hint costs more than it brings."""
    return compile_for(attention(2), HOPPER, {})


def choices(made: Artifact) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in made.binary.texts["compile decisions"].splitlines())


def limit(made: Artifact) -> str:
    return choices(made)["registers per thread, at most"]


def test_attention_keeps_the_registers_it_needs() -> None:
    asked = compile_for(attention(2), HOPPER, {"maxnreg": 128})
    much = spilled(asked.binary, HOPPER)
    assert much > 0 and limit(asked) == "128" and choices(asked)["ignored hints"] == "none"
    made = decided()
    free = spilled(made.binary, HOPPER)
    assert free < much and limit(made) == "no limit"
    reason = f"occupancy (spills {much} bytes per thread with 128 registers and {free} without a limit)"
    assert choices(made)["ignored hints"] == reason


def test_what_is_cached_holds_the_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, function = TritonBackend(HOPPER), attention(2)
    monkeypatch.setattr(backend, "artifact", lambda *_: decided())
    serialization = backend.capabilities.serialization
    assert serialization is not None
    made = backend.compile(function, {})
    kept = serialization.to_bytes(made)
    assert kept is not None
    found: Any = serialization.from_bytes(function, kept, {}, None)
    assert spilled(found.artifact.binary, HOPPER) == spilled(made.artifact.binary, HOPPER)
    assert "occupancy (spills " in found.stages()["compile decisions"]


@pytest.mark.parametrize(("make", "sizes"), [(attention, (64, 64)), (rows, (1024,)), (rows, (8192,))])
def test_the_hint_never_spills_more(make: Callable[..., Function], sizes: Any) -> None:
    free = spilled(compile_for(make(None, *sizes), HOPPER, {}).binary, HOPPER)
    for occupancy in (4, 16):
        made = compile_for(make(occupancy, *sizes), HOPPER, {})
        assert spilled(made.binary, HOPPER) <= free
        assert (limit(made) == "no limit") == ("occupancy (" in choices(made)["ignored hints"])


def test_a_kernel_that_fits_keeps_its_limit() -> None:
    made = compile_for(rows(4), HOPPER, {})
    assert limit(made) == "128" and choices(made)["ignored hints"] == "none"


def test_attention_of_float32_has_two_stages() -> None:
    """Threads multiply, with more of them on an SM than three stages leave room for."""
    heads = np.zeros((512, 64), np.float32)
    function = specialization(to_first_keys, (heads, heads, heads, heads, 0.1, 512, 64, 64, 64), "reference").function
    assert choose(optimize(function), HOPPER, {}).num_stages == 2
