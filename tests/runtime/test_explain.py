"""What specializations are keyed on, and the reasons for compiling again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.runtime.explain import Compilation

X = np.ones(64, np.float32)


def make() -> Any:
    @ct.kernel
    def scaled(x, out, N: ct.Constant[int], factor, others, pair, flag: ct.Constant):
        ct.store(out, (0,), ct.load(x, (0,), (N,)).astype(out.dtype))

    return scaled


BASE: dict[str, Any] = {"x": X, "out": X.copy(), "N": 8, "factor": 1.0, "others": [X, X], "pair": (X, 2), "flag": True}


def launch(kernel: Any, backend: str = "reference", **changes: Any) -> None:
    ct.launch(None, (1,), kernel, tuple({**BASE, **changes}.values()), backend=backend)


def compilations(kernel: Any) -> list[Compilation]:
    return [s.compilation for s in kernel.inspect().specializations]


CHANGES = {
    "constant": ({"N": 16}, ["argument 'N': value is 16; it was 8"]),
    "kind of constant": ({"flag": 1}, ["argument 'flag': value is 1; it was True"]),
    "scalar dtype": ({"factor": 1}, ["argument 'factor': the argument is int32 number; it was float32 number"]),
    "dtype": (
        {"out": X.astype(np.float64)},
        ["argument 'out': the argument is float64 array of rank 1; it was float32 array of rank 1"],
    ),
    "extent": ({"x": X[:17]}, ["argument 'x': extent 0 is no multiple of 16; it was a multiple of 16"]),
    "extent of one": ({"x": X[:1]}, ["argument 'x': extent 0 is = 1; it was a multiple of 16"]),
    "address": ({"x": X[1:33]}, ["argument 'x': address is no multiple of 16; it was a multiple of 16"]),
    "stride": ({"x": X[::2]}, ["argument 'x': stride 0 is no multiple of 16; it was = 1"]),
    "list": (
        {"others": [X, X[1:]]},
        [
            "argument 'others[...]': address is no multiple of 16; it was a multiple of 16",
            "argument 'others[...]': extent 0 is no multiple of 16; it was a multiple of 16",
        ],
    ),
    "tuple": ({"pair": (X,)}, ["argument 'pair': the argument is tuple of 1; it was tuple of 2"]),
    "in a tuple": (
        {"pair": (X, 2.0)},
        ["argument 'pair[1]': the argument is float32 number; it was int32 number"],
    ),
}


@pytest.mark.parametrize("change, expected", CHANGES.values(), ids=CHANGES)
def test_reasons_name_the_argument_and_the_fact(change: dict[str, Any], expected: list[str]) -> None:
    kernel = make()
    launch(kernel)
    launch(kernel, **change)
    _, again = compilations(kernel)
    assert list(again.reasons) == expected


def test_arguments_whose_names_begin_alike() -> None:
    @ct.kernel
    def two(x, xs):
        ct.store(xs, (0,), ct.load(x, (0,), (8,)).astype(xs.dtype))

    ct.launch(None, (1,), two, (X, X.copy()), backend="reference")
    ct.launch(None, (1,), two, (X.astype(np.float64), np.ones(17, np.float32)), backend="reference")
    assert compilations(two)[1].reasons == (
        "argument 'x': the argument is float64 array of rank 1; it was float32 array of rank 1",
        "argument 'xs': extent 0 is no multiple of 16; it was a multiple of 16",
    )


def test_what_is_not_a_fact_compiles_nothing() -> None:
    kernel = make()
    launch(kernel)
    launch(kernel, x=np.ones(128, np.float32), factor=3.5, pair=(X, 9))
    assert len(compilations(kernel)) == 1


def test_the_nearest_specialization_is_compared() -> None:
    kernel = make()
    launch(kernel)
    launch(kernel, N=16, factor=1)
    launch(kernel, N=32, factor=1)
    assert compilations(kernel)[2].reasons == ("argument 'N': value is 32; it was 16",)


def test_other_backends_and_other_objects() -> None:
    kernel = make()
    launch(kernel)
    launch(kernel, "cpu")
    assert compilations(kernel)[1].reasons == ("the first launch on the backend cpu; before it ran on reference",)
    assert compilations(kernel)[1].backend == "cpu"
    twin = kernel.replace_hints(occupancy=2)
    launch(twin)
    (reason,) = compilations(twin)[0].reasons
    assert "made from scaled() at" in reason and "define the kernel once" in reason


def test_checked_mode_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = make()
    launch(kernel, "cpu")
    monkeypatch.setenv("TILEWRIGHT_CHECK", "1")
    launch(kernel, "cpu")
    again = compilations(kernel)[1]
    assert again.backend == "cpu with checks"
    assert again.reasons == ("the first launch on the backend cpu with checks; before it ran on cpu",)


def test_inspection_shows_keys_reasons_and_stages() -> None:
    kernel = make()
    assert str(kernel.inspect()) == "kernel scaled: 0 specializations"
    launch(kernel)
    text = str(kernel.inspect())
    assert text.startswith("kernel scaled: 1 specialization\n1. backend reference, compiled in ")
    assert "     N            constant; value 8\n" in text
    assert "float32 array of rank 1; address a multiple of 16; extent 0 a multiple of 16; stride 0 = 1" in text
    (found,) = kernel.inspect().specializations
    assert found.stage("Tile IR").startswith("func @scaled(")


def test_inspection_shows_hints_and_options() -> None:
    kernel = make().replace_hints(occupancy=2).replace_options("cpu", threads=1, chunk=4)
    assert str(kernel.inspect()).splitlines() == [
        "kernel scaled: 0 specializations",
        "hints: occupancy = 2",
        "options of cpu: threads = 1, chunk = 4",
    ]


def test_environment_variable(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = make()
    launch(kernel)
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("TILEWRIGHT_EXPLAIN", "1")
    launch(kernel)
    assert capsys.readouterr().err == ""
    launch(kernel, N=16)
    err = capsys.readouterr().err
    assert err.startswith("tilewright: scaled() specialization 2: backend reference, compiled in ")
    assert err.endswith("  because\n    argument 'N': value is 16; it was 8\n")


def test_int64_indices_are_a_fact() -> None:
    @ct.kernel
    def long(x: ct.IndexedWithInt64):
        ct.store(x, (0,), ct.zeros((8,), ct.float32))

    ct.launch(None, (1,), long, (X.copy(),), backend="reference")
    assert "x  float32 array of rank 1; index dtype int64;" in str(long.inspect())
