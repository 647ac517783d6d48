"""Kernels that a backend takes from the default one: how they are found, and who decides otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tilewright as ct
from tilewright.backends import registry
from tilewright.backends.base import Backend
from tilewright.backends.registry import KernelClass, register_class
from tilewright.ir.core import Function
from tilewright.ir.ops.arith import Mul


@ct.kernel
def scaled(x, out):  # type: ignore[no-untyped-def]
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (16,)) * 2)


@ct.kernel
def copied(x, out):  # type: ignore[no-untyped-def]
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (16,)))


ASKED: list[str] = []


def multiplies(function: Function, backend: Backend) -> bool:
    ASKED.append(function.name)
    assert backend.name == "cpu"
    return any(isinstance(op, Mul) for op in function.walk())


@pytest.fixture(autouse=True)
def a_class(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The backend reference takes kernels that multiply from the backend cpu."""
    monkeypatch.setattr(registry, "_classes", {})
    register_class(KernelClass("kernels that multiply", "reference", multiplies), instead_of="cpu")
    ASKED.clear()
    yield


def run(kernel: ct.Kernel, **how: str) -> str:
    """The backend that a launch of ``kernel`` ran on."""
    kernel = kernel.replace_options("reference")  # with a cache of its own
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    for _ in range(2):
        ct.launch(None, (1,), kernel, (x, out), **how)
    assert (out == x * (2 if kernel.name == "scaled" else 1)).all()
    (found,) = kernel.inspect().specializations
    taken = "reference takes kernels that multiply" in str(kernel.inspect())
    assert taken == (found.compilation.taken != "")
    return found.compilation.backend + " by its class" * taken


def test_the_predicate_decides_once() -> None:
    assert run(scaled) == "reference by its class" and ASKED == ["scaled"]
    assert run(copied) == "cpu" and ASKED == ["scaled", "copied"]


def test_who_asks_for_a_backend_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(scaled, backend="cpu") == "cpu"
    with ct.use_backend("cpu"):
        assert run(scaled) == "cpu"
    with ct.use_backend("reference"):
        assert run(scaled) == "reference"
    monkeypatch.setenv("TILEWRIGHT_BACKEND", "cpu")
    assert run(scaled) == "cpu"
    assert not ASKED


def test_options_for_the_default_backend_keep_the_kernel_there() -> None:
    assert run(scaled.replace_options("cpu", threads=1)) == "cpu" and not ASKED


def test_options_for_the_other_backend_take_the_kernel_there(monkeypatch: pytest.MonkeyPatch) -> None:
    register_class(KernelClass("none", "cpu", multiplies), instead_of="reference")
    with monkeypatch.context() as m:
        m.setitem(registry._defaults, "cpu", "reference")
        assert run(copied.replace_options("cpu", threads=1)) == "cpu" and not ASKED


def test_a_backend_that_does_not_work_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = registry.get_backend("reference")
    monkeypatch.setattr(type(reference), "unavailable", lambda self: "not today")
    assert run(scaled) == "cpu"


def test_a_backend_that_cannot_compile_a_kernel_leaves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ct.TileUnsupportedFeatureError("not this one")

    monkeypatch.setattr(type(registry.get_backend("reference")), "compile", refuse)
    assert run(scaled) == "cpu" and ASKED == ["scaled"]
    with pytest.raises(ct.TileUnsupportedFeatureError):
        run(scaled, backend="reference")
