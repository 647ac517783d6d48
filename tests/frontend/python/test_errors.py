"""Mistakes in kernels: the class, the place, and the words that help."""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.ir.errors import UnsupportedCallError

A = np.zeros((8, 16), np.float32)


def index_of_wrong_rank(a):
    ct.load(a, (0,), (8, 16))  # HERE


def shape_of_wrong_rank(a):
    ct.load(a, (0, 0), (16,))  # HERE


def no_power_of_two(a):
    ct.load(a, (0, 0), (8, 12))  # HERE


def negative_shape(a):
    ct.zeros((-4,), ct.float32)  # HERE


def tile_as_condition(a):
    if ct.load(a, (0, 0), (8, 16)) > 0:  # HERE
        pass


def run_time_shape(a):
    ct.zeros((a.shape[0],), ct.float32)  # HERE


def mixed_signs(a):
    return ct.arange(8, dtype=ct.int32) + ct.uint32(3)  # HERE


def unknown_name(a):
    return nowhere + 1  # noqa: F821 # HERE


def changing_accumulator(a):
    acc = 0.0
    for i in range(4):
        acc = acc + ct.load(a, (i, 0), (8, 16))  # HERE


def undefined_on_one_path(a):
    if a.shape[0] > 3:
        y = 1
    ct.store(a, (0, 0), y)  # HERE


def different_on_two_paths(a):
    if a.shape[0] > 3:
        y = 1
    else:
        y = ct.zeros((8, 16), ct.float32)
    ct.store(a, (0, 0), y)  # HERE


def endless(a):
    return endless(a)  # HERE


def item_assignment(a):
    x = ct.load(a, (0, 0), (8, 16))
    x[0] = 3  # HERE


def array_subscript(a):
    a[0, 0]  # HERE


def generator(a):
    sum(x for x in range(3))  # HERE


def host_function(a):
    math.sqrt(ct.bid(0))  # HERE


def partial(a):
    functools.partial(min, 1)(2)  # HERE


@ct.kernel
def other(a):
    pass


def kernel_call(a):
    other(a)  # HERE


def static_index(a):
    ct.extract(ct.zeros((8, 16), ct.float32), (3, 0), (4, 4))  # HERE


def refused_cast(a):
    ct.store(a, (0, 0), ct.zeros((8, 16), ct.float64))  # HERE


def string_dtype(a):
    ct.zeros((8,), "float32")  # HERE


def returned_value(a):
    return 3  # HERE


def entry_too_many(a):
    ct.store(a, (0, 0), a.shape[2])  # HERE


def division_by_zero(a):
    return 1 // 0  # HERE


def too_large(a):
    return 1 << 70  # HERE


def list_display(a):
    return [1, 2]  # HERE


def try_statement(a):
    try:  # HERE
        pass
    finally:
        pass


def loop_else(a):
    for _ in range(3):  # HERE
        pass
    else:
        pass


def unsigned_index(a):
    ct.load(a, (ct.uint32(0), 0), (8, 16))  # HERE


def negative_step(a):
    for _ in range(5, 0, -1):  # HERE
        pass


def latency(a):
    ct.load(a, (0, 0), (8, 16), latency=11)  # HERE


def sum_of_arrays(a):
    ct.store(a, (0, 0), a + a)  # HERE


def size_of_an_array(a):
    a.size  # HERE  # noqa: B018


def mean_of_an_array(a):
    a.mean()  # HERE


def product_of_vectors(a):
    x = ct.zeros((16,), ct.float32)
    ct.mma(x, x, x)  # HERE


def vector_to_columns(a):
    ct.broadcast_to(ct.zeros((16,), ct.float32), (16, 4))  # HERE


def transposed_vector(a):
    ct.transpose(ct.zeros((16,), ct.float32))  # HERE


def wrong_conversion(a):
    ct.printf("%d", ct.load(a, (0, 0), (8, 16)))  # HERE


def representation(a):
    print(f"{a.shape[0]!r}")  # HERE


def random_numbers(a):
    np.random.rand(16)  # HERE


def deletion(a):
    x = 1
    del x  # HERE


def load_of_an_array(a):
    a.load((0, 0), (8, 16))  # HERE


def load_of_memory(a):
    a.get_raw_memory().load(0)  # HERE


def static_assertion(a):
    ct.static_assert(a.ndim == 3, f"rank {a.ndim}")  # HERE


def index_of_a_tile(a):
    i = ct.arange(1, dtype=ct.int32)
    ct.load(a, (i, 0), (8, 16))  # HERE


def array_of_a_tuple(a):
    ct.load((a, a)[ct.bid(0)], (0, 0), (8, 16))  # HERE


def maximum_of_floats(a):
    ct.atomic_max(a, (0, 0), 1.0)  # HERE


CASES: tuple[tuple[Callable[..., Any], type[ct.TileError], str, str], ...] = (
    (index_of_wrong_rank, ct.TileTypeError, "(0,)", "write one entry per dimension, such as index=(i, j)"),
    (shape_of_wrong_rank, ct.TileTypeError, "(16,)", "write shape=(1, 16)"),
    (no_power_of_two, ct.TileTypeError, "(8, 12)", "Use 8 or 16"),
    (negative_shape, ct.TileTypeError, "(-4,)", "not a positive power of two"),
    (tile_as_condition, ct.TileTypeError, "ct.load(a, (0, 0), (8, 16)) > 0", "ct.where(condition, x, y)"),
    (run_time_shape, ct.TileTypeError, "(a.shape[0],)", "ct.Constant[int]"),
    (mixed_signs, ct.TileTypeError, "ct.arange(8, dtype=ct.int32) + ct.uint32(3)", ".astype(ct.int64)"),
    (unknown_name, ct.TileSyntaxError, "nowhere", "'nowhere' is not defined"),
    (changing_accumulator, ct.TileTypeError, "", "Start it with ct.zeros((8, 16), ct.float32)"),
    (
        undefined_on_one_path,
        ct.TileTypeError,
        "y",
        "'y' may be undefined here: not every path assigns it. Assign it before",
    ),
    (different_on_two_paths, ct.TileTypeError, "y", "the constant 1 on one path and a tile of float32"),
    (endless, ct.TileRecursionError, "endless(a)", "otherwise write a loop"),
    (item_assignment, ct.TileTypeError, "x[0]", "use ct.insert or ct.where"),
    (array_subscript, ct.TileTypeError, "a[0, 0]", "ct.load(a, index, shape)"),
    (generator, ct.TileSyntaxError, "range(3)", "ct.static_iter"),
    (host_function, UnsupportedCallError, "math.sqrt(ct.bid(0))", "use ct.sqrt"),
    (partial, UnsupportedCallError, "functools.partial(min, 1)", "functools.partial cannot be called"),
    (kernel_call, ct.TileTypeError, "other(a)", "a kernel cannot be called from tile code"),
    (static_index, ct.TileTypeError, "(3, 0)", "has 2 subtiles"),
    (refused_cast, ct.TileTypeError, "ct.store(a, (0, 0), ct.zeros((8, 16), ct.float64))", ".astype(ct.float32)"),
    (string_dtype, ct.TileTypeError, '"float32"', "write ct.float32"),
    (returned_value, ct.TileTypeError, "3", "store results with ct.store"),
    (entry_too_many, ct.TileTypeError, "a.shape[2]", "index 2 is out of range for a tuple of 2"),
    (division_by_zero, ct.TileValueError, "1 // 0", "1 // 0 cannot be computed"),
    (too_large, ct.TileValueError, "1 << 70", "does not fit in 64 bits"),
    (list_display, ct.TileSyntaxError, "[1, 2]", "write a tuple"),
    (try_statement, ct.TileSyntaxError, "", "no 'try'"),
    (loop_else, ct.TileSyntaxError, "", "no 'else' on loops"),
    (unsigned_index, ct.TileTypeError, "(ct.uint32(0), 0)", ".astype(ct.int32)"),
    (negative_step, ct.TileTypeError, "range(5, 0, -1)", "only positive steps"),
    (latency, ct.TileValueError, "11", "between 1 and 10"),
    (sum_of_arrays, ct.TileTypeError, "a + a", "load tiles of arrays with ct.load"),
    (size_of_an_array, ct.TileTypeError, "a.size", "the product of the entries of x.shape"),
    (load_of_an_array, ct.TileTypeError, "a.load", "write ct.load(x, index, shape)"),
    (load_of_memory, ct.TileTypeError, "a.get_raw_memory().load", "load_offset"),
    (mean_of_an_array, ct.TileTypeError, "a.mean", "load a tile with ct.load first"),
    (product_of_vectors, ct.TileTypeError, "x", "x[None, :] is a row"),
    (vector_to_columns, ct.TileTypeError, "(16, 4)", "new axes come from x[:, None]"),
    (transposed_vector, ct.TileTypeError, "ct.transpose(ct.zeros((16,), ct.float32))", "x[None, :] is a row"),
    (wrong_conversion, ct.TileTypeError, '"%d"', "write one such as %f"),
    (representation, ct.TileSyntaxError, "", "conversion in f-strings; leave it out"),
    (random_numbers, UnsupportedCallError, "np.random.rand(16)", "tilewright.lib.uniform"),
    (deletion, ct.TileSyntaxError, "", "'del'; leave it out"),
    (static_assertion, ct.TileStaticAssertionError, "", "rank 2"),
    (index_of_a_tile, ct.TileTypeError, "(i, 0)", "an integer scalar: write .item(), or load it with the shape ()"),
    (array_of_a_tuple, ct.TileTypeError, "(a, a)[ct.bid(0)]", "pass the arrays as a list"),
    (maximum_of_floats, ct.TileTypeError, "", "it takes int32, int64, uint32, uint64"),
)


@pytest.mark.parametrize(("function", "error", "at", "words"), CASES, ids=[c[0].__name__ for c in CASES])
def test_mistake(function: Callable[..., Any], error: type[ct.TileError], at: str, words: str) -> None:
    with pytest.raises(ct.TileError) as caught:
        ct.launch(None, (1,), ct.kernel(function), (A,))
    e = caught.value
    assert type(e) is error
    assert words in e.message
    assert e.loc is not None
    lines = Path(__file__).read_text().splitlines()
    start = function.__code__.co_firstlineno
    line = next(i for i in range(start, len(lines) + 1) if "# HERE" in lines[i - 1])
    assert (e.loc.file, e.loc.line) == (__file__, line)
    if at:
        assert e.loc.column == lines[line - 1].index(at)
        assert lines[line - 1][e.loc.column : e.loc.end_column] == at
        assert "^" * len(at) in str(e)


def outer_helper(x):
    return inner_helper(x)


def inner_helper(x):
    return x @ 3


def test_the_inlining_chain_is_shown() -> None:
    @ct.kernel
    def kernel(a):
        outer_helper(ct.load(a, (0, 0), (8, 16)))

    with pytest.raises(ct.TileTypeError) as caught:
        ct.launch(None, (1,), kernel, (A,))
    assert [loc.function for loc in caught.value.loc.chain()] == ["inner_helper", "outer_helper", "kernel"]
    text = str(caught.value)
    assert text.index("return x @ 3") < text.index("return inner_helper(x)") < text.index("outer_helper(ct.load")


def test_carets_count_characters_not_bytes(tmp_path: Any) -> None:
    path = tmp_path / "unicode_kernel.py"
    path.write_text("def kernel(a):\n    äöü = 1; ct.load(a, (0,), (8, 16))\n")
    namespace = {"ct": ct}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    with pytest.raises(ct.TileTypeError) as caught:
        ct.launch(None, (1,), ct.kernel(namespace["kernel"]), (A,))
    assert caught.value.loc.column == path.read_text().splitlines()[1].index("(0,)")


limit = 3


def test_a_local_variable_hides_the_global_one_before_it_is_assigned() -> None:
    @ct.kernel
    def kernel(a):
        ct.store(a, (0, 0), limit)  # noqa: F823
        limit = 4  # noqa: F841

    with pytest.raises(ct.TileSyntaxError, match="'limit' is read before it is assigned"):
        ct.launch(None, (1,), kernel, (A,))


class Colour(enum.Enum):
    RED = 1


def helper(x):
    return x


OPERANDS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda a: (lambda x: x) + 1, "a lambda and"),
    (lambda a: helper + 1, "the function helper() and"),
    (lambda a: a.slice + 1, "the method slice() and"),
    (lambda a: print + 1, "the function print() and"),
    (lambda a: ct.float32 + 1, "the dtype float32 and"),
    (lambda a: Colour.RED + 1, "the enum member Colour.RED and"),
    (lambda a: Colour + 1, "the class Colour and"),
    (lambda a: math + 1, "the module math and"),
    (lambda a: "a" + 1, "a string and"),
    (lambda a: ct.static_eval(range(lambda: 1)), "'function' object cannot be interpreted as an integer"),
    (lambda a: ct.static_eval(tuple(a)), "'run-time value' object is not iterable"),
]


@pytest.mark.parametrize(("mistake", "words"), OPERANDS, ids=[words[:20] for _, words in OPERANDS])
def test_what_is_no_operand_has_a_name(mistake: Callable[[Any], Any], words: str) -> None:
    """The words are a programmer's, not the names of our classes."""

    @ct.kernel
    def kernel(a):
        mistake(a)

    with pytest.raises(ct.TileError) as caught:
        ct.launch(None, (1,), kernel, (A,))
    assert words in caught.value.message
