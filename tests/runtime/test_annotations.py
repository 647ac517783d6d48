"""Scalars, constants, tuples, lists and annotated parameters."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.frontend.signature import ArraySpec, ConstantSpec, ListSpec, ScalarSpec, TupleSpec
from tilewright.ir.dtypes import dtype_from_name
from tilewright.runtime.arguments import BoundArguments, bind_argument, describe
from tilewright.runtime.arrays import RuntimeValues
from tilewright.runtime.launch import specialization
from tilewright.runtime.layout import ArgumentRef
from tilewright.runtime.rules import Rule, rule_of


def spec_of(value: Any, annotation: Any = None) -> Any:
    rule = rule_of(annotation, "argument 'x'", {})
    return bind_argument(
        rule, ArgumentRef("f", "x"), describe(rule, value, RuntimeValues()), BoundArguments([], [], [])
    )


@pytest.mark.parametrize(
    "value, dtype",
    [
        (True, "bool_"),
        (7, "int32"),
        (-(2**31), "int32"),
        (1.5, "float32"),
        (np.float64(1.5), "float32"),
        (np.int64(7), "int64"),
        (np.uint8(7), "uint8"),
        (np.float16(7), "float16"),
        (np.bool_(True), "bool_"),
    ],
)
def test_scalars(value: Any, dtype: str) -> None:
    assert spec_of(value) == ScalarSpec(dtype_from_name(dtype))


@pytest.mark.parametrize("value", [7, 2**31, -(2**63), np.int64(7), np.int32(7)])
def test_wide_scalars(value: Any) -> None:
    assert spec_of(value, ct.ScalarInt64) == ScalarSpec(ct.int64)


@pytest.mark.parametrize(
    "value, error",
    [(2**63, OverflowError), (1.5, TypeError), (True, TypeError), (np.uint64(7), TypeError), ((), TypeError)],
)
def test_what_is_no_wide_scalar(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"argument 'x' of f\(\)"):
        spec_of(value, ct.ScalarInt64)


def test_constants_that_compare_equal_are_different() -> None:
    values = [1, 1.0, True, 0, 0.0, -0.0, False, (1,), (1.0,), (True,), 2**64 - 1, np.int64(3), ct.float32]
    specs = [spec_of(v, ct.Constant) for v in values]
    assert len(set(specs)) == len(values)
    assert spec_of(np.int64(3), ct.Constant[int]) == spec_of(3, ct.Constant[int]) == ConstantSpec.of(3)
    assert spec_of(np.float32, ct.Constant) == spec_of(np.dtype("f4")) == ConstantSpec.of(ct.float32)
    assert spec_of(float("nan"), ct.Constant) == spec_of(float("nan"), ct.Constant)


@pytest.mark.parametrize(
    "value, error",
    [(None, TypeError), ("a", TypeError), (1 << 64, OverflowError), (np.zeros(3), TypeError), ([1], TypeError)],
)
def test_what_is_no_constant(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"argument 'x' of f\(\)"):
        spec_of(value, ct.Constant[int])
    with pytest.raises(error, match=r"argument 'x\[1\]' of f\(\)"):
        spec_of((1, value), ct.Constant[tuple])


def test_tuples() -> None:
    spec = spec_of((1, (2.5, np.zeros(3, np.int8))), tuple[ct.Constant[int], tuple])
    assert isinstance(spec, TupleSpec)
    assert spec.items[0] == ConstantSpec.of(1)
    assert [type(i) for i in spec.items[1].items] == [ScalarSpec, ArraySpec]
    assert spec_of((1, 2), tuple[ct.Constant[int], ...]) == TupleSpec((ConstantSpec.of(1), ConstantSpec.of(2)))
    assert spec_of(()) == TupleSpec(())
    with pytest.raises(TypeError, match="has 2 entries, but its annotation has 1"):
        spec_of((1, 2), tuple[ct.Constant[int]])
    with pytest.raises(TypeError, match="is a number, but its parameter is annotated as a tuple"):
        spec_of(1, tuple[ct.Constant[int], ...])
    nested: Any = 1
    for _ in range(65):
        nested = (nested,)
    with pytest.raises(TypeError, match="more than 64 deep"):
        spec_of(nested)


def test_array_facts() -> None:
    base = np.zeros(1024 + 16, np.float32)
    start = -base.ctypes.data // 4 % 4
    a = base[start : start + 1024].reshape(16, 64)
    assert spec_of(a) == ArraySpec(
        ct.float32, (None, None), (None, 1), base_divisible=16, shape_divisible=(16, 16), strides_divisible=(4, 1)
    )
    assert spec_of(a[:, 1:4]) == ArraySpec(
        ct.float32, (None, None), (None, 1), base_divisible=1, shape_divisible=(16, 1), strides_divisible=(4, 1)
    )
    assert spec_of(a[:1]).shape == (1, None)
    assert spec_of(a[:1]).constant_shape == ()


def test_static_dims() -> None:
    a = np.zeros((5, 7), np.float32)
    spec = spec_of(a, Annotated[Any, ct.ArrayAnnotation(static_shape_dims=(-1,))])
    assert (spec.shape, spec.constant_shape, spec.strides) == ((None, 7), (1,), (None, 1))
    spec = spec_of(a, Annotated[Any, ct.ArrayAnnotation(static_stride_dims=(0,))])
    assert (spec.strides, spec.constant_strides) == ((7, None), (0,))
    one = spec_of(a[:1], Annotated[Any, ct.ArrayAnnotation(static_shape_dims=(1,))])
    assert one.shape == (None, 7), "what is static is said, not inferred"
    wide = np.zeros((4, 20), np.float32)
    packed, spread = (
        spec_of(view, Annotated[Any, ct.ArrayAnnotation(static_stride_dims=(0,))])
        for view in (wide[:, :8], wide[:, :16:2])
    )
    assert packed == spread and packed.strides == (20, None), "where a stride is said, the others are not looked at"
    with pytest.raises(ValueError, match="static_shape_dims names axis 2, but the array has rank 2"):
        spec_of(a, Annotated[Any, ct.ArrayAnnotation(static_shape_dims=(2,))])
    with pytest.raises(ValueError, match="static_stride_dims is .1, -1., which names an axis twice"):
        spec_of(a, Annotated[Any, ct.ArrayAnnotation(static_stride_dims=(1, -1))])
    with pytest.raises(TypeError, match="is a number, but its parameter is annotated as an array"):
        spec_of(3, ct.IndexedWithInt64)


def test_int64_indices() -> None:
    huge = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), (1 << 31,), (0,))
    assert spec_of(huge, ct.IndexedWithInt64).index_dtype is ct.int64
    with pytest.raises(OverflowError, match="extent 2147483648 along axis 0"):
        spec_of(huge)


def test_lists() -> None:
    a, b = np.zeros((4, 16), np.int16), np.zeros((2, 32), np.int16)[:, ::2]
    spec = spec_of([a, b])
    assert isinstance(spec, ListSpec)
    assert (spec.element.shape, spec.element.strides) == ((None, None), (None, None))
    assert spec.element.shape_divisible == (1, 16)
    with pytest.raises(TypeError, match=r"'x\[1\]' of f\(\) is a float64 array of rank 2, but argument 'x\[0\]'"):
        spec_of([a, np.zeros((2, 2))])
    element = ct.ArrayAnnotation(static_shape_dims=(0,))
    with pytest.raises(ValueError, match=r"'x\[1\]' of f\(\) has the extent 2 along axis 0, which is static"):
        spec_of([a, b], Annotated[list, ct.ListAnnotation(element=element)])


def test_an_annotation_without_a_type_has_no_effect_and_says_so() -> None:
    with pytest.warns(UserWarning, match=r"of argument 'x' has no effect; write Annotated\[Any, ArrayAnnotation\("):
        assert rule_of(ct.ArrayAnnotation(static_shape_dims=(0,)), "argument 'x'", {}) == Rule()


def test_annotations_that_exclude_each_other() -> None:
    with pytest.raises(TypeError, match="exclude each other"):
        rule_of(Annotated[Any, ct.ConstantAnnotation(), ct.ArrayAnnotation()], "argument 'x'", {})
    assert rule_of(int, "argument 'x'", {}) == Rule()


def test_the_entries_of_a_constant_have_no_annotations_of_their_own() -> None:
    @ct.kernel
    def kernel(pair: ct.Constant[tuple[ct.ScalarInt64, int]]):
        pass

    with pytest.raises(TypeError, match="entries cannot be annotated"):
        ct.launch(None, (1,), kernel, ((1, 2),))


def test_values_reach_the_kernel(backend: str) -> None:
    @ct.kernel
    def combine(out, flag, number, factor, pair, arrays, N: ct.Constant[int], wide: ct.ScalarInt64):
        i = ct.arange(N, dtype=ct.int32)
        total = number * pair[0] + ct.gather(arrays[1], i) + ct.gather(pair[1], i)
        if flag:
            total = total * factor
        ct.scatter(out, i, total + (wide >> 32))

    out, a, b = np.zeros(4), np.arange(4.0), np.arange(8.0)[::2]
    ct.launch(None, (1,), combine, (out, True, 3, 0.5, (10, a), [b[::-1], b], 4, 5 << 32))
    np.testing.assert_array_equal(out, (30 + b + a) * 0.5 + 5)
    ct.launch(None, (1,), combine, (out, False, 3, 0.5, (10, a), [b[::-1], b[::-1]], 4, 0))
    np.testing.assert_array_equal(out, 30 + b[::-1] + a)


def test_arrays_of_a_list_can_be_written_unless_read_only(backend: str) -> None:
    @ct.kernel
    def number_all(arrays):
        for i in range(len(arrays)):
            ct.store(arrays[i], (0,), ct.full((4,), i, ct.int32))

    arrays = [np.full(4, -1, np.int32) for _ in range(3)]
    ct.launch(None, (1,), number_all, (arrays,))
    np.testing.assert_array_equal(arrays, [[0] * 4, [1] * 4, [2] * 4])
    arrays[1].flags.writeable = False
    with pytest.raises(ValueError, match=r"'arrays\[1\]' of number_all\(\) is read-only"):
        ct.launch(None, (1,), number_all, (arrays,))


def test_string_annotations_see_local_names() -> None:
    size = ct.Constant[int]

    @ct.kernel
    def f(a, n: size, m: "ct.ScalarInt64", later: "Later"):  # noqa: UP037 - strings within strings
        pass

    assert [rule for _, rule in f.parameters] == [
        Rule(),
        Rule(constant=True),
        Rule(scalar=ct.int64),
        Rule(constant=True),
    ]


Later = ct.Constant[float]


def test_unknown_names_in_annotations() -> None:
    @ct.kernel
    def f(a: Missing):  # noqa: F821
        pass

    with pytest.raises(TypeError, match=r"annotation 'Missing' of argument 'a' of f\(\) cannot be evaluated"):
        ct.launch(None, (1,), f, (1,))


def test_specialisations_are_shared() -> None:
    @ct.kernel
    def f(a, n):
        pass

    found = {id(specialization(f, (np.zeros(size), n), "reference")) for size in (32, 48, 64) for n in (1, 2)}
    assert len(found) == 1
    assert (
        specialization(f, (np.zeros(33), 1), "reference").function.params
        == specialization(f, (np.zeros(32), 1), "cpu").function.params
    )
    assert id(specialization(f, (np.zeros(33), 1), "reference")) not in found  # no longer divisible by 16
    assert id(specialization(f, (np.zeros(32), 1.0), "reference")) not in found
    assert id(specialization(f.replace_hints(), (np.zeros(32), 1), "reference")) not in found
