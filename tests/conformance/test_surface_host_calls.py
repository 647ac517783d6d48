"""Calls of host functions with arguments that they do not take: the error names the argument and says what to write."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright import compilation, tune
from tilewright.compilation import ArrayConstraint, CallingConvention, KernelSignature, TupleConstraint


@ct.kernel
def copy(x: Any, y: Any, T: ct.Constant[int]) -> None:
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (T,)))


X = np.zeros(8, np.float32)
SIGNATURE = KernelSignature.from_kernel_args(copy, (X, X.copy(), 4), CallingConvention.cutile_python_v1())


def _export(**keywords: Any) -> None:
    compilation.export_kernel(copy, [SIGNATURE], io.BytesIO(), **keywords)


def _search(**keywords: Any) -> None:
    tune.exhaustive_search([1], None, lambda c: (2,), copy, lambda c: (X, X, 4), **keywords)


any_call: Any = ct
CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "kernel": (lambda: any_call.kernel(num_warps=4), "'num_warps'; write num_worker_warps=; it is called as kernel"),
    "hints": (lambda: copy.replace_hints(num_stages=4), "'num_stages'; write latency= of ct.load"),
    "function": (lambda: any_call.function(device=True), r"'device'; it is called as function\(func=None, /, \*, host"),
    "marked": (lambda: any_call.function(3), "@ct.function marks a Python function, not 3"),
    "launch": (
        lambda: any_call.launch(stream=None, grid=(2,), kernel=copy, kernel_args=(X, X, 4)),
        r"four arguments by position, .* ct.launch\(None, grid, kernel, \(...\)\)",
    ),
    "nothing": (lambda: any_call.launch(), "ct.launch.. takes four arguments, of which the first is the stream"),
    "kind": (lambda: any_call.kernel(occupancy="2"), "occupancy is '2'; it must be from 1 to 32"),
    "targets": (lambda: any_call.ByTarget(2), "too many positional arguments; it is called as ByTarget"),
    "slice": (lambda: any_call.Slice(0), r"it is called as Slice\(start, length, /\)"),
    "eval": (lambda: any_call.static_eval(), r"static_eval\(\) missing"),
    "configs": (lambda: any_call.autotune(3), "configs is 3; it must be a sequence of configurations"),
    "config": (lambda: any_call.autotune([64]), "a configuration is 64; it must be a Config or a dictionary"),
    "space": (lambda: any_call.tune.space(tile=64), r"tile is 64; .* such as tile=\(64, 128\)"),
    "dtype": (lambda: any_call.compilation.ScalarConstraint(), "it is called as ScalarConstraint"),
    "dims": (lambda: any_call.ArrayAnnotation(static_shape_dim=(0,)), "did you mean static_shape_dims"),
    "position": (lambda: any_call.ListAnnotation(3), r"it is called as ListAnnotation\(\*, element\)"),
    "cdiv": (lambda: any_call.cdiv("a", 2), r"cdiv\('a', 2\): both must be numbers"),
    "architecture": (lambda: _export(gpu_code=90, output_format="cubin"), "gpu_code is 90; it must be a string, such"),
    "target": (lambda: _export(target="sm_90", output_format="cubin"), "'target'; it is called as export_kernel"),
    "format": (lambda: _export(gpu_code="sm_90"), "missing a required argument: 'output_format'; it is called as"),
    "constraint": (lambda: ArrayConstraint(ct.float32, 2, index=3), "it is called as ArrayConstraint"),  # type: ignore[call-arg]
    "tuple": (lambda: TupleConstraint(3), "items is 3; it must be a sequence of constraints"),  # type: ignore[arg-type]
    "signature": (lambda: KernelSignature([1]), "missing a required argument: 'calling_convention'"),  # type: ignore[call-arg]
    "mangle": (
        lambda: any_call.compilation.mangle_kernel_name("f", 3),
        "kernel_signature is 3; it must be a KernelSig",
    ),
    "demangle": (lambda: any_call.compilation.demangle_kernel_name(3), "symbol is 3; it must be a string"),
    "search": (lambda: _search(max_iter=3), "'max_iter'; it is called as exhaustive_search"),
}


@pytest.mark.parametrize("name", CASES)
def test_wrong_arguments(name: str) -> None:
    call, message = CASES[name]
    with pytest.raises(TypeError, match=message):
        call()


def test_export_into_a_text_file() -> None:
    text: Any = io.StringIO()
    with pytest.raises(TypeError, match="give a path or a binary file"):
        compilation.export_kernel(copy, [SIGNATURE], text, output_format="tileir_bytecode")


def test_hints_that_are_none() -> None:
    wrong: Any = lambda config: 3
    with pytest.raises(ValueError, match=r"the hints for copy\(\) are 3; they must be a dictionary of kernel hints"):
        _search(hints_fn=wrong, quiet=True)


def test_signature_of_no_kernel() -> None:
    no_kernel: Any = copy.function
    with pytest.raises(TypeError, match="the first argument of from_kernel_args must be a kernel"):
        KernelSignature.from_kernel_args(no_kernel, (X, X, 4), CallingConvention.cutile_python_v1())
