"""Launches increment the versions of the tensors that they write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as ct

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")


@ct.kernel
def double(source, target):
    ct.store(target, (0,), 2 * ct.load(source, (0,), (8,)))


@ct.kernel
def double_each(source, targets):
    ct.store(targets[0], (0,), 2 * ct.load(source, (0,), (8,)))


@ct.kernel
def double_into(source, target, other):
    ct.store(target, (0,), 2 * ct.load(source, (0,), (8,)))
    ct.store(other, (0,), ct.load(source, (0,), (8,)))


SHAPES = {
    "plain": (double, lambda target: target),
    "tuple": (double_each, lambda target: (target,)),
    "list": (double_each, lambda target: [target]),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_versions_of_written_tensors(shape: str, backend: str) -> None:
    kernel, packed = SHAPES[shape]
    source, target = torch.ones(8), torch.zeros(8)
    for launches in range(1, 8):  # the later ones are recognized by machine code
        ct.launch(None, (1,), kernel, (source, packed(target)), backend=backend)
        assert (source._version, target._version) == (0, launches)
    run = kernel.bind((1,), (source, packed(target)), backend=backend)
    run()
    assert (source._version, target._version) == (0, 8)


def test_versions_of_several_written_tensors() -> None:
    """Next to arrays of NumPy, which have no versions, and all entries of a list."""
    source, target, other, array = torch.ones(8), torch.zeros(8), torch.zeros(8), np.zeros(8, np.float32)
    for launches in range(1, 8):
        ct.launch(None, (1,), double_into, (source, target, other), backend="cpu")
        ct.launch(None, (1,), double_each, (source, [target, other]), backend="cpu")
        assert (source._version, target._version, other._version) == (0, 2 * launches, 2 * launches)
    for launches in range(15, 22):
        ct.launch(None, (1,), double_into, (source, array, target), backend="cpu")
        assert (source._version, target._version) == (0, launches)


def test_autograd_notices_writes() -> None:
    x = torch.ones(8, requires_grad=True)
    kept = x * 1
    loss = (kept * kept).sum()
    ct.launch(None, (1,), double, (torch.ones(8), kept))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("shape", SHAPES)
def test_tensors_made_in_inference_mode_are_changed_in_it_only(shape: str) -> None:
    """As by PyTorch's operations in place, in launches that repeat earlier ones, too."""
    kernel, wrapped = SHAPES[shape]
    source = torch.arange(8.0)
    with torch.inference_mode():
        target = torch.zeros(8)

    def launch(into: Any, of: Any = source) -> None:
        ct.launch(None, (1,), kernel, (of, wrapped(into)))

    def refused() -> None:
        with pytest.raises(
            RuntimeError, match=r"argument 'targets?(\[0\])?' of double\w*\(\) was made in inference mode"
        ):
            launch(target)
        assert not target.any()

    refused()
    for _ in range(8):
        launch(torch.zeros(8), target)
    refused()
    with torch.inference_mode():
        for _ in range(8):
            launch(target)
        assert torch.equal(target, 2 * source)
        target.zero_()
    refused()
