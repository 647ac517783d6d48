"""Generated kernels keep true use lists through every pass of every pipeline: the verifier counts the uses again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from support.kernel_generator import GeneratedKernel
from support.kernel_runs import arguments, generated, generated_product, seeds

from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.cpu.codegen.pipeline import optimize as optimize_for_cpu
from tilewright.backends.cpu.loops.pipeline import loop_form
from tilewright.backends.cpu.target import host
from tilewright.backends.triton.backend import passes_to_ttir
from tilewright.frontend.python.compile import trace
from tilewright.ir.core import Function
from tilewright.ir.errors import TileUnsupportedFeatureError
from tilewright.transforms.gpu.lowering import lower_to_gpu
from tilewright.transforms.instrumentation import observed_passes
from tilewright.transforms.pipelines import optimize, run_passes

HOPPER = parse_target("sm_90")


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the passes that run, each verified."""
    monkeypatch.setenv("TILEWRIGHT_VERIFY", "1")
    names: list[str] = []
    with observed_passes(lambda name, function: names.append(name)):
        yield names


def prepare(function: Function) -> None:
    """All passes before Triton takes over."""
    for late in (False, True):
        run_passes(optimize(function), passes_to_ttir(HOPPER, sink_loads=late))


def traced(kernel: GeneratedKernel) -> Function:
    launched = kernel.kernel()
    signature, _ = launched.described(arguments(kernel)[0], "reference")
    return trace(launched.function, signature, {})


@pytest.mark.parametrize("seed", seeds(6))
def test_through_every_pass(seed: int, passes: list[str]) -> None:
    function = traced(generated(seed))
    loop_form(optimize_for_cpu(function), host())
    prepare(function)
    with contextlib.suppress(TileUnsupportedFeatureError):
        lower_to_gpu(optimize(function), 4)
    assert {"canonicalize", "fuse-loop-nests", "sink-loads", "lower-views"} <= set(passes)


@pytest.mark.parametrize("seed", seeds(3))
def test_products_through_every_pass(seed: int, passes: list[str]) -> None:
    function = traced(generated_product(seed))
    prepare(function)
    with contextlib.suppress(TileUnsupportedFeatureError):
        lower_to_gpu(optimize(function), 4)
    assert {"sink-loads", "assign-layouts"} <= set(passes)
