"""Errors about names that there are not say what to write instead."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.tile_code import refuses

import tilewright as ct
import tilewright.lib
from tilewright.ir.errors import UnsupportedCallError
from tilewright.language import suggestions

X = np.zeros(16, np.float32)
SETTINGS = SimpleNamespace(size=4)


@pytest.mark.parametrize(
    "name, advice", sorted({**suggestions._ELSEWHERE, **suggestions._OF_TILES, **suggestions._KEYWORDS}.items())
)
def test_what_is_advised_exists(name: str, advice: str) -> None:
    assert not hasattr(ct, name) or name in {**suggestions._OF_TILES, **suggestions._KEYWORDS} or name == "lib"
    for word in re.findall(r"(?<![.\w])ct\.(\w+)", advice):
        assert hasattr(ct, word)
    for word in re.findall(r"tilewright\.lib\.(\w+)", advice):
        assert word in tilewright.lib.__all__


def test_helpers_are_those_of_the_library() -> None:
    assert sorted(suggestions._OF_LIB) == sorted(tilewright.lib.__all__)


# Names that people try, in tile code.
WRONG: list[tuple[Callable[[Any], Any], type[ct.TileError], str]] = [
    (lambda x: ct.laod(x, (0,), (16,)), ct.TileTypeError, "; did you mean ct.load?"),
    (lambda x: ct.sort(x), ct.TileTypeError, "; write tilewright.lib.sort"),
    (lambda x: ct.program_id(0), ct.TileTypeError, r"; write ct.bid\(axis\)"),
    (lambda x: ct.float3, ct.TileTypeError, "; did you mean ct.float32?"),
    (lambda x: ct.argsort(x), ct.TileTypeError, "; write tilewright.lib.argsort"),
    (lambda x: ct.sigmod(x), ct.TileTypeError, "; did you mean tilewright.lib.sigmoid?"),
    (lambda x: ct.PaddingMode.ZEROS, ct.TileTypeError, "; did you mean PaddingMode.ZERO?"),
    (lambda x: ct.exp(x, rouding_mode=None), ct.TileTypeError, r"; did you mean rounding_mode.; its signature is exp"),
    (
        lambda x: range(ct.bid(0) / 4),
        ct.TileTypeError,
        "a float32 scalar; it must be .*; quotients of integers are written with //",
    ),
    (lambda x: ct.zeros(shap=(4,), dtype=ct.int32), ct.TileTypeError, r"zeros\(\): got .* 'shap'; did you mean shape"),
    (lambda x: x.reshape(4, 4), ct.TileTypeError, r"too many .*; write 'shape' as one tuple; its signature"),
    (lambda x: ct.transpose(x.reshape((4, 4)), 0, 1, 2), ct.TileTypeError, r"too many positional arguments; its sig"),
    (lambda x: ct.arange(0, 8, dtype=ct.int32), ct.TileTypeError, "; write dtype=, start=, step= by name; its"),
    (lambda x: ct.zeros((4,), ct.int32, 0), ct.TileTypeError, r"too many positional arguments; its signature"),
    (lambda x: ct.max(x, 0, True), ct.TileTypeError, "; write keepdims=, flush_to_zero=, propagate_nan= by name; its"),
    (lambda x: ct.static_eval([1, 2][ct.bid(0)]), ct.TileStaticEvalError, "; loop over range.*, or pass the number"),
    (lambda x: ct.sum(x, dim=0), ct.TileTypeError, "'dim'; write axis=; its signature is sum"),
    (lambda x: math.sqrt(-1.0), ct.TileValueError, r"math.sqrt\(-1.0\) cannot be computed"),
    (lambda x: np.exp(x), ct.TileTypeError, "; write ct.exp"),
    (lambda x: SETTINGS.size, ct.TileTypeError, r"compiled, as in ct.static_eval\(x.size\)"),
    (lambda x: SETTINGS.height, ct.TileTypeError, "a SimpleNamespace has no attribute 'height' in tile code$"),
    (lambda x: np.sum(x), UnsupportedCallError, "; write ct.sum"),
    (lambda x: np.flor(x), ct.TileTypeError, "the module numpy has no 'flor'; did you mean numpy.floor?"),
    (lambda x: x.to(ct.float16), ct.TileTypeError, r"; write x.astype\(dtype\)"),
    (
        lambda x: ct.kernel(lambda a: a),
        UnsupportedCallError,
        r"kernel cannot be called in tile code; call ct functions",
    ),
    (lambda x: x + "a", ct.TileTypeError, r"\+ needs tiles or numbers, not a string"),
    (lambda x: ct.static_eval([1]), ct.TileTypeError, "static_eval' is a list, .*; make it a tuple"),
    (lambda x: x.reshap((4, 4)), ct.TileTypeError, "; did you mean x.reshape?"),
    (
        lambda x: np_like(x),  # noqa: F821
        ct.TileSyntaxError,
        "'np_like' is not defined; assign it at module level, or make it a parameter$",
    ),
    (
        lambda x: WRNG(x),  # noqa: F821
        ct.TileSyntaxError,
        "'WRNG' is not defined; did you mean WRONG?",
    ),
    (
        lambda x: tl.dot(x, x),  # noqa: F821
        ct.TileSyntaxError,
        "'tl' is not defined; write ct.mma",
    ),
    (
        lambda x: lib.sort(x),  # noqa: F821
        ct.TileSyntaxError,
        "'lib' is not defined; write from tilewright import lib first",
    ),
]


@pytest.mark.parametrize("index", range(len(WRONG)))
def test_in_tile_code(index: int) -> None:
    function, error, words = WRONG[index]
    refuses(function, error, X, match=f"(?m){words}")


def test_functions_of_triton() -> None:
    tl = pytest.importorskip("triton.language", reason="Triton is not installed")
    refuses(lambda x: tl.dot(x, x), UnsupportedCallError, X, match=r"triton\S+\.dot cannot .* write ct\.mma")
    refuses(lambda x: tl.exp(x), UnsupportedCallError, X, match=r"write ct\.exp")


@pytest.mark.parametrize("name, words", [("sort", "write tilewright.lib.sort"), ("laod", "did you mean ct.load?")])
def test_in_host_code(name: str, words: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(words)):
        getattr(ct, name)
    assert not hasattr(ct, "__wrapped__")


@pytest.mark.parametrize(
    ("shape", "axis", "said"), [((8,), 2, "must be from -1 to 0"), ((), 0, "a scalar has no axes")]
)
def test_an_axis_out_of_range(shape: tuple[int, ...], axis: int, said: str) -> None:
    @ct.kernel
    def kernel(x):
        ct.sum(ct.full(shape, 1, ct.int32), axis=axis)

    with pytest.raises(ct.TileTypeError, match=f"'axis' is {axis}: .*{said}"):
        ct.launch(None, (1,), kernel, (np.ones(8),), backend="reference")
