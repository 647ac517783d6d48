"""Section 2.9: tiles as objects, which are sized, copied, swapped, kept in structs and arrays, and passed about."""

from __future__ import annotations

import numpy as np
from cpp_harness import C_TYPES, PREAMBLE, launch, run

from tilewright.backends.registry import get_backend
from tilewright.frontend.cpp.module import Module

CODE = """
template <typename E, size_t... S> using t = ct::tile<E, ct::shape<S...>>;
template <typename E, size_t... S> consteval bool is_object() {
    using T = t<E, S...>;
    return sizeof(T) == sizeof(E) * (S * ... * 1) && alignof(T) == alignof(E) && __is_trivially_copyable(T) &&
           __is_final(T) && __is_nothrow_constructible(T) && __is_nothrow_constructible(T, T&&) &&
           __is_nothrow_assignable(T&, T&&) && __is_standard_layout(T) && __is_literal_type(T) &&
           __is_same(typename T::element_type, E) && __is_same(typename T::shape_type, ct::shape<S...>) &&
           __is_same(typename T::rank_type, size_t);
}
template <typename E> consteval bool are_objects() {
    return is_object<E>() && is_object<E, 1>() && is_object<E, 2>() && is_object<E, 1, 4>() && is_object<E, 2, 64, 1>() &&
           is_object<E, 16777216>();
}
static_assert(are_objects<bool>() && are_objects<char>() && are_objects<short>() && are_objects<int>());
static_assert(are_objects<unsigned long long>() && are_objects<float>() && are_objects<double>() && are_objects<int*>());
static_assert(are_objects<__half>() && are_objects<__nv_bfloat16>() && are_objects<__nv_fp8_e4m3>() && are_objects<__nv_tf32>());
static_assert(noexcept(t<float, 4>(t<int, 4>())) && noexcept(int(t<float>())) && noexcept(t<int>(3)));

template <typename T> struct pair { T a, b; };
template <typename T> struct sum {
    T value;
    int count;
    __tile__ void add(T const& x) { value = value + x; ++count; }
};
template <typename T> __tile__ void swap(T& a, T& b) { T c = a; a = b; b = c; }
template <typename T> __tile__ pair<T> both(T a, T b) { return {a + b, a - b}; }

template <typename E, int N> __tile__ void use(E* p, int n) {
    auto i = ct::iota<t<int, N>>();
    auto x = ct::load(p + i);
    using T = decltype(x);
    T y = x + T(ct::full<T>(E(1)));
    for (int k = 0; k < n; ++k) swap(x, y);
    T several[3];
    for (int k = 0; k < 3; ++k) several[k] = k == 1 ? x : y;
    pair<T> first = both(several[1], several[2]), second = first;
    swap(second.a, second.b);
    swap(first, second);
    sum<T> total{x, 0};
    for (int k = 0; k < n; ++k) {
        total.add(first.a);
        if (total.count > 2) break;
    }
    T later;
    if (n > 1) later = total.value;
    else later = first.b;
    auto less = [later](T w) { return w - later; };
    T result{};
    T* address = &result;
    *address = less(second.b) + y;
    auto add = [&] { result = result + x; };
    add();
    ct::store(p + i, result);
}
"""


def expected(x: np.ndarray, n: int) -> np.ndarray:
    y = x + x.dtype.type(1)
    if n % 2:
        x, y = y, x
    first, second = (x - y, x + y), (x + y, x - y)
    total = x
    for _ in range(min(n, 3)):
        total = total + first[0]
    return second[1] - (total if n > 1 else first[1]) + y + x


# An object holds an element, two bytes, four bytes, or a handle.
USES = [("int8", 2), ("float16", 1), ("float16", 2), ("int8", 4), ("float32", 1), ("float32", 2), ("int64", 64)]


def test_tiles_are_values() -> None:
    names = [f"{dtype}_{size}" for dtype, size in USES]
    kernels = [
        f"__tile_global__ void {dtype}_{size}({C_TYPES[dtype]}* p, int k) {{ use<{C_TYPES[dtype]}, {size}>(p, k); }}"
        for dtype, size in USES
    ]
    module = Module(PREAMBLE + CODE + "\n".join(kernels))
    for kernel, (dtype, size) in zip(module.load(*names), USES):
        for n in (0, 1, 5):
            got = (np.arange(size) % 5).astype(dtype)
            want = expected(got.copy(), n)
            launch(get_backend("reference"), kernel, (1,), got, n)
            np.testing.assert_array_equal(got, want)


def test_small_tiles_lie_in_arrays() -> None:
    """Tiles of at most four bytes are in memory themselves, so that they can be looked up at run time."""
    source = """
        template <typename E, size_t... S> using t = ct::tile<E, ct::shape<S...>>;
        __tile_global__ void k(float* p, bool* q, int n) {
            t<float> numbers[8];
            t<bool, 2> flags[8];
            auto two = ct::iota<t<int, 2>>();
            for (int i = 0; i < n; ++i) {
                numbers[i] = p[i];
                flags[i] = two * n == i;
            }
            for (int i = 0; i < n; ++i) {
                p[i] = numbers[n - 1 - i];
                ct::store(q + 2 * i + two, flags[n - 1 - i]);
            }
        }"""
    p, q = np.arange(6, dtype=np.float32), np.ones((6, 2), np.bool_)
    run(Module(PREAMBLE + source).kernel("k"), (1,), p, q, 6)
    np.testing.assert_array_equal(p, np.arange(6)[::-1])
    np.testing.assert_array_equal(q, np.arange(6)[::-1, None] == np.array([0, 6]))


def test_bits_of_pointers() -> None:
    source = """
        template <typename E, size_t... S> using t = ct::tile<E, ct::shape<S...>>;
        __tile_global__ void k(int* p, long* out) {
            auto i = ct::iota<t<int, 4>>();
            auto bits = ct::element_bitcast<unsigned long>(p + i);
            auto through = ct::element_bitcast<int const*>(ct::element_bitcast<double>(p + i));
            ct::store(out + i, ct::element_cast<long>(bits - ct::element_bitcast<unsigned long>(p)));
            ct::store(p + i, ct::load(through) * 10);
            ct::store(p + 4 + i, ct::load(ct::element_bitcast<int*>(bits + 4ul)));
        }"""
    p, out = np.arange(9, dtype=np.int32), np.zeros(4, np.int64)
    run(Module(PREAMBLE + source).kernel("k"), (1,), p, out)
    np.testing.assert_array_equal(p, [0, 10, 20, 30, 10, 20, 30, 4, 8])
    np.testing.assert_array_equal(out, [0, 4, 8, 12])
