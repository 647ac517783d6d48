"""Which types tile operations, math, matrix products and reductions take (sections 2.3 to 2.6), for every element type.

The rules are written down once more, in Python, and asserted of the headers in one compilation.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from cpp_harness import PREAMBLE

from tilewright.frontend.cpp.module import Module

INTEGERS = {  # bits by the document's definition, in which bool has one
    "bool": 1,
    **dict.fromkeys(["char", "signed char", "unsigned char", "char8_t"], 8),
    **dict.fromkeys(["short", "unsigned short", "char16_t"], 16),
    **dict.fromkeys(["int", "unsigned", "wchar_t", "char32_t"], 32),
    **dict.fromkeys(["long", "unsigned long", "long long", "unsigned long long"], 64),
}
SIGNED = {"char", "signed char", "short", "int", "wchar_t", "long", "long long"}
BASIC = {"__half": 16, "__nv_bfloat16": 16, "float": 32, "double": 64}
RESTRICTED = {"__nv_fp8_e4m3": 8, "__nv_fp8_e5m2": 8, "__nv_tf32": 32}
NUMBERS = {**INTEGERS, **BASIC, **RESTRICTED}
POINTERS = {"int*": 64, "void*": 64, "float const*": 64}
SCALARS = {**NUMBERS, **POINTERS}
STRANGERS = ("user", "kind", "__int128", "int**", "void (*)()", "long double", "ct::shape<4>", "decltype(nullptr)")

CONCEPTS = """
struct user {}; enum kind : int {};
template <typename T, size_t... S> using t = ct::tile<T, ct::shape<S...>>;
template <int N> using rounding = ct::rounding_mode_constant<ct::rounding_mode(N)>;
template <int N> using subnormals = ct::subnormals_rounding_mode_constant<ct::subnormals_rounding_mode(N)>;
template <int N> using nans = ct::nan_propagation_mode_constant<ct::nan_propagation_mode(N)>;
template <typename T> concept full_ok = requires(ct::tile_element_t<T> x) { ct::full<T>(x); };
template <typename T> concept iota_ok = requires { ct::iota<T>(); };
template <typename T> concept ones_ok = requires { ct::ones<T>(); };
template <typename T> concept zeros_ok = requires { ct::zeros<T>(); };
template <typename T, typename S> concept reshape_ok = requires(T x, S s) { ct::reshape(x, s); ct::reshape<S>(x); };
template <typename T, typename S> concept broadcast_ok = requires(T x, S s) { ct::broadcast(x, s); ct::broadcast<S>(x); };
template <typename T, typename S, typename... I> concept extract_ok = requires(T x, S s, I... i) { ct::extract(x, s, i...); };
template <typename T, typename M> concept permute_ok = requires(T x, M m) { ct::permute(x, m); typename ct::tile_permutation_t<T, M>; };
template <typename T> concept transpose_ok = requires(T x) { ct::transpose(x); typename ct::tile_transpose_t<T>; };
template <typename T, typename U, auto D> concept cat_ok = requires(T x, U y) { ct::cat(x, y, ct::integral_constant<D>{}); ct::cat<D>(x, y); };
template <typename C, typename T, typename U> concept select_ok = requires(C c, T x, U y) { ct::select(c, x, y); };
template <typename E, typename T> concept cast_ok = requires(T x) { ct::element_cast<E>(x); };
template <typename E, typename T> concept bitcast_ok = requires(T x) { ct::element_bitcast<E>(x); };
template <typename T, int M, int S> concept sqrt_mode_ok = requires(T x) { ct::sqrt(x, rounding<M>{}, subnormals<S>{}); ct::sqrt<ct::rounding_mode(M), ct::subnormals_rounding_mode(S)>(x); };
template <typename T, int S> concept exp2_mode_ok = requires(T x) { ct::exp2(x, subnormals<S>{}); ct::exp2<ct::subnormals_rounding_mode(S)>(x); };
template <typename T, int S> concept rsqrt_mode_ok = requires(T x) { ct::rsqrt(x, subnormals<S>{}); ct::rsqrt<ct::subnormals_rounding_mode(S)>(x); };
template <typename T, typename U> concept pow_ok = requires(T x, U y) { ct::pow(x, y); };
template <typename T, typename U> concept atan2_ok = requires(T x, U y) { ct::atan2(x, y); };
template <typename L, typename R, typename A> concept mma_ok = ct::mma_compatible<L, R, A> && requires(L l, R r, A a) { ct::mma(l, r, a); };
template <typename L, typename R> concept matmul_ok = ct::matmul_compatible<L, R> && requires(L l, R r) { ct::matmul(l, r); typename ct::matmul_result_t<L, R>; };
"""
UNARY = [
    "isinf",
    "isnan",
    "ceil",
    "floor",
    "exp2",
    "exp",
    "log2",
    "log",
    "sqrt",
    "rsqrt",
    "cosh",
    "cos",
    "sinh",
    "sin",
    "tanh",
    "tan",
]
ROUNDED = ["sum", "prod", "partial_sum", "partial_prod"]
EXTREMA = ["reduce_max", "reduce_min"]
LOGICAL = ["all_of", "any_of"]
BITWISE = ["reduce_bitand", "reduce_bitor", "reduce_bitxor"]

Shape = tuple[int, ...]
Case = tuple[str, bool]


def tile(element: str, shape: Shape) -> str:
    return f"t<{', '.join([element, *map(str, shape)])}>"


def shape_of(shape: Shape) -> str:
    return f"ct::shape<{', '.join(map(str, shape))}>"


def creation() -> Iterator[Case]:
    for element, form in product([*SCALARS, *STRANGERS], ["{}", "t<{}, 2>"]):
        if form != "{}" and element in STRANGERS:
            continue
        kind = form.format(element)
        yield f"full_ok<{kind}>", element in SCALARS
        yield f"transpose_ok<{kind}>", element in SCALARS
        yield f"ones_ok<{kind}> && zeros_ok<{kind}>", element in NUMBERS
        yield f"ones_ok<{kind}> || zeros_ok<{kind}>", element in NUMBERS
        yield f"iota_ok<{kind}>", element in INTEGERS
        for name in UNARY:
            yield f"{name}_ok<{kind}>", element in BASIC
    for element, size in product(INTEGERS, [1, 2, 4, 128, 256, 512, 65536, 131072]):
        largest = 2 ** (INTEGERS[element] - (element in SIGNED)) - 1
        yield f"iota_ok<t<{element}, {size}>>", size - 1 <= largest


def shapes() -> Iterator[Case]:
    tiles: list[Shape] = [(), (1,), (4,), (8,), (1, 4), (4, 1), (2, 4), (2, 1, 8), (2, 2, 2), (4, 2, 16, 8)]
    targets: list[Shape] = [*tiles, (3,), (0,), (16, 8), (2**24, 2)]
    good = [all(d and d & (d - 1) == 0 for d in target) and prod(target) <= 2**24 for target in targets]
    for source, (target, compatible) in product(tiles, zip(targets, good)):
        x, s, offset = tile("int", source), shape_of(target), len(target) - len(source)
        spread = offset >= 0 and all(d in (1, target[i + offset]) for i, d in enumerate(source))
        divides = compatible and offset == 0 and all(d % target[i] == 0 for i, d in enumerate(source))
        yield f"reshape_ok<{x}, {s}>", compatible and prod(source) == prod(target)
        yield f"broadcast_ok<{x}, {s}>", compatible and spread
        yield f"ct::extractable_from<{s}, {x}>", divides
        for count in range(4):
            yield f"extract_ok<{x}, {s}{', int' * count}>", divides and count == len(source)
    for index in [*NUMBERS, "ct::integral_constant<1>", "t<int>", "t<int, 1>", "int*", "user", "ct::rounding_mode"]:
        arithmetic = index in INTEGERS or index in BASIC
        yield f"extract_ok<t<int, 4>, ct::shape<2>, {index}>", arithmetic or "_constant" in index
    for source, indices in product(tiles, ["", "0", "1, 0", "0, 1", "2, 0, 1", "3, 0, 1, 2"]):
        rank = len(indices.split(", ")) if indices else 0
        yield f"permute_ok<{tile('int', source)}, ct::dimension_map<{indices}>>", rank == len(source)
    yield "permute_ok<t<int, 4>, int>", False
    yield "reshape_ok<t<int, 4>, ct::extents<int, 4>> || reshape_ok<t<int, 4>, int>", False
    yield "broadcast_ok<int, ct::extents<uint32_t, ct::dynamic_extent>>", False
    for left, right, axis in product(tiles, tiles, range(-1, 3)):
        x, y = tile("int", left), tile("int", right)
        fits = len(left) == len(right) and 0 <= axis < len(left)
        joined = fits and all(i == axis or a == b for i, (a, b) in enumerate(zip(left, right)))
        length = left[axis] + right[axis] if joined else 0
        yield f"cat_ok<{x}, {y}, {axis}>", joined and length & (length - 1) == 0
    for first, second in product(SCALARS, repeat=2):
        yield f"cat_ok<t<{first}, 2>, t<{second}, 2>, 0u>", first == second
    yield f"cat_ok<{tile('int', (2**24,))}, {tile('int', (2**24,))}, 0>", False
    for condition, target in product(tiles, repeat=2):
        offset = len(target) - len(condition)
        spread = offset >= 0 and all(d in (1, target[i + offset]) for i, d in enumerate(condition))
        x = tile("float", target)
        yield f"select_ok<{tile('bool', condition)}, {x}, {x}>", spread
    for element in [*SCALARS, *STRANGERS]:
        yield f"select_ok<{element}, int, int>", element in SCALARS
        yield f"select_ok<bool, {element}, {element}>", element in SCALARS
        yield f"select_ok<bool, {element}, float>", element == "float"


def casts() -> Iterator[Case]:
    for source, target in product(SCALARS, [*SCALARS, *STRANGERS, "t<int, 4>"]):
        if target in POINTERS:
            converts = source == target or (source == "int*" and target == "void*")
        else:
            converts = target == "bool" or (target in NUMBERS and source in NUMBERS)
        bits = {"bool": 8}
        same_size = target in SCALARS and bits.get(source, SCALARS[source]) == bits.get(target, SCALARS[target])
        form = source if source == "int" else f"t<{source}, 4>"
        yield f"cast_ok<{target}, {form}>", converts
        yield f"bitcast_ok<{target}, {form}>", same_size


def modes() -> Iterator[Case]:
    elements = ["bool", "int", "char", *BASIC, *RESTRICTED, "int*"]
    for element in elements:
        for mode, flush in [*product(range(-1, 7), range(2)), (0, 2)]:
            subnormals = flush == 0 or (flush == 1 and element == "float")
            precise = element in BASIC and 0 <= mode <= 3
            approximate = mode == 4 and element == "float"
            yield f"sqrt_mode_ok<t<{element}, 4>, {mode}, {flush}>", subnormals and (precise or approximate)
            for name in ROUNDED:
                yield f"{name}_mode_ok<t<{element}, 4>, {mode}, {flush}>", subnormals and precise
            nan_mode = element in BASIC and 0 <= mode <= 1
            for name in EXTREMA:
                yield f"{name}_mode_ok<t<{element}, 4>, {mode}, {flush}>", subnormals and nan_mode
        for flush in range(-1, 3):
            subnormals = element in BASIC and (flush == 0 or (flush == 1 and element == "float"))
            yield f"exp2_mode_ok<t<{element}, 4>, {flush}>", subnormals
            yield f"rsqrt_mode_ok<{element}, {flush}>", subnormals
    ranks = {"__half": 1, "__nv_bfloat16": 1, "float": 2, "double": 3}
    for x, y in product([*elements, "user"], repeat=2):
        floats = x in BASIC and y in BASIC
        common = floats and (x == y or ranks[x] != ranks[y])
        mixed = (x in BASIC and y in INTEGERS) or (x in INTEGERS and y in BASIC)
        yield f"pow_ok<{x}, {y}>", common
        yield f"atan2_ok<{x}, {y}>", common or mixed
        if "user" not in (x, y):
            yield f"pow_ok<t<{x}, 4>, {y}>", common and ranks[x] >= ranks[y]
            yield f"atan2_ok<t<{x}, 4>, {y}>", (common and ranks[x] >= ranks[y]) or (x in BASIC and y in INTEGERS)


def reductions() -> Iterator[Case]:
    for element, dimension in product(SCALARS, ["0", "1", "-1", "0u", "1l", "false", "2"]):
        inside = dimension in ("0", "0u", "false")
        x = f"t<{element}, 4>"
        for name in [*ROUNDED, *EXTREMA]:
            yield f"{name}_ok<{x}, {dimension}>", inside and (element in INTEGERS or element in BASIC)
        for name in BITWISE:
            yield f"{name}_ok<{x}, {dimension}>", inside and element in INTEGERS
        for name in LOGICAL:
            yield f"{name}_ok<{x}, {dimension}>", inside
    for name in [*ROUNDED, *EXTREMA, *BITWISE, *LOGICAL]:
        for rank, dimension in product(range(4), range(4)):
            yield f"{name}_ok<{tile('int', (2,) * rank)}, {dimension}>", dimension < rank
        yield f"{name}_ok<user, 0> || {name}_ok<int, 0>", False


def products() -> Iterator[Case]:
    results = {"__nv_bfloat16": "float", "__nv_tf32": "float", "float": "float", "double": "double"}
    results |= dict.fromkeys(["__nv_fp8_e4m3", "__nv_fp8_e5m2", "__half"], "__half")
    accumulators = {name: {result} for name, result in results.items()}
    for name in ("__nv_fp8_e4m3", "__nv_fp8_e5m2", "__half"):
        accumulators[name].add("float")
    for left, right in product([*NUMBERS, "int*"], repeat=2):
        bytes_ = INTEGERS.get(left) == INTEGERS.get(right) == 8
        factors = bytes_ or (left == right and left in results)
        sums = {"int", "wchar_t"} if bytes_ else accumulators.get(left, set())
        x, y = f"t<{left}, 4, 8>", f"t<{right}, 8, 2>"
        yield f"matmul_ok<{x}, {y}>", factors
        if factors:
            yield f"__is_same(ct::matmul_result_t<{x}, {y}>, t<{results.get(left, 'int')}, 4, 2>)", True
        for element in SCALARS if factors else ["int"]:
            yield f"mma_ok<{x}, {y}, t<{element}, 4, 2>>", factors and element in sums
    shapes: list[Shape] = [(), (4,), (4, 8), (8, 2), (4, 2), (1, 4, 8), (2, 4, 8), (4, 8, 2), (1, 8, 2), (2, 8, 2)]
    shapes += [(2, 4, 2), (1, 4, 2), (2, 2, 4, 8), (2, 2, 8, 2)]
    for a, b in product(shapes, shapes):
        rank = len(a)
        matches = rank == len(b) and rank in (2, 3) and a[-1] == b[-2]
        batches = matches and (rank == 2 or a[0] == b[0] or 1 in (a[0], b[0]))
        yield f"matmul_ok<{tile('float', a)}, {tile('float', b)}>", batches
        for c in [(), *(shape for shape in shapes if len(shape) == rank)] if matches else [(4, 2)]:
            sums = matches and len(c) == rank and c[-2:] == (a[-2], b[-1])
            stretched = sums and (rank == 2 or (a[0] in (1, c[0]) and b[0] in (1, c[0])))
            yield f"mma_ok<{tile('float', a)}, {tile('float', b)}, {tile('float', c)}>", stretched
    yield "matmul_ok<t<float, 8192, 1>, t<float, 1, 8192>>", False


RESULTS = {  # of a call with x of the type
    ("ct::full<{0}>(ct::tile_element_t<{0}>{{}})", "int"): "int",
    ("ct::full<{0}>(1)", "t<int, 4> const"): "t<int, 4> const",
    ("ct::iota<{0}>()", "t<short, 2, 4>"): "t<short, 2, 4>",
    ("ct::ones<{0}>()", "__nv_tf32"): "__nv_tf32",
    ("ct::isnan(x)", "t<float, 2> const"): "t<bool, 2>",
    ("ct::isinf(x)", "double"): "bool",
    ("ct::reshape(x, ct::shape<1, 1>{{}})", "int"): "t<int, 1, 1>",
    ("ct::reshape<ct::shape<2, 2> const>(x)", "t<void*, 4>"): "t<void*, 2, 2>",
    ("ct::permute(x, ct::dimension_map<>{{}})", "int const"): "int",
    ("ct::permute<ct::dimension_map<2, 0, 1>>(x)", "t<int, 4, 2, 8>"): "t<int, 8, 4, 2>",
    ("ct::transpose(x)", "t<int, 4, 2, 8>"): "t<int, 2, 4, 8>",
    ("ct::transpose(x)", "t<int, 4>"): "t<int, 4>",
    ("ct::cat<1>(x, x)", "t<int, 2, 4>"): "t<int, 2, 8>",
    ("ct::select(1, x, x)", "t<int*, 4> const"): "t<int*, 4>",
    ("ct::select(false, x, x)", "char"): "char",
    ("ct::extract(x, ct::shape<>{{}})", "int"): "t<int>",
    ("ct::extract(x, ct::shape<2, 1>{{}}, 0, 1u)", "t<__half, 4, 8>"): "t<__half, 2, 1>",
    ("ct::broadcast(x, ct::shape<>{{}})", "int"): "t<int>",
    ("ct::broadcast<ct::shape<2, 4>>(x)", "t<int, 2, 1>"): "t<int, 2, 4>",
    ("ct::element_cast<float const>(x)", "t<int, 4> const"): "t<float, 4>",
    ("ct::element_cast<float>(x)", "int"): "float",
    ("ct::element_bitcast<int*>(x)", "t<long, 4>"): "t<int*, 4>",
    ("ct::exp(x)", "t<__nv_bfloat16, 4>"): "t<__nv_bfloat16, 4>",
    ("ct::sqrt(x, {{}}, ct::round_subnormals_to_zero_t{{}})", "float"): "float",
    ("ct::pow(x, 2.0)", "float"): "double",
    ("ct::pow(ct::ones<t<__half, 2, 1>>(), x)", "t<float, 4>"): "t<float, 2, 4>",
    ("ct::atan2(1, x)", "t<__half, 2>"): "t<__half, 2>",
    ("ct::mma(ct::ones<t<__half, 2, 4>>(), ct::ones<t<__half, 4, 2>>(), x)", "t<float, 2, 2>"): "t<float, 2, 2>",
    ("ct::matmul(x, ct::ones<t<unsigned char, 2, 8, 4>>())", "t<char, 1, 4, 8>"): "t<int, 2, 4, 4>",
    ("ct::sum<1>(x)", "t<char, 2, 4>"): "t<char, 2, 1>",
    ("ct::prod(x, 0_ic, ct::round_toward_zero_t{{}})", "t<float, 2, 4>"): "t<float, 1, 4>",
    ("ct::reduce_max(x, ct::integral_constant<false>{{}})", "t<bool, 4> const"): "t<bool, 1>",
    ("ct::all_of(x, 1_ic)", "t<int*, 2, 4>"): "t<bool, 2, 1>",
    ("ct::reduce_bitxor<0>(x)", "t<long long, 2>"): "t<long long, 1>",
    ("ct::partial_sum(x, 1_ic, {{}})", "t<float, 2, 4> const"): "t<float, 2, 4>",
    ("ct::partial_prod<0>(x)", "t<bool, 2>"): "t<bool, 2>",
}


def declarations() -> str:
    text = [CONCEPTS]
    text += [f"template <typename T> concept {name}_ok = requires(T x) {{ ct::{name}(x); }};" for name in UNARY]
    text += [
        f"template <typename T, auto D> concept {name}_ok ="
        f" requires(T x) {{ ct::{name}(x, ct::integral_constant<D>{{}}); ct::{name}<D>(x); }};"
        for name in [*ROUNDED, *EXTREMA, *BITWISE, *LOGICAL]
    ]
    for name in [*ROUNDED, *EXTREMA]:
        wrapper, enumeration = ("nans", "nan_propagation_mode") if name in EXTREMA else ("rounding", "rounding_mode")
        text.append(
            f"template <typename T, int M, int S> concept {name}_mode_ok = requires(T x) {{"
            f" ct::{name}(x, 0_ic, {wrapper}<M>{{}}, subnormals<S>{{}});"
            f" ct::{name}<0, ct::{enumeration}(M), ct::subnormals_rounding_mode(S)>(x, {{}}, {{}}); }};"
        )
    return "\n".join(text)


def test_constraints_are_met_exactly_where_the_reference_says() -> None:
    cases = [*creation(), *shapes(), *casts(), *modes(), *reductions(), *products()]
    lines = [f"static_assert(({condition}) == {str(expected).lower()});" for condition, expected in cases]
    for number, ((call, argument), result) in enumerate(RESULTS.items()):
        actual = f"decltype({call.format(argument)})"
        lines.append(f"void call{number}({argument} x) {{ static_assert(__is_same({actual}, {result})); }}")
    text = "\n".join([declarations(), *lines])
    assert Module(f"{PREAMBLE}{text}\n__tile_global__ void k() {{}}").kernel("k").parameters == ()
    assert len(cases) > 5000
