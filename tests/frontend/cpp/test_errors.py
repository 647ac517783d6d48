"""Programs that are refused: each error is short, at the user's line, and names what is wrong."""

from __future__ import annotations

import importlib.util
import linecache

import numpy as np
import pytest
from cpp_harness import FIRST_LINE, PREAMBLE, refusals, refused, run

import tilewright as ct
from tilewright.frontend.cpp import toolchain
from tilewright.frontend.cpp.diagnostics import errors
from tilewright.frontend.cpp.module import Module
from tilewright.ir.errors import (
    TileError,
    TileRecursionError,
    TileSyntaxError,
    TileTypeError,
    TileUnsupportedFeatureError,
)

I8 = "auto x = ct::iota<ct::tile<int, ct::shape<8>>>();"
F8 = f"{I8} auto f = ct::element_cast<float>(x); auto d = ct::element_cast<double>(x);"

ILL_FORMED = {
    "narrowing scalar": (f"{I8} x + 2.5;", "arithmetic_tile_convertible"),
    "narrowing conversion": (f"{F8} ct::tile<short, ct::shape<8>> y = x;", "non_narrowing_tile_convertible_to"),
    "narrowing to scalar": (
        "int y = ct::ones<ct::tile<float, ct::shape<1>>>();",
        "non_narrowing_scalar_convertible_to",
    ),
    "large tile to scalar": (f"{I8} int y(x);", "singleton tile"),
    "dimension of 7": ("ct::tile<int, ct::shape<7>> x;", "tile_shape"),
    "too many elements": ("ct::tile<int, ct::shape<8192, 4096>> x;", "tile_shape"),
    "struct elements": ("struct s {}; ct::tile<s, ct::shape<8>> x;", "'s' does not satisfy 'scalar'"),
    "incompatible shapes": (f"{I8} x + ct::iota<ct::tile<int, ct::shape<4>>>();", "not mutual broadcast compatible"),
    "restricted arithmetic": ("__nv_fp8_e4m3 a(1), b(1); ct::add(a, b);", "arithmetic_tile"),
    "unordered formats": ("ct::add(__half(1), __nv_bfloat16(1));", "arithmetic_tile_convertible"),
    "rounding of integers": (f"{I8} ct::add(x, 1, ct::round_toward_zero_t{{}});", "precise_rounding_mode_available"),
    "imprecise sum": (f"{F8} ct::add(f, f, ct::round_full_t{{}});", "precise_rounding_mode_available"),
    "approximate double division": (f"{F8} ct::div(d, d, ct::round_approximate_t{{}});", "division_rounding_mode"),
    "full square root": (f"{F8} ct::sqrt(f, ct::round_full_t{{}});", "sqrt_rounding_mode_available"),
    "flushed double": (f"{F8} ct::exp2(d, ct::round_subnormals_to_zero_t{{}});", "subnormals_mode_available"),
    "nan mode of integers": (f"{I8} ct::max(x, x, ct::propagate_nan_t{{}});", "nan_propagation_mode_available"),
    "float remainder operator": (f"{F8} f % f;", "not an integral tile"),
    "complement of bool": ("~ct::ones<ct::tile<bool, ct::shape<2>>>();", "not one of bool"),
    "exponential of integers": (f"{I8} ct::exp(x);", "basic_floating_point_tile"),
    "iota that does not fit": ("ct::iota<ct::tile<signed char, ct::shape<256>>>();", "iota_values_representable"),
    "reshape of another size": (f"{I8} ct::reshape(x, ct::shape{{4_ic}});", "tile_size_v"),
    "no permutation": ("ct::dimension_map<0, 0> m;", "is_permutation"),
    "permutation of another rank": (f"{I8} ct::permute(x, ct::dimension_map<1, 0>{{}});", "permutes"),
    "joining scalars": ("ct::cat(1, 2, 0_ic);", "concatenation_compatible"),
    "reduction of dimension 1": (f"{I8} ct::sum(x, 1_ic);", "dimension_of"),
    "reduction of dimension -1": (f"{I8} ct::sum(x, -1_ic);", "dimension_of"),
    "mma of integers": (
        "auto m = ct::ones<ct::tile<int, ct::shape<4, 4>>>(); ct::mma(m, m, m);",
        "mma_compatible",
    ),
    "store to const": ("int const* c = p; ct::store(c, 1);", "storeable_tile"),
    "narrowing store": ("ct::store(q, 1.0);", "non_narrowing_tile_convertible_to"),
    "a misspelt name": (
        f"{I8} ct::floor_div(x, 3);",
        "'floor_div' in namespace 'cuda::tiles'; did you mean 'floordiv'?",
    ),
    "a misspelt variable": (f"{I8} int total = 1; x + totl;", "'totl'; did you mean 'total'?"),
    "a name of NumPy's": (
        f"{I8} ct::where(x > 1, x, x);",
        "no member named 'where' in namespace 'cuda::tiles'; write ct::select",
    ),
    "a reduction by a function": (f"{I8} ct::reduce(x);", "namespace 'cuda::tiles'; reductions are ct::sum, prod,"),
    "a scan by a function": (f"{I8} ct::scan(x);", "namespace 'cuda::tiles'; scans are ct::partial_sum and"),
    "softmax": (f"{F8} ct::softmax(f);", "namespace 'cuda::tiles'; compute it: auto e = ct::exp(x - ct::reduce_max("),
    "the scope of a thread": (
        "ct::atomic_add(p, n, ct::memory_order_relaxed_t{}, ct::thread_scope_thread_t{});",
        "; the narrowest scope is that of a block, ct::thread_scope_block_t",
    ),
    "a range of a tile": (f"{I8} for (auto i : x) p[0] = 1;", ": tiles have no iterators; ct::extract yields parts"),
    "a range of no step": ("for (auto i : ct::irange(0, n, 0)) p[i] = 1;", "the step of a range must be positive"),
    "a range that falls": ("for (auto i : ct::irange(8, n, -1)) p[i] = 1;", "the step of a range must be positive"),
    "an atomic operation of other languages": ("ct::atomic_exchange(p, n);", "; write ct::atomic_xchg"),
    "an atomic operation without an order": (
        "ct::atomic_add(p, n);",
        ": the memory order is missing; write one behind",
    ),
    "a reduction without a dimension": (f"{F8} ct::sum(f);", "the dimension is missing; write it, as in ct::sum<0>(x)"),
    "a type of no rounding mode": (
        f"{F8} ct::add(f, f, ct::round_ties_to_away_t{{}});",
        "no member named 'round_ties_to_away_t' in namespace 'cuda::tiles'",
    ),
    "an unsigned index": (f"{I8} ct::bid().x + x;", "would be narrowing; convert an operand"),
    "an enumerator": (f"{F8} ct::add(f, f, ct::round_toward_zero);", "; write ct::round_toward_zero_t{}"),
    "load of void": ("void* v = p; ct::load(v);", "loadable_tile"),
    "offset of void": ("void* v = p; v + ct::iota<ct::tile<int, ct::shape<4>>>();", "points_to_object"),
    "mask of another shape": (f"{I8} ct::load_masked(p, x > 1);", "broadcastable_to"),
    "releasing load": ("ct::atomic_load(p, ct::memory_order_release_t{});", "read_memory_order"),
    "atomic on short": (
        "short* s = nullptr; ct::atomic_add(s, (short)1, ct::memory_order_relaxed_t{});",
        "atomic_addend",
    ),
    "atomic or on float": ("ct::atomic_or(q, 1.0f, ct::memory_order_relaxed_t{});", "atomic_integer"),
    "view of another rank": (
        "ct::partition_view v{ct::tensor_span{p, ct::extents{8_ic}}, ct::shape{2_ic, 2_ic}};",
        "rank",
    ),
    "too few indices": (
        "ct::partition_view v{ct::tensor_span{p, ct::extents{8_ic}}, ct::shape{2_ic}}; v.load();",
        "partition_index",
    ),
    "nan padding of integers": (
        "ct::partition_view v{ct::tensor_span{p, ct::extents{n}}, ct::shape{2_ic}}; v.load_masked(ct::view_padding_nan_t{}, 0);",
        "padding_available",
    ),
    "view of const stored to": (
        "ct::partition_view v{ct::tensor_span{(int const*)p, ct::extents{8_ic}}, ct::shape{2_ic}}; v.store(v.load(0), 0);",
        "storeable_tensor_span",
    ),
    "divisor of 3": (f"{I8} (void)ct::assume_divisible(x, 3_ic);", "power_of_two"),
    "bound outside the type": ("(void)ct::assume_bounded_above((signed char)n, 128_ic);", "bound_for"),
    "extraction with too many indices": (f"{I8} (void)ct::extract(x, ct::shape{{4_ic}}, 0, 0);", "tile_indices"),
    "bit cast to another size": (f"{I8} (void)ct::element_bitcast<short>(x);", "same_object_size"),
    "bitwise reduction of floats": (f"{F8} (void)ct::reduce_bitand(f, 0_ic);", "not an integral tile"),
    "fused multiply-add of integers": (f"{I8} (void)ct::fma(x, x, x);", "not a basic floating point tile"),
    "acquiring store": ("ct::atomic_store(p, 1, ct::memory_order_acquire_t{});", "write_memory_order"),
    "extents of floats": ("ct::extents<float, 3> e;", "not integral"),
    "range of floats": ("ct::irange<float> r(0, 1);", "not integral"),
    "element type with const": ("ct::tile<int const, ct::shape<2>> t;", "cv-qualified"),
    "matrix product of unequal lengths": (
        "auto m = ct::ones<ct::tile<float, ct::shape<4, 4>>>(); ct::matmul(m, ct::ones<ct::tile<float, ct::shape<2, 4>>>());",
        "matmul_compatible",
    ),
    "hexadecimal constant": ("auto h = 0x10_ic;", "decimal"),
    "fractional constant": ("auto h = 1.5_ic;", "_ic needs a decimal integer literal"),
    "constant beyond every integer type": ("auto h = 9223372036854775808_ic;", "does not fit any integer type"),
    "selection between two types": (f"{I8} (void)ct::select(x > 1, x, 1.5f);", "of one type 'T'"),
    "dimension that is no constant": (
        f"{I8} (void)ct::sum(x, 0);",
        "needs a ct::integral_constant such as 1_ic, not 'int'",
    ),
    "tile of seventeen dimensions": (
        f"{I8} (void)ct::reshape(x, ct::shape<8, {', '.join(['1'] * 16)}>{{}});",
        "at most 16 dimensions (tile_shape)",
    ),
    "joining different elements": (
        f"{F8} (void)ct::cat(x, f, 0_ic);",
        "the element types differ (concatenation_compatible)",
    ),
    "joining different lengths": (
        "auto m = ct::ones<ct::tile<int, ct::shape<4, 2>>>(); (void)ct::cat(m, ct::transpose(m), 0_ic);",
        "the length of another dimension (concatenation_compatible)",
    ),
    "extraction of a shape that does not divide": (
        f"{I8} (void)ct::extract(x, ct::shape<16>{{}}, 0);",
        "not divisible",
    ),
    "permutation that is no map": (f"{I8} (void)ct::permute(x, 1);", "not a ct::dimension_map"),
    "mma of a small accumulator": (
        "auto m = ct::ones<ct::tile<float, ct::shape<4, 4>>>(); (void)ct::mma(m, m, ct::ones<ct::tile<float, ct::shape<4, 2>>>());",
        "shape of the accumulator",
    ),
    "mma of another accumulator": (
        "auto m = ct::ones<ct::tile<float, ct::shape<4, 4>>>(); (void)ct::mma(m, m, ct::element_cast<__half>(m));",
        "element type of the accumulator",
    ),
    "product of unequal batches": (
        "(void)ct::matmul(ct::ones<ct::tile<float, ct::shape<2, 4, 4>>>(), ct::ones<ct::tile<float, ct::shape<4, 4, 4>>>());",
        "numbers of matrices differ and neither is 1",
    ),
    "product of vectors": (f"{F8} (void)ct::matmul(f, f);", "the same rank, 2 or 3 (matmul_compatible)"),
    "root with a subnormals mode first": (
        f"{F8} (void)ct::sqrt(f, ct::preserve_subnormals_t{{}});",
        "needs a ct::rounding_mode_constant, not 'subnormals_rounding_mode_constant'",
    ),
    "joining along dimension -1": (f"{I8} (void)ct::cat(x, x, -1_ic);", "the dimension is negative"),
    "full of a class": ("struct s {}; (void)ct::full<s>(1);", "neither a scalar nor a ct::tile"),
    "value that is no rounding mode": (
        f"{F8} (void)ct::sqrt<ct::rounding_mode(9)>(f);",
        "not an enumerator of ct::rounding_mode",
    ),
    "mode without its argument": (
        f"{F8} (void)ct::add<ct::rounding_mode::round_toward_zero>(f, f);",
        "requires at least 3 arguments, but 2 were provided",
    ),
    "range with a pointer": ("ct::irange r(0, p);", "no arithmetic tile conversion"),
    "range with a fractional bound": ("ct::irange r(0, 1.5f);", "the bounds of a range must be integral"),
    "range of const integers": ("ct::irange<int const> r(0, 1);", "the type of a range must not be const"),
}


def test_ill_formed() -> None:
    for error, (name, (_, words)) in zip(refusals([body for body, _ in ILL_FORMED.values()]), ILL_FORMED.items()):
        assert words in error.message, (name, error.message)
        assert len(error.message) < 500


@pytest.mark.parametrize("scalar, header", [("__half", "fp16"), ("__nv_bfloat16", "bf16"), ("__nv_fp8_e5m2", "fp8")])
def test_the_header_of_a_scalar_is_named(scalar: str, header: str) -> None:
    text = f'#include "cuda_tile.h"\n__tile_global__ void k({scalar}* p) {{ {scalar} x(p[0]); }}\n'
    with pytest.raises(TileTypeError, match=f"incomplete type '{scalar}'; include <cuda_{header}.h>"):
        Module(text).kernel("k")


@pytest.mark.parametrize(
    ("statement", "code", "message"),
    [
        ("if (n > 3) return ct::load(p);", "", "void function 'k' should not return a value"),
        ("*p = f(n);", "__tile__ int f(int a) { if (a) return; return 2; }", "'f' should return a value"),
        ("int* a = &f(n).b; *p = *a;", "struct A { int b; ~A() {} }; __tile__ A f(int a) { return {a}; }", "address"),
        ('printf("%d", A{n});', "struct A { int b; ~A() {} };", "through variadic function"),
    ],
)
def test_what_compilers_may_give_a_meaning_is_refused(statement: str, code: str, message: str) -> None:
    """Clang only warns of these, and nvcc refuses them."""
    found = refused(statement, code=code).message
    assert message in found and "[-W" not in found


def test_narrowing_in_braces() -> None:
    assert "cannot be narrowed" in refused("int a[] = {2.5};").message


UNSUPPORTED = {
    "recursion": (
        "p[0] = twice(n);",
        "__tile__ int twice(int n) { return n < 2 ? 1 : n * twice(n - 1); }",
        "calls itself",
    ),
    "undefined function": ("p[0] = elsewhere(n);", "int elsewhere(int);", "no definition"),
    "global variable": ("p[0] = counter++;", "int counter;", "global variable 'counter'"),
    "inline assembly": ('asm volatile("nop");', "", "assembly"),
    "virtual call": (
        "p[0] = b->f();",
        "struct base { virtual int f(); }; extern base* b;",
        "global variable 'b'",
    ),
    "call through a pointer": (
        "int (*f)(int) = n ? one : two; p[0] = f(n);",
        "__tile__ int one(int x) { return x; } __tile__ int two(int x) { return 2 * x; }",
        "pointers to functions",
    ),
    "array of functions": (
        "int (*const fs[])(int) = {f, g, f}; for (int i = 0; i < n; ++i) p[i] = fs[i % 3](i);",
        "__tile__ int f(int a) { return a + 1; } __tile__ int g(int a) { return 2 * a; }",
        "the array 'fs' holds addresses",
    ),
    "jump into a loop": (
        "int i = 0; if (n) goto inside; for (; i < 9; ++i) { p[i] = 1; inside: p[i + 9] = 2; }",
        "",
        "jump into a loop",
    ),
    "function of SIMT code": (
        "p[0] = f(n);",
        "__device__ int f(int x) { return x + threadIdx.x; }",
        "declare it __tile__",
    ),
    "shared variable": ("__shared__ int s[4]; s[n] = 1; p[0] = s[0];", "", "__shared__ variable"),
    "constant variable": ("p[0] = weights[n];", "__constant__ int weights[4];", "global variable 'weights'"),
    "device variable": ("p[0] = space::x++;", "namespace space { __device__ int x; }", "global variable 'space::x'"),
    "static variable": ("static int calls; p[0] = ++calls;", "", "global variable 'calls'"),
    "thread_local variable": ("p[0] = t;", "thread_local int t = 5;", "thread_local variable"),
    "launch": ("other<<<1, 1>>>(p);", "__tile_global__ void other(int* p) {}", "launch it from the host"),
    "kernel called": (
        "other(p);",
        "__tile_global__ void other(int* p) {}",
        "the kernel other is called like a function",
    ),
    "function of C": ("q[0] = sinf(q[1]);", 'extern "C" float sinf(float);', "its own functions in cuda::tiles"),
    "malloc": ("p[0] = *(int*)malloc(4);", 'extern "C" void* malloc(size_t);', "new, delete and malloc"),
    "mutual recursion": (
        "p[0] = even(n);",
        "__tile__ bool even(int n); __tile__ bool odd(int n) { return n == 0 ? 0 : even(n - 1); } "
        "__tile__ bool even(int n) { return n == 0 ? 1 : odd(n - 1); }",
        "calls itself",
    ),
    "recursion of a template": (
        "p[0] = down(n);",
        "template <typename T> __tile__ T down(T n) { return n < 2 ? 1 : n * down<T>(n - 1); }",
        "calls itself",
    ),
    "recursion of a lambda": (
        "auto f = [&](auto self, int m) -> int { return m < 2 ? 1 : m * self(self, m - 1); }; p[0] = f(f, n);",
        "",
        "calls itself",
    ),
    "function of the host": (
        "p[0] = halved(n);",
        "__host__ int halved(int n) { return n / 2; }",
        "k() is tile code and calls halved(), which is for the host alone; declare it __tile__, or constexpr",
    ),
    "function of the host, redeclared": (
        "__tile__ int halved(int n); p[0] = halved(n);",
        "int halved(int n) { return n / 2; }",
        "k() is tile code and calls halved(), which is for the host alone; declare it __tile__, or constexpr",
    ),
    "method of the host": (
        "p[0] = box{n}.get();",
        "struct box { int n; int get() { return n; } };",
        "calls get(), which is for the host alone",
    ),
    "function of the host, called through a pointer": (
        "int (*f)(int) = halved; p[0] = f(n);",
        "int halved(int n) { return n / 2; }",
        "k() is tile code and has a pointer to halved(), which is for the host alone; declare it __tile__",
    ),
    "function of the host, in a table": (
        "p[0] = table[n](n);",
        "int halved(int n) { return n / 2; } constexpr int (*table[])(int) = {halved, halved};",
        "k() is tile code and has a pointer to halved(), which is for the host alone; declare it __tile__",
    ),
    "function of the host, named like one of tile code elsewhere": (
        "p[0] = b::half(n);",
        "namespace a { __tile__ int half(int n) { return n / 2; } } namespace b { int half(int n) { return n / 2; } }",
        "k() is tile code and calls half(), which is for the host alone; declare it __tile__, or constexpr",
    ),
    "method of the host, named like one of tile code elsewhere": (
        "p[0] = box{n}.get();",
        "struct own { int n; __tile__ int get() { return n; } }; struct box { int n; int get() { return n; } };",
        "calls get(), which is for the host alone",
    ),
    "allocation": ("p[0] = *new int(n);", "", "new, delete and malloc are not available"),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported(name: str) -> None:
    body, code, words = UNSUPPORTED[name]
    error = refused(body, code=code)
    assert words in error.message, error.message
    assert error.loc is not None
    assert error.loc.line == FIRST_LINE + 2


def test_a_function_of_the_host_that_overloads_one_of_tile_code_is_refused() -> None:
    code = "__tile__ float halved(float n) { return n / 2; }\nint halved(const int n) { return n / 2; }"
    assert (
        "k() is tile code and calls halved(), which is for the host" in refused("p[0] = halved(n);", code=code).message
    )


def test_a_definition_has_the_words_of_its_declaration() -> None:
    code = """
        namespace a {
        struct box {
            int n;
            __tile__ int get();
            __tile__ box(int m);
            template <class T> __tile__ T as(T x) const;
            __tile__ friend int of(box);
        };
        inline namespace v1 { __tile__ int deep(const int x, unsigned int y, float (*)[2] = nullptr); }
        template <class T> struct pair { T x; __tile__ T first(); };
        namespace { __tile__ int hidden(int[]); }
        }
        int a::box::get() { return n; }
        a::box::box(int m) : n(m) {}
        template <class T> T a::box::as(T x) const { return x + n; }
        namespace a { int of(box b) { return b.n; } }
        namespace c = a;
        int c::deep(int x, unsigned y, float (*)[2]) { return x + int(y); }
        using namespace a;
        template <class U> U pair<U>::first() { return x; }
        namespace a { namespace { int hidden(int* p) { return p[0]; } } }
        """
    body = "a::box b(n); p[0] = b.get() + b.as(1) + of(b) + a::deep(1, 2u) + a::pair<int>{3}.first() + a::hidden(p);"
    Module(f"{PREAMBLE}{code} __tile_global__ void k(int* p, int n) {{ {body} }}").kernel("k")


def test_recursion_is_its_own_error() -> None:
    body, code, _ = UNSUPPORTED["recursion"]
    assert isinstance(refused(body, code=code), TileRecursionError)


def test_virtual_functions_of_local_objects_are_refused() -> None:
    code = """struct base { virtual int f() { return 0; } };
        struct first : base { int f() { return 1; } }; struct second : base { int f() { return 2; } };"""
    body = "first a; second b; base* c = n ? (base*)&a : &b; p[0] = c->f();"
    assert "virtual functions are not available" in refused(body, code=code).message


# With a main, the file may use exceptions in its host code.
@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("throw 1;", ""),
        ("throw 1;", "int main() {}"),
        ("try { p[0] = 1; } catch (...) {}", ""),
        ("try { p[0] = 1; } catch (...) {}", "int main() { try {} catch (...) {} }"),
    ],
)
def test_exceptions_are_refused(statement: str, code: str) -> None:
    assert "exceptions are not available in tile code" in refused(statement, code=code).message


FIND = """template <bool early> __tile__ int find(int const* p, int n) {
    for (int i = 0; i < n; ++i) {
        auto next = [&](int k) { return k + 1; };
        if constexpr (early) { if (p[i] == 3) return i; }
        while (n > 9) do n = next(n) - 2; while (n > 12);
    }
    return n;
}"""


@pytest.mark.parametrize(
    "statement",
    [
        "for (int i = 0; i < n; ++i) if (p[i]) return;",
        "while (true) { p[0] = 1; return; }",
        "do { return; } while (n);",
    ],
)
def test_returns_in_loops_are_refused(statement: str) -> None:
    error = refused(f"{statement} p[1] = 2;")
    assert error.message.startswith("return inside of a loop is not available in tile code")
    assert error.loc is not None and error.loc.column == statement.index("return")


def test_returns_in_loops_are_refused_where_the_kernel_has_them() -> None:
    error = refused("p[0] = find<true>(p, n);", code=FIND)
    assert "return inside of a loop" in error.message and error.loc is not None
    line = FIND.split("\n")[3]
    assert (error.loc.line, error.loc.column) == (FIRST_LINE + 3, line.index("return"))
    Module(f"{PREAMBLE}{FIND} __tile_global__ void k(int* p, int n) {{ p[0] = find<false>(p, n); }}").kernel("k")


@pytest.mark.parametrize(
    ("statement", "advice"),
    [("p[0] = threadIdx.x;", "in tile code there are ct::bid()"), ("__syncthreads();", "threads of tile code are")],
)
def test_names_of_simt_code_say_so(statement: str, advice: str) -> None:
    error = refused(statement)
    assert "use of undeclared identifier" in error.message and advice in error.message


def test_functions_of_libraries_that_catch_exceptions_are_refused() -> None:
    error = refused('p[0] = std::stoi("3");', code="#include <string>\nint main() {}")
    assert "has no definition that tile code can call" in error.message or "exceptions" in error.message


def test_types_at_run_time_are_refused() -> None:
    error = refused("struct a { virtual void f() {} } x; p[0] = typeid(x).hash_code();", code="#include <typeinfo>")
    assert "typeid and dynamic_cast are not available" in error.message


def test_syntax_errors_show_the_line() -> None:
    error = refused("int a = ;")
    assert isinstance(error, TileSyntaxError)
    assert error.loc is not None
    assert (error.loc.line, error.loc.column) == (FIRST_LINE + 2, 8)
    assert str(error).startswith(f"user.cu:{FIRST_LINE + 2}:9: expected expression")


@pytest.mark.parametrize(
    ("type", "message"),
    [
        ("struct s { int a; virtual void f() {} }", "is of a class with virtual functions or bases"),
        ("struct s { struct { int& a; } in; }", "is a reference, or has one"),
        ("using s = float&", "is a reference"),
        ("struct s { void (s::*f)(); }", "is, or has, a pointer to a function of a class"),
        ("struct s { long double a; }", "is, or has, long double"),
        ("struct s { float a[2][600]; }", "makes more than 1024 numbers and pointers"),
    ],
)
def test_parameters_that_kernels_do_not_take_are_named_where_they_are(
    monkeypatch: pytest.MonkeyPatch, type: str, message: str
) -> None:
    text = f"{PREAMBLE}{type};\n__tile_global__ void k(int n,\n                       s given) {{}}\n"
    monkeypatch.setitem(linecache.cache, "user.cu", (len(text), None, text.splitlines(True), "user.cu"))
    with pytest.raises(TileTypeError, match=f"parameter 2 of the kernel k {message}") as caught:
        Module(text, "user.cu").kernel("k")
    loc = caught.value.loc
    assert loc is not None
    assert (loc.line, loc.column) == (text.count("\n"), 25)


def test_a_missing_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "find_compiler", lambda: None)
    with pytest.raises(TileUnsupportedFeatureError, match=r"pip install 'tilewright\[cpp\]'"):
        Module(f"{PREAMBLE}__tile_global__ void k() {{}}").kernel("k")


def test_a_missing_llvm_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(TileUnsupportedFeatureError, match=r"needs LLVM: pip install 'tilewright\[cpp\]'"):
        ct.cpp.compile(f"{PREAMBLE}__tile_global__ void k() {{}}")


NO_KERNELS = ("scale", "scale<float>", "scale<3, float>", "whole<float>", "several")


@pytest.mark.parametrize("expression", NO_KERNELS)
def test_names_of_no_kernel(expression: str) -> None:
    module = Module(
        f"""{PREAMBLE}template <typename T, int N> __tile_global__ void scale(T* p) {{}}
        template <ct::integral T> __tile_global__ void whole(T* p) {{}}
        __tile_global__ void several(int* p) {{}}
        __tile_global__ void several(float* p) {{}}"""
    )
    with pytest.raises(TileError, match="not the name of one kernel: write name<arguments>"):
        module.kernel(expression)


def test_another_language_standard_is_told_at_the_include() -> None:
    with pytest.raises(TileError, match=r"needs C\+\+20") as caught:
        Module('\n#include "cuda_tile.h"', "user.cu", std="c++17").kernel("k")
    assert caught.value.loc is not None
    assert (caught.value.loc.file, caught.value.loc.line) == ("user.cu", 2)


def test_templates_that_nothing_instantiates_are_not_analysed() -> None:
    templates = """
template <typename T> __tile__ T nobody(T x) { return none::exp(x) + nowhere; }
template <typename T> __tile__ T used(T x) { return none::exp(x); }
struct Some { template <typename T> __tile__ T member(T x) { return nothing_of_the_kind; } };
"""
    source = f"{PREAMBLE}{templates}__tile_global__ void k(float* p) {{ ct::store(p, 2.0f); }}\n"
    run(Module(source).kernel("k"), (1,), np.zeros(1, np.float32))
    for call, line, column, name in (
        ("used(1.0f)", 2, 53, "none"),
        ("Some().member(1.0f)", 3, 69, "nothing_of_the_kind"),
    ):
        error = refused(f"*q = {call};", code=templates)
        assert error.message == f"use of undeclared identifier '{name}'"
        assert error.loc is not None and (error.loc.line, error.loc.column) == (FIRST_LINE + line, column - 1)


def test_a_kernel_returns_void() -> None:
    for head, name in (("__tile_global__ int", "k"), ("template <typename T>\n__tile_global__ T", "k<int>")):
        with pytest.raises(TileTypeError, match="the kernel k returns a value; a kernel returns void") as caught:
            Module(f"{PREAMBLE}{head} k(int* p) {{ return 1; }}", "user.cu").kernel(name)
        assert caught.value.loc is not None and caught.value.loc.line == FIRST_LINE + head.count("\n")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("helper.h", "give the folder that it is in by -I"),
        ("curand_kernel.h", "random numbers of cuRAND are not here: compute them, or fill an array on the host"),
        ("cuda/ptx", "of libcu++ there are <cuda/std/...>, atomic, barrier, cmath, functional, latch, pipeline"),
        ("cublas_v2.h", "this library of CUDA is not here"),
    ],
)
def test_headers_that_are_missing_needs_no_compiler(name: str, advice: str) -> None:
    (found,) = errors(f"a.cu:2:10: fatal error: '{name}' file not found\n", "/headers")
    assert str(found).splitlines()[0] == f"a.cu:2:10: '{name}' file not found; {advice}"
