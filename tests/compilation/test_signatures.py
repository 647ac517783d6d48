"""Constraints, signatures and mangled names."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as ct
from tilewright.compilation import (
    ArrayConstraint,
    CallingConvention,
    ConstantConstraint,
    KernelSignature,
    ListConstraint,
    ScalarConstraint,
    TupleConstraint,
    demangle_kernel_name,
    mangle_kernel_name,
)
from tilewright.compilation.lowering import lower
from tilewright.ir.dtypes import ALL_DTYPES

V1, V2 = CallingConvention.cutile_python_v1(), CallingConvention.cutile_python_v2()


def array(ndim: int = 2, dtype: ct.DType = ct.float32, **facts: Any) -> ArrayConstraint:
    given_facts: dict[str, Any] = {
        "index_dtype": ct.int32,
        "stride_lower_bound_incl": 0,
        "alias_groups": (),
        "may_alias_internally": False,
    }
    return ArrayConstraint(dtype, ndim, **{**given_facts, **facts})


def test_one_value_stands_for_every_axis() -> None:
    found = array(3, stride_divisible_by=8, shape_constant=(None, 4, None), shape_divisible_by=(2, 4, 1))
    assert found.stride_divisible_by == (8, 8, 8) and found.stride_lower_bound_incl == (0, 0, 0)
    assert found.shape_divisible_by == (2, 1, 1), "what a constant implies is dropped"
    assert found == array(3, stride_divisible_by=(8,) * 3, shape_constant=[None, 4, None], shape_divisible_by=(2, 2, 1))
    assert hash(found) == hash(
        array(3, stride_divisible_by=8, shape_constant=(None, 4, None), shape_divisible_by=(2, 1, 1))
    )


MISTAKES: dict[str, tuple[Any, type[Exception], str]] = {
    "dtype": (lambda: ScalarConstraint("f32"), TypeError, "dtype is 'f32'; it must be a dtype"),
    "rank": (lambda: array(1.0), TypeError, "ndim is 1.0"),
    "negative rank": (lambda: array(-1), ValueError, "ndim is -1; it cannot be negative"),
    "index dtype": (
        lambda: array(index_dtype=ct.int16),
        ValueError,
        "index_dtype is int16; it must be int32, int64 or uint32",
    ),
    "length": (lambda: array(stride_constant=(1,)), ValueError, "stride_constant has 1 entries, but the array has 2"),
    "entry": (lambda: array(shape_constant=(None, "4")), TypeError, r"shape_constant\[1\] is '4'"),
    "negative extent": (lambda: array(shape_constant=(-1, 1)), ValueError, r"shape_constant\[0\] is -1"),
    "divisor": (lambda: array(shape_divisible_by=(1, 0)), ValueError, r"shape_divisible_by\[1\] is 0; a divisor"),
    "address": (lambda: array(base_addr_divisible_by=0), ValueError, "base_addr_divisible_by is 0"),
    "address type": (lambda: array(base_addr_divisible_by=None), TypeError, "base_addr_divisible_by is None"),
    "bound": (
        lambda: array(stride_constant=(None, -1)),
        ValueError,
        r"stride_constant\[1\] is -1, less than stride_low",
    ),
    "indivisible": (
        lambda: array(shape_constant=(6, 8), shape_divisible_by=4),
        ValueError,
        r"shape_constant\[0\] is 6, which 4 does not divide",
    ),
    "alias string": (lambda: array(alias_groups="ab"), TypeError, "alias_groups is 'ab'; it must be a sequence"),
    "alias number": (lambda: array(alias_groups=(1,)), TypeError, r"alias_groups is \(1,\)"),
    "list of scalars": (
        lambda: ListConstraint(ScalarConstraint(ct.int32), alias_groups=(), elements_may_alias=False),
        TypeError,
        "a list holds arrays",
    ),
    "constant": (lambda: ConstantConstraint("x"), TypeError, "value is 'x'; a constant is a bool, an int or a float"),
    "parameter": (lambda: KernelSignature(["x"], V2), TypeError, "'x' is no parameter constraint"),
    "no sequence": (lambda: KernelSignature(3, V2), TypeError, "parameters is 3; it must be a sequence"),
    "convention": (lambda: KernelSignature([], "t2"), TypeError, "calling_convention is 't2'"),
    "symbol": (lambda: KernelSignature([], V2, 3), TypeError, "symbol is 3"),
    "v1 tuple": (lambda: KernelSignature([(1, 2)], V1), ValueError, "cutile_python_v1 has no tuple parameters"),
    "v1 shape": (lambda: KernelSignature([array(shape_constant=4)], V1), ValueError, "has no static shapes"),
    "v1 shape in a list": (
        lambda: KernelSignature(
            [ListConstraint(array(shape_constant=4), alias_groups=(), elements_may_alias=False)], V1
        ),
        ValueError,
        "has no static shapes",
    ),
    "lonely group": (
        lambda: KernelSignature([array(alias_groups=("a",))], V2),
        ValueError,
        "the alias group 'a' has one member only",
    ),
    "double group": (
        lambda: KernelSignature([array(alias_groups=("a", "a"))], V2),
        ValueError,
        "the alias group 'a' occurs twice",
    ),
    "mixed group": (
        lambda: KernelSignature(
            [array(alias_groups=["a"]), ListConstraint(array(), alias_groups=("a",), elements_may_alias=True)], V2
        ),
        ValueError,
        "the alias group 'a' has an array and a list",
    ),
    "code": (lambda: CallingConvention.from_code("t9"), ValueError, "unknown calling convention 't9'"),
}


@pytest.mark.parametrize("make, error, words", MISTAKES.values(), ids=MISTAKES)
def test_mistakes(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


def test_conventions() -> None:
    assert [(c.name, c.code, c.version) for c in (V1, V2)] == [
        ("cutile_python_v1", "t1", 1),
        ("cutile_python_v2", "t2", 2),
    ]
    assert CallingConvention.from_code("t2") == V2


def test_constants_compare_with_their_type() -> None:
    values = [1, True, 1.0, 0.0, -0.0, math.nan, 2]
    for i, x in enumerate(values):
        for j, y in enumerate(values):
            same = ConstantConstraint(x) == ConstantConstraint(y)
            assert same == (i == j), (x, y)
    assert hash(ConstantConstraint(math.nan)) == hash(ConstantConstraint(math.nan))


# -- random signatures

BIG = st.integers(-(1 << 40), 1 << 40)
DIVISORS = st.sampled_from([1, 2, 3, 8, 16, 128])


@st.composite
def arrays(draw: st.DrawFn, groups: tuple[str, ...] = ()) -> ArrayConstraint:
    rank = draw(st.integers(0, 3))

    def per_axis(entry: st.SearchStrategy[Any]) -> Any:
        return draw(st.lists(entry, min_size=rank, max_size=rank))

    shapes, strides = per_axis(st.none() | st.integers(0, 1 << 40)), per_axis(st.none() | BIG)
    return array(
        rank,
        draw(st.sampled_from(ALL_DTYPES)),
        index_dtype=draw(st.sampled_from([ct.int32, ct.int64, ct.uint32])),
        stride_lower_bound_incl=[None if s is not None else b for s, b in zip(strides, per_axis(st.none() | BIG))],
        alias_groups=groups,
        may_alias_internally=draw(st.booleans()),
        stride_constant=strides,
        shape_constant=shapes,
        stride_divisible_by=[1 if s is not None else d for s, d in zip(strides, per_axis(DIVISORS))],
        shape_divisible_by=[1 if s is not None else d for s, d in zip(shapes, per_axis(DIVISORS))],
        base_addr_divisible_by=draw(DIVISORS),
    )


LEAVES = st.one_of(
    arrays(),
    st.builds(ScalarConstraint, st.sampled_from(ALL_DTYPES)),
    st.builds(ConstantConstraint, st.booleans() | BIG | st.floats()),
    st.builds(lambda e, a: ListConstraint(e, alias_groups=(), elements_may_alias=a), arrays(), st.booleans()),
)
PARAMETERS = st.recursive(LEAVES, lambda inner: st.builds(TupleConstraint, st.lists(inner, max_size=3).map(tuple)))


@given(st.lists(PARAMETERS, max_size=4), st.sampled_from(["f", "f_Kt2_Sf32", "_K", "tile_K3"]))
@settings(max_examples=150)
def test_names_spell_out_signatures(parameters: list[Any], name: str) -> None:
    signature = KernelSignature(parameters, V2).with_mangled_symbol(name)
    assert signature.symbol == mangle_kernel_name(name, signature)
    assert signature.symbol.isidentifier()
    assert demangle_kernel_name(signature.symbol) == (name, signature)


LOW = {"index_dtype": ct.int32, "stride_lower_bound_incl": 0}
# Names that kernels exported by the original have.
NAMES: dict[str, list[Any]] = {
    "A2f32_3l0_T1Si32": [array(**LOW), TupleConstraint((ScalarConstraint(ct.int32),))],
    "A2f32_1l_1_2l0_u": [array(**{**LOW, "stride_lower_bound_incl": (-1, 0), "index_dtype": ct.uint32})],
    "A2f32_2t_2": [array(**{**LOW, "stride_lower_bound_incl": None}, stride_constant=(None, -2))],
    "A2f32_1s3t64_2s64t1": [array(**LOW, shape_constant=(3, 64), stride_constant=(64, 1))],
    "A5f32_1fl0": [array(5, **LOW)],
    "A3bf16_1i4v8_2i2v16_3l0_4i16t1_p32iw": [
        array(
            3,
            ct.bfloat16,
            index_dtype=ct.int64,
            stride_lower_bound_incl=0,
            stride_constant=(None, None, 1),
            stride_divisible_by=(8, 16, 1),
            shape_divisible_by=(4, 2, 16),
            base_addr_divisible_by=32,
            may_alias_internally=True,
        )
    ],
    "Lg0iA1f32_1l0_g1_Lg0A1f32_1l0_g1": [
        ListConstraint(array(1, **LOW, alias_groups=("b",)), alias_groups=("a",), elements_may_alias=may)
        for may in (True, False)
    ],
    "T5A1f32_1l0Si32A1f32_1l0_p16I_2A1f32_1l0": [
        TupleConstraint(
            (
                array(1, **LOW),
                ScalarConstraint(ct.int32),
                array(1, **LOW, base_addr_divisible_by=16),
                -2,
                array(1, **LOW),
            )
        )
    ],
    "B1_I_3_Fbfd0000000000000_Sb8_Sf8m3fn_Stf32": [
        *(True, -3, -0.25),
        *map(ScalarConstraint, (ct.bool_, ct.float8_e4m3fn, ct.tfloat32)),
    ],
}


@pytest.mark.parametrize("text", NAMES)
def test_names_are_those_of_the_original(text: str) -> None:
    assert mangle_kernel_name("k", KernelSignature(NAMES[text], V2)) == f"k_Kt2_{text}"


@given(arrays(("group0", "group1")), arrays(("group1", "group0")))
@settings(max_examples=20)
def test_names_spell_out_alias_groups(a: ArrayConstraint, b: ArrayConstraint) -> None:
    element = array(1, alias_groups=("group0", "group1"))
    listed = ListConstraint(element, alias_groups=("group2",), elements_may_alias=True)
    signature = KernelSignature((a, b, listed, listed), V2)
    found = demangle_kernel_name(mangle_kernel_name("f", signature))[1]
    for mine, theirs in zip(signature.parameters, found.parameters):
        assert set(mine.alias_groups) == set(theirs.alias_groups)


@pytest.mark.parametrize(
    "symbol, words",
    [
        ("plain", "'plain' is no mangled kernel name"),
        ("f_Kt2_Q3", "'Q3' is no parameter"),
        ("f_Kt2_T2I1", "'' is no parameter"),
        ("f_Kt2_A1f99", "'f99' is no dtype"),
        ("f_Kt2_A1f32_2s4", "an array of rank 1 has no axis 1"),
        ("f_Kt2_A1f32_y", "'y' is no parameter"),
        ("f_Kt7", "unknown calling convention 't7'"),
    ],
)
def test_other_names_are_refused(symbol: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        demangle_kernel_name(symbol)


# -- signatures of kernels


@ct.kernel
def many(
    a,
    n,
    TILE: ct.Constant[int],
    pair: tuple[ct.Constant, ct.ScalarInt64],
    xs,
    s: Annotated[Any, ct.ArrayAnnotation(static_shape_dims=(0,))],
):
    ct.store(a, (0, 0), ct.load(xs[0], (0,), (TILE,)).reshape((1, TILE)) * n + ct.load(s, (0,), (1,)))


ARGUMENTS = (np.ones((4, 48)), 3, 16, (True, 5), [np.ones(17), np.ones(32)], np.ones(7))


def test_a_signature_from_arguments_compiles_what_a_launch_would() -> None:
    signature = KernelSignature.from_kernel_args(many, ARGUMENTS, V2)
    name, parsed = demangle_kernel_name(signature.symbol or "")
    assert (name, parsed) == ("many", signature)
    jit, _ = many.described(ARGUMENTS, None)
    export = lower(many, signature)
    assert export.symbol == signature.symbol
    assert [p.argument for p in export.parameters if p.position is not None] == [
        *("a", "a.shape[0]", "a.shape[1]", "a.strides[0]", "n", "pair[1]", "xs", "xs_length", "s")
    ]
    assert str(export.function.params) == str(many.trace(jit).params)


# extents, strides, dtype: divisors of extents and of strides, and whether elements may share memory.
FACTS: list[tuple[tuple[int, ...], tuple[int, ...], str, tuple[int, ...], tuple[int, ...], bool]] = [
    ((32, 4), (32, 1), "f4", (16, 1), (4, 1), False),
    ((32, 24), (24, 1), "f2", (16, 1), (8, 1), False),
    ((16, 48), (48, 1), "i1", (16, 16), (16, 1), False),
    ((16, 2), (2, 1), "f8", (16, 1), (2, 1), False),
    ((4, 5), (16, 3), "f4", (1, 1), (4, 1), False),
    ((4, 4), (8, 2), "f4", (1, 1), (4, 1), False),
    ((4, 4), (4, 2), "f4", (1, 1), (4, 1), True),
    ((4, 4), (0, 1), "f4", (1, 1), (4, 1), True),
    ((3, 5), (1, 3), "f4", (1, 1), (1, 1), False),
    ((3, 5), (1, 2), "f4", (1, 1), (1, 1), True),
]


@pytest.mark.parametrize(("extents", "strides", "dtype", "shape", "stride", "overlaps"), FACTS)
def test_signatures_promise_16_bytes_of_strides(
    extents: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: str,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    overlaps: bool,
) -> None:
    """Divisors are 16 elements of extents and 16 bytes of strides, or 1."""

    @ct.kernel
    def one(x):
        pass

    bytes_apart = [s * np.dtype(dtype).itemsize for s in strides]
    x = np.lib.stride_tricks.as_strided(np.zeros(4096, dtype), extents, bytes_apart)
    for argument in (x, [x, x]):
        (found,) = KernelSignature.from_kernel_args(one, (argument,), V2).parameters
        if isinstance(found, ListConstraint):
            assert found.elements_may_alias
            found = found.element
        assert isinstance(found, ArrayConstraint)
        assert (found.shape_divisible_by, found.stride_divisible_by) == (shape, stride)
        assert found.may_alias_internally is overlaps


def test_version_1_takes_what_it_can() -> None:
    @ct.kernel
    def one(x):
        ct.store(x, (0,), ct.zeros((1,), ct.float64))

    signature = KernelSignature.from_kernel_args(one, (np.ones(1),), V1, symbol="one")
    assert signature.symbol == "one" and signature.parameters[0].shape_constant == (None,)
    assert KernelSignature.from_kernel_args(one, (np.ones(1),), V2).parameters[0].shape_constant == (1,)
    with pytest.raises(ValueError, match="has no tuple parameters"):
        KernelSignature.from_kernel_args(many, ARGUMENTS, V1)


I32, S64 = ScalarConstraint(ct.int32), ScalarConstraint(ct.int64)
LISTED = ListConstraint(array(1), alias_groups=(), elements_may_alias=False)
GOOD: list[Any] = [array(), I32, 16, (True, S64), LISTED, array(1, shape_constant=7)]
CONTRADICTIONS: dict[str, tuple[int, Any, type[Exception], str]] = {
    "missing constant": (2, I32, TypeError, r"argument 'TILE' of many\(\) is annotated ct.Constant, but its con"),
    "surplus constant": (3, 3, TypeError, "argument 'pair' of many.. is not annotated ct.Constant"),
    "width": (3, (True, I32), TypeError, r"argument 'pair\[1\]' of many\(\) is annotated as int64"),
    "length": (3, (True,), TypeError, "annotated as a tuple of 2 entries, but its constraint has 1"),
    "no tuple": (3, S64, TypeError, "is annotated as a tuple, but its constraint is that of a scalar"),
    "no array": (5, (1, 2), TypeError, "is annotated as no tuple"),
    "static axis": (5, array(1), TypeError, r"makes axis 0 static; give its shape_constant\[0\]"),
    "rank": (5, array(0), TypeError, "names axis 0, but its constraint has rank 0"),
    "negative strides": (0, array(stride_lower_bound_incl=None), TypeError, "allows a negative stride along axis 0"),
    "bound": (0, array(stride_lower_bound_incl=(0, -1)), TypeError, "allows a negative stride along axis 1"),
    "unsigned": (
        0,
        array(index_dtype=ct.uint32, stride_constant=(None, -1), stride_lower_bound_incl=(0, None)),
        TypeError,
        "axis 1, which uint32 lacks",
    ),
}


def test_constraints_say_more_than_annotations() -> None:
    lower(many, KernelSignature([GOOD[0], 3, *GOOD[2:]], V2))
    wide = array(1, shape_constant=7, index_dtype=ct.int64)
    narrow, wider = (lower(many, KernelSignature([*GOOD[:5], last], V2)).parameters for last in (GOOD[5], wide))
    assert narrow != wider


@pytest.mark.parametrize("position, constraint, error, words", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_constraints_must_fit_annotations(position: int, constraint: Any, error: type[Exception], words: str) -> None:
    lower(many, KernelSignature(GOOD, V2))
    wrong = [*GOOD[:position], constraint, *GOOD[position + 1 :]]
    with pytest.raises(error, match=words):
        lower(many, KernelSignature(wrong, V2))


def test_the_number_of_parameters() -> None:
    with pytest.raises(TypeError, match=r"the signature has 1 parameters, but many\(\) has 6: a, n, TILE, pair, xs, s"):
        lower(many, KernelSignature([1], V2))
