"""Operators of PyTorch on a GPU: streams, CUDA graphs, compiled functions, and several devices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.operators import add, matmul, norm, scale, scale_in_place

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("PyTorch finds no GPU", allow_module_level=True)
TESTS = Path(__file__).parents[1]


def normal(*shape: int, **kwargs: Any) -> Any:
    return torch.randn(*shape, device="cuda", **kwargs)


def test_opcheck() -> None:
    torch.manual_seed(0)
    a, b = normal(20, 30, requires_grad=True), normal(30, 17, requires_grad=True)
    for op, args in ((add, (normal(300), normal(300))), (matmul, (a, b)), (norm, (normal(4, 40), normal(40)))):
        torch.library.opcheck(op.torch_op, args)
    torch.library.opcheck(scale_in_place.torch_op, (normal(5),))


def test_launches_go_to_the_current_stream() -> None:
    """The operator waits for the work before it on that stream, which takes long."""
    x, stream = normal(1 << 20), torch.cuda.Stream()
    expected = x + 1
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        y = scale(x + 1, 3.0)
        z = scale(y, 2.0)
    stream.synchronize()
    torch.testing.assert_close(z, expected * 6)


def test_cuda_graphs() -> None:
    x = normal(1000)
    scale(x, 3.0)  # compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = add(scale(x, 3.0), x)
    for _ in range(3):
        x.normal_()
        graph.replay()
        torch.testing.assert_close(y, x * 4)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_floats_that_vary_in_compiled_functions(mode: str) -> None:
    """CUDA graphs do not repeat the float of the time when they were captured."""
    compiled = torch.compile(lambda x, factor: scale(x.sin(), factor) + 1, fullgraph=True, mode=mode)
    x = normal(300)
    for factor in (3.0, 0.5, 0.25, 7.0, 1.5, -2.0):
        for _ in range(3):
            torch.testing.assert_close(compiled(x, factor), x.sin() * factor + 1)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_functions(mode: str) -> None:
    a, b = normal(64, 48, requires_grad=True), normal(48, 32, requires_grad=True)
    compiled = torch.compile(lambda a, b: matmul(a, b).sin(), fullgraph=True, mode=mode)
    for _ in range(3):
        found = torch.autograd.grad(compiled(a, b).sum(), (a, b))
    expected = torch.autograd.grad((a.double() @ b.double()).sin().sum(), (a, b))
    for one, other in zip(found, expected):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-1)


def test_tensors_of_two_devices() -> None:
    with pytest.raises(RuntimeError, match=r"tests::add: 'b' is on cpu, but 'a' on cuda:\d; move one of them"):
        add(normal(3), torch.zeros(3))
    if torch.cuda.device_count() > 1:
        there = torch.ones(300, device="cuda:1")
        assert scale(there, 3.0).device == there.device
        torch.testing.assert_close(scale(there, 3.0), there * 3)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_dtensor_over_nccl(tmp_path: Path) -> None:
    program = [sys.executable, str(TESTS / "support" / "dtensor_program.py")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)])}
    running = [
        subprocess.Popen([*program, str(rank), "2", str(tmp_path / "meeting")], env=environment) for rank in range(2)
    ]
    assert [process.wait(timeout=400) for process in running] == [0, 0]
