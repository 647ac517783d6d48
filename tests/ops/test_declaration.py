"""The declaration of operators, and what they compute for NumPy arrays."""

from __future__ import annotations

import copy
import operator as operator_
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.operators import add, add_kernel, matmul, norm, scale, scale_in_place

import tilewright as ct
from tilewright.ops import operator
from tilewright.ops.batching import batched_dim
from tilewright.ops.dims import Dims
from tilewright.ops.operator import Number
from tilewright.runtime.arrays import abstract_array

Random = np.random.default_rng


def test_operators_of_numpy_arrays_allocate_their_outputs() -> None:
    random = Random(0)
    a, b = random.standard_normal((2, 300), dtype=np.float32)
    np.testing.assert_array_equal(add(a, b), a + b)
    np.testing.assert_array_equal(scale(a, factor=3.0), a * np.float32(3))
    np.testing.assert_array_equal(scale(a), a * np.float32(2))
    x, w = random.standard_normal((5, 40), dtype=np.float32), random.standard_normal(40, dtype=np.float32)
    out, inverse = norm(x, w, 1e-5)
    expected = 1 / np.sqrt((x * x).mean(axis=1) + np.float32(1e-5))
    np.testing.assert_allclose(inverse, expected, rtol=1e-5)
    np.testing.assert_allclose(out, x * expected[:, None] * w, rtol=1e-5)
    m, n = random.standard_normal((20, 30), dtype=np.float32), random.standard_normal((30, 17), dtype=np.float32)
    np.testing.assert_allclose(matmul(m, n), m @ n, rtol=1e-4, atol=1e-5)
    changed = a.copy()
    assert scale_in_place(changed, 4.0) is None
    np.testing.assert_array_equal(changed, a * np.float32(4))


def test_nothing_is_launched_for_empty_arrays() -> None:
    empty = np.empty(0, np.float32)
    assert add(empty, empty).shape == (0,)
    assert matmul(np.ones((0, 5), np.float32), np.ones((5, 3), np.float32)).shape == (0, 3)
    assert not matmul(np.ones((2, 0), np.float32), np.ones((0, 3), np.float32)).any()  # sums of nothing
    assert scale_in_place(empty) is None


def test_operators_are_pickled_by_their_name() -> None:
    assert pickle.loads(pickle.dumps([add, scale])) == [add, scale] and copy.deepcopy(norm) is norm
    local = ct.op("tests::local", "n, n -> n", kernel=add_kernel, grid={"n": 8}, constants=(8,))
    data = pickle.dumps(local)
    del operator._BY_NAME["tests::local"]
    with pytest.raises(LookupError, match="test_declaration declares no operator tests::local"):
        pickle.loads(data)


def test_operators_show_their_parameters() -> None:
    assert repr(scale) == "<operator tests::scale(x, factor: float = 2.0)>"
    assert scale.__doc__ == "``x`` times ``factor``."
    assert (norm.inputs, norm.outputs, norm.sharded) == (("x", "weight"), ("out", "inverse"), {"rows"})
    assert matmul.sharded == {"m", "n"} and matmul.summed == {"k"}


def test_dtypes_of_outputs() -> None:
    @ct.kernel
    def compare(a: Any, b: Any, less: Any, total: Any, T: ct.Constant[int]) -> None:
        x, y = ct.load(a, (ct.bid(0),), (T,)), ct.load(b, (ct.bid(0),), (T,))
        ct.store(less, (ct.bid(0),), x < y)
        ct.store(total, (ct.bid(0),), (x + y).astype(ct.float64))

    compared = ct.op(
        "tests::compared", "n, n -> n, n", kernel=compare, grid={"n": 16}, constants=(16,), dtypes="bool float64"
    )
    less, total = compared(np.arange(4, dtype=np.float32), np.full(4, 2, np.float32))
    assert less.dtype == np.bool_ and total.dtype == np.float64
    assert less.tolist() == [True, True, False, False] and total.tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: add(np.zeros(3), np.zeros(4)), ValueError, "tests::add: 'b' has the extent 4 along axis 0 (n), but 'a' has 3"),
        (lambda: add(np.zeros(3), np.zeros((3, 1))), ValueError, "'b' has 2 dimensions, but is declared with 1: (n)"),
        (lambda: add(np.zeros(3)), TypeError, "tests::add(a, b): missing a required argument: 'b'"),
        (lambda: scale(np.zeros(3), size=1), TypeError, "tests::scale(x, factor: float = 2.0): got an unexpected"),
        (lambda: scale(np.zeros(3), "2"), TypeError, "tests::scale: 'factor' is of type str; it must be a number of type float"),
        (lambda: add([1], [2]), TypeError, "tests::add: 'a' is of type list; pass an array of NumPy, PyTorch or JAX"),
        (lambda: add(np.zeros(3), [2]), TypeError, "'b' is of type list, but 'a' is an array of NumPy"),
        (lambda: add(np.zeros(3, complex), np.zeros(3)), TypeError, "tests::add: argument 'a' of add_kernel() has the dtype complex128"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)


@pytest.mark.parametrize("look", [lambda x: x[0], lambda x: list(x), np.asarray, lambda x: operator_.setitem(x, 0, 1)])
def test_functions_of_operators_see_no_elements(look: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match="its arrays have no elements, and no views; have the kernel look at them"):
        look(abstract_array(0, (3,), np.float32))


def test_names_are_a_string_or_several() -> None:
    assert ct.op("t::names", "n, n -> n", mutates=("x", "y"))(lambda stream, x, y, out: None).mutates == {"x", "y"}


def launching(stream: Any, x: Any, out: Any, size: int = 1) -> None: ...


@pytest.mark.parametrize(
    ("declare", "error", "text"),
    [
        (lambda: ct.op("scale", "n -> n"), ValueError, "write 'namespace::name'"),
        (lambda: ct.op("t::f", "n"), ValueError, "no '->'"),
        (lambda: ct.op("t::f", "n, -> n"), ValueError, "an empty group; write () for a scalar"),
        (lambda: ct.op("t::f", "n -> m"), ValueError, "no input has the dimension 'm'"),
        (lambda: ct.op("t::f", "n n -> n"), ValueError, "one dimension twice"),
        (lambda: ct.op("t::f", "n* -> n"), ValueError, "'n*' in the dimensions"),
        (lambda: ct.op("t::f", "n -> n", sharded="m"), ValueError, "sharded has 'm', which is none of n"),
        (lambda: ct.op("t::f", "n -> n", summed="n"), ValueError, "an output has the dimension 'n', which is summed"),
        (lambda: ct.op("t::f", "n ->", sharded="n", summed="n"), ValueError, "both sharded and summed"),
        (lambda: ct.op("t::f", "n -> n", autocast="half"), ValueError, "autocast is 'half'"),
        (lambda: ct.op("t::f", "n -> n", dtypes="float31")(launching), ValueError, "neither an input nor a dtype"),
        (lambda: ct.op("t::f", "n -> n", dtypes="x x")(launching), ValueError, "dtypes has 2 entries for 1 outputs"),
        (lambda: ct.op("t::f", "n -> n", mutates="y")(launching), ValueError, "mutates has 'y', which is none of x"),
        (lambda: ct.op("t::f", "n, n -> n, n")(launching), TypeError, "has 4 parameters, but the stream, 2 inputs and 2"),
        (lambda: ct.op("t::f", "n -> n")(lambda s, x, y, z: None), TypeError, "'z' is a number; annotate it"),
        (lambda: ct.op("t::f", "n -> n", kernel=launching, grid={"n": 1}), TypeError, "decorate it with @ct.kernel"),
        (lambda: ct.op("t::f", "n, n -> n", kernel=add_kernel), ValueError, "grid is None"),
        (lambda: ct.op("t::f", "n, n -> n", kernel=add_kernel, grid={"m": 8}, constants=(8,)), ValueError, "dimension 'm' of the grid"),
        (lambda: ct.op("t::f", "n, n -> n", kernel=add_kernel, grid={"n": 8}), TypeError, "add_kernel() has 4 parameters"),
        (lambda: ct.op("t::f", "n -> n", grid={"n": 8}), ValueError, "grid and constants describe a kernel"),
        (lambda: scale.gradient(lambda grad_y: grad_y), ValueError, "'grad_y'; it can have x, out, factor, grad_out"),
        (lambda: scale.jvp(lambda grad_out: grad_out), ValueError, "'grad_out'; it can have x, out, factor, tangent_x"),
        (lambda: scale_in_place.jvp(lambda x: x), ValueError, "changes 'x' in place; only functional"),
        (lambda: scale_in_place.gradient(lambda x: x), ValueError, "changes 'x' in place; only functional"),
    ],
)  # fmt: skip
def test_wrong_declarations(declare: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        declare()
    assert text in str(caught.value)


@pytest.mark.parametrize(("kind", "taken", "refused"), [(int, np.int64(3), 2.5), (float, 3, None), (bool, np.True_, 1)])
def test_numbers_lose_nothing(kind: type, taken: Any, refused: Any) -> None:
    """Of a float for an integer only a part would be left."""
    number = Number("n", kind)
    assert type(number.value("t::f", taken)) is kind and number.value("t::f", taken) == taken
    with pytest.raises(TypeError, match=f"t::f: 'n' is of type .*; it must be a number of type {kind.__name__}"):
        number.value("t::f", refused)


def test_extents_that_are_always_the_same() -> None:
    dims = Dims.parse("n 3 -> n 3, ()", "t::f")
    assert dims.outputs == (("n", 3), ())
    assert dims.results({"n": 5}) == [(5, 3), ()]


@pytest.mark.parametrize(
    ("dims", "sharded", "batched", "expected"),
    [
        ("m k, k n -> m n", "mn", (True, False), "m"),  # rows of the batch below each other
        ("m k, k n -> m n", "mn", (False, True), "n"),
        ("m k, k n -> m n", "mn", (True, True), None),  # no dimension is in both
        ("n, n -> n", "n", (True, False), "n"),  # the other one is repeated
        ("n ->", "n", (True,), "n"),
        ("n -> n, ()", "n", (True,), None),  # an output without it
        ("n -> n", "", (True,), None),
    ],
)
def test_batching_rule(dims: str, sharded: str, batched: tuple[bool, ...], expected: str | None) -> None:
    assert batched_dim(Dims.parse(dims, "t::f"), sharded, batched) == expected
