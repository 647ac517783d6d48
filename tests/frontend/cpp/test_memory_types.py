"""What sections 2.7, 2.8, 2.10, 2.11, 2.12 and 2.15 fix at compile time: each constraint met and unmet, and types."""

from __future__ import annotations

from itertools import product

from cpp_harness import PREAMBLE

from tilewright.frontend.cpp.module import Module

NAMES = """
constexpr size_t dyn = ct::dynamic_extent;
template <typename A, typename B> inline constexpr bool same = __is_same(A, B);
template <typename T, size_t... S> using t = ct::tile<T, ct::shape<S...>>;
template <typename I, size_t... E> using X = ct::extents<I, E...>;
using mo = ct::memory_order; using ts = ct::thread_scope; using vp = ct::view_padding;
using relaxed = ct::memory_order_relaxed_t; using acquire = ct::memory_order_acquire_t;
using release = ct::memory_order_release_t; using acq_rel = ct::memory_order_acq_rel_t;
using block = ct::thread_scope_block_t; using device = ct::thread_scope_device_t;
using I4 = t<int, 4>; using B4 = t<bool, 4>; using P4 = t<int*, 4>;
"""
TYPES = ("bool", "signed char", "short", "char16_t", "int", "unsigned", "char32_t", "long", "unsigned long long")
FLOATS = ("__half", "__nv_bfloat16", "float", "double", "__nv_tf32", "__nv_fp8_e4m3", "__nv_fp8_e5m2")
WORDS = {"int", "unsigned", "char32_t", "long", "unsigned long long"}
# atomic function -> the element types that its constraint lists
ATOMICS = {
    **dict.fromkeys(("and", "or", "xor", "max", "min"), WORDS),
    **dict.fromkeys(("add", "sub"), WORDS | {"__half", "float", "double"}),
    **dict.fromkeys(("xchg", "compare_exchange"), WORDS | {"float", "double"}),
}


def test_atomics() -> None:
    facts = []
    for name, elements in ATOMICS.items():
        facts += [
            f"template <typename... A> concept {name}_ = requires(A... a) {{ ct::atomic_{name}(a...); }};",
            f"template <typename... A> concept {name}_m = requires(A... a) {{ ct::atomic_{name}_masked(a...); }};",
            f"template <mo O, ts S, typename... A> concept {name}_x = requires(A... a) {{ ct::atomic_{name}<O, S>(a...); }};",
        ]

        def values(v: str, name: str = name) -> str:
            return f"{v}, {v}" if name == "compare_exchange" else v

        for element in TYPES + FLOATS:
            no = "" if element in elements else "!"
            facts += [
                f"{no}{name}_<{element}*, {values(element)}, relaxed>",
                f"{no}{name}_m<t<{element}*, 4>, {values(f't<{element}, 4>')}, B4, acq_rel, block>",
            ]
        facts += [f"{name}_<int*, {values('int')}, {order}>" for order in ("relaxed", "acquire", "release", "acq_rel")]
        facts += [
            f"{name}_x<mo::acq_rel, ts::block, int*, {values('short')}>",
            f"!{name}_x<mo(4), ts::block, int*, {values('int')}> && !{name}_x<mo(0), ts(3), int*, {values('int')}>",
            f"!{name}_<int*, {values('int')}> && !{name}_<int*, {values('int')}, block>",
            f"!{name}_<int*, {values('long')}, relaxed> && !{name}_<int const*, {values('int')}, relaxed>",
            f"!{name}_<P4, {values('int')}, relaxed> && !{name}_<void*, {values('int')}, relaxed>",
            f"{name}_m<P4, {values('I4')}, bool, relaxed> && {name}_m<P4, {values('I4')}, float, relaxed>",
            f"!{name}_m<P4, {values('I4')}, t<bool, 2>, relaxed> && !{name}_m<P4, {values('I4')}, relaxed>",
            f"same<decltype(ct::atomic_{name}(P4(), {values('t<short, 4>()')}, relaxed())), I4>",
            f"noexcept(ct::atomic_{name}_masked(P4(), {values('I4()')}, true, relaxed()))",
        ]
    hold(facts)


def test_loads_and_stores() -> None:
    facts = [
        f"template <typename... A> concept {short} = requires(A... a) {{ ct::{name}(a...); }};"
        for short, name in [
            ("ld", "load"),
            ("ldm", "load_masked"),
            ("ald", "atomic_load"),
            ("aldm", "atomic_load_masked"),
        ]
        + [("st", "store"), ("stm", "store_masked"), ("ast", "atomic_store"), ("astm", "atomic_store_masked")]
    ]
    facts += [
        "template <mo O, typename... A> concept ald1 = requires(A... a) { ct::atomic_load<O>(a...); };",
        "template <mo O, typename... A> concept ast1 = requires(A... a) { ct::atomic_store<O>(a...); };",
        "template <mo O, ts S, typename... A> concept aldm2 = requires(A... a) { ct::atomic_load_masked<O, S>(a...); };",
        "ct::loadable_tile<int*> && ct::loadable_tile<t<int const*, 4>> && ct::loadable_tile<int* const>",
        "!ct::loadable_tile<void*> && !ct::loadable_tile<int volatile*> && !ct::loadable_tile<int> && !ct::loadable_tile<int**>",
        "ct::storeable_tile<t<__nv_fp8_e4m3*, 4>> && !ct::storeable_tile<int const*> && !ct::storeable_tile<void*>",
        "same<ct::tile_load_t<int const* const>, int> && same<ct::tile_load_t<t<int const*>>, t<int>>",
        "ld<int*> && ld<P4> && !ld<P4, int> && !ld<void const*> && noexcept(ct::load((int*)nullptr))",
        "ldm<P4, B4> && ldm<P4, bool> && ldm<P4, t<float, 1>> && !ldm<P4, t<bool, 2>> && !ldm<int*, B4>",
        "ldm<P4, P4> && ldm<t<int*, 2, 4>, t<bool, 2, 1>> && !ldm<t<int*, 2, 4>, t<bool, 2>>",
        # A padding is only scalar convertible, which may narrow.
        "ldm<P4, B4, double> && ldm<P4, B4, t<long, 1>> && !ldm<P4, B4, t<int, 2>> && !ldm<P4, B4, int*>",
        "ldm<t<bool*, 4>, B4, int*> && ldm<t<__nv_tf32*, 4>, B4, float> && !ldm<P4, decltype(0_ic)>",
        "!ald<P4> && ald<P4, relaxed> && ald<P4, acquire, block> && !ald<P4, release> && !ald<P4, acq_rel> && !ald<P4, block>",
        "ald1<mo::acquire, P4> && !ald1<mo::release, P4> && !ald1<mo(7), P4> && !ald1<mo::acquire, P4, relaxed>",
        "ald<t<__nv_fp8_e5m2*, 4>, relaxed> && ald<t<short const*, 4>, relaxed> && ald<t<bool*, 4>, relaxed>",
        "aldm<P4, B4, acquire> && aldm<P4, B4, int, relaxed, device> && !aldm<P4, B4> && !aldm<P4, B4, int, release>",
        "aldm2<mo::acquire, ts::device, P4, B4> && aldm2<mo::acquire, ts::device, P4, B4, int, acquire, device>",
        "!aldm2<mo::acquire, ts::device, P4, B4, int, acquire, block> && !aldm2<mo::acquire, ts(3), P4, B4>",
        "st<int*, short> && st<float*, __half> && st<int*, bool> && st<int*, t<int>> && st<t<int*>, int> && st<P4, t<short, 4>>",
        "!st<int*, long> && !st<int*, unsigned> && !st<unsigned*, int> && !st<float*, int> && !st<float*, double> && !st<bool*, int>",
        "!st<P4, int> && !st<P4, t<int, 1>> && !st<int*, t<int, 1>> && !st<t<int const*, 4>, I4> && !st<t<int volatile*, 4>, I4>",
        "stm<P4, I4, t<int, 1>> && stm<P4, I4, P4> && !stm<P4, I4, t<int, 2>> && !stm<P4, int, B4> && !stm<P4, I4>",
        "!ast<P4, I4> && ast<P4, I4, release, block> && !ast<P4, I4, acquire> && !ast<P4, I4, acq_rel>",
        "ast1<mo::release, P4, I4> && !ast1<mo::acquire, P4, I4> && !ast1<mo(5), P4, I4>",
        "astm<P4, I4, bool, release, device> && !astm<P4, I4, B4> && !astm<P4, t<long, 4>, B4, release>",
        "same<decltype(ct::store(P4(), I4())), void> && same<decltype(ct::load(t<int const*, 4>())), I4>",
    ]
    hold(facts)


EXTENTS = """
template <typename I> concept ext = requires { typename X<I, 3>; };
struct own { using rank_type = int; using index_type = short; constexpr own() = default;
  static constexpr int rank() { return 2; } static constexpr int rank_dynamic() { return 1; }
  static constexpr size_t static_extent(int i) { return i ? 4 : dyn; } constexpr short extent(int i) const { return i ? 4 : 3; } };
struct without_default : own { without_default() = delete; };
struct without_copy : own { without_copy(without_copy const&) = delete; };
struct without_assignment : own { int const x = 3; };
struct void_assignment : own { void operator=(void_assignment const&); };
struct explicit_copy : own { explicit explicit_copy(explicit_copy const&); explicit_copy& operator=(explicit_copy const&); };
struct changing_copy : own { changing_copy(changing_copy&) = delete; changing_copy(changing_copy const&); changing_copy& operator=(changing_copy const&); };
struct rank_at_run_time : own { static int rank() { return 2; } };
struct dynamic_rank_at_run_time : own { static int rank_dynamic() { return 1; } };
struct another_rank : own { static constexpr size_t rank() { return 2; } };
struct member_rank : own { int rank() const { return 2; } };
struct narrow_static_extent : own { static constexpr unsigned static_extent(int) { return 3; } };
struct wide_extent : own { constexpr int extent(int) const { return 3; } };
struct changing_extent : own { constexpr short extent(int) { return 3; } };
struct extent_by_reference : own { short const& extent(int) const; };
struct float_index : own { using index_type = float; constexpr float extent(int) const { return 3; } };
struct const_rank_type : own { using rank_type = int const; };
"""


def test_extents() -> None:
    bad = ["without_copy", "without_assignment", "void_assignment", "explicit_copy", "changing_copy"]
    bad += ["rank_at_run_time", "dynamic_rank_at_run_time", "another_rank", "member_rank", "narrow_static_extent"]
    bad += [
        "wide_extent",
        "changing_extent",
        "extent_by_reference",
        "float_index",
        "const_rank_type",
        "int",
        "void",
        "int[3]",
        "X<int, 3>&",
    ]
    hold(
        [
            EXTENTS,
            *(f"!ct::extents_like<{name}>" for name in bad),
            "ct::extents_like<own> && ct::extents_like<own const> && ct::extents_like<without_default>",
            "!ct::shape_like<own> && ct::shape_like<X<int, 3> const> && !ct::shape_like<X<int, dyn>>",
            "own{} == X<long, dyn, 4>{3} && ct::extents_equal(X<int>{}, X<long>{}) && X<int, 3, 4>{} != X<unsigned, 3>{}",
            "ext<bool> && ext<char8_t> && ext<unsigned long long> && !ext<float> && !ext<void*>",
            "dyn == size_t(-1) && same<__underlying_type(decltype(ct::dynamic_extent)), size_t>",
            "same<X<short, 3>::rank_type, size_t> && same<decltype(X<short, 3>{}.extent(0)), short>",
            "sizeof(X<long, 3, dyn, dyn>) == 16 && sizeof(X<short, dyn>) == 2 && __is_empty(X<long, 3>) && __is_trivially_copyable(X<int, dyn>)",
            "noexcept(X<int, dyn>{}) && noexcept(X<int, dyn, 4>{3, 4}) && noexcept(X<int, 3>{}.extent(0))",
            "__is_constructible(X<int, 3, dyn>, int) && __is_constructible(X<int, 3, dyn>, double, int) && __is_constructible(X<int, 3>, int)",
            "!__is_constructible(X<int, 3, dyn>, int, int, int) && !__is_constructible(X<int, dyn>, void*) && !__is_constructible(X<int>, int)",
            "!__is_constructible(X<int, dyn>, X<long, dyn>) && !__is_convertible(int, X<int, dyn>) && __is_constructible(X<int, dyn>, decltype(3_ic))",
            "__is_constructible(X<int, dyn, dyn>, int, int) && !__is_constructible(X<int, dyn, dyn>, int) && __is_constructible(X<int, 3, 4>, int, int)",
            "!__is_constructible(X<int, dyn>, int, int) && __is_constructible(X<int, dyn, 3, dyn>, int, int, int) && !__is_constructible(X<int, 3>, int, int)",
            "X<int, dyn, 5, dyn>{1, 3}.extent(2) == 3 && X<int, dyn, 5, dyn>{1, 5, 3}.extent(2) == 3 && X<int, dyn>{}.extent(0) == 0",
            "X<signed char, dyn>{3.7}.extent(0) == 3 && X<long, dyn>(1ul << 40).extent(0) == 1l << 40",
            "same<decltype(ct::extents{4_ic, 7ul}), X<uint32_t, 4, dyn>> && same<decltype(ct::extents{}), ct::shape<>>",
            "ct::shape_size_v<X<int, 0, 7>> == 0 && ct::shape_size_v<X<int>> == 1 && ct::same_shape<X<int, 3, 5> const, X<long, 3, 5>>",
        ]
    )


LAYOUTS = """
using E = X<int, 2, 3>; using D = X<long, 2, dyn>;
using R = ct::layout_right_mapping<E>; using L = ct::layout_left_mapping<E>;
using RP = ct::layout_right_padded_mapping<E, 4>; using LP = ct::layout_left_padded_mapping<E, 4>;
using RD = ct::layout_right_padded_mapping<D, dyn>; using LD = ct::layout_left_padded_mapping<D, dyn>;
using S = ct::layout_strided_mapping<E, X<int, 7, 2>>; using SD = ct::layout_strided_mapping<D, X<long, dyn, 2>>;
template <typename T> concept members = requires(T const& m) {
  requires noexcept(T::is_always_strided()) && noexcept(T::static_stride(0)) && noexcept(m.stride(0)) && noexcept(m.extents());
  requires same<decltype(T::is_always_strided()), bool> && same<decltype(T::static_stride(0)), size_t>;
  requires same<decltype(m.stride(0)), typename T::index_type> && same<decltype(m.extents()), typename T::extents_type const&>; };
template <typename E, typename T> concept strided = requires { typename ct::layout_strided_mapping<E, T>; };
template <typename A, typename B> concept eq = requires(A a, B b) { a == b; a != b; };
template <typename T> concept has_static = requires(typename T::rank_type r) { ct::layout_mapping_static_stride<T>{}(r); };
struct plain { using rank_type = int; }; struct narrow : plain { static constexpr int static_stride(int) { return 1; } };
template <typename T> struct own { using extents_type = E; using rank_type = size_t; using index_type = int;
  struct layout_type { template <typename F> using mapping = T; };
  static constexpr bool is_always_strided() { return true; } static constexpr size_t static_stride(rank_type i) { return i ? 1 : dyn; }
  constexpr int stride(rank_type i) const { return i ? 1 : 3; } constexpr E const& extents() const { return e; } E e; };
struct good : own<good> {};
struct good_alias : own<good_alias> { struct layout_type { template <typename F> using mapping_type = good_alias; }; };
struct specialized : own<specialized> { void static_stride(); };
template <> struct ct::layout_mapping_static_stride<specialized> { constexpr size_t operator()(size_t) noexcept { return 1; } };
struct not_strided : own<not_strided> { static constexpr bool is_always_strided() { return false; } };
struct strided_at_run_time : own<strided_at_run_time> { static bool is_always_strided(); };
struct another_rank_type : own<another_rank_type> { using rank_type = int; };
struct another_index_type : own<another_index_type> { using index_type = long; };
struct wide_stride : own<wide_stride> { constexpr long stride(size_t) const { return 1; } };
struct extents_by_value : own<extents_by_value> { constexpr E extents() const { return {}; } };
struct const_extents : own<const_extents> { using extents_type = E const; };
struct const_policy : own<const_policy> { using layout_type = own<const_policy>::layout_type const; };
struct no_policy : own<no_policy> { struct layout_type {}; };
struct another_policy : own<another_policy> { struct layout_type { template <typename F> using mapping = good; }; };
struct narrow_static_stride : own<narrow_static_stride> { static constexpr int static_stride(size_t) { return 1; } };
struct no_copy : own<no_copy> { no_copy(no_copy const&) = delete; };
"""


def test_layouts() -> None:
    bad = [
        "not_strided",
        "strided_at_run_time",
        "another_rank_type",
        "another_index_type",
        "wide_stride",
        "extents_by_value",
    ]
    bad += [
        "const_extents",
        "const_policy",
        "no_policy",
        "another_policy",
        "narrow_static_stride",
        "no_copy",
        "E",
        "int",
    ]
    every = ("R", "L", "RP", "LP", "RD", "LD", "S", "SD")
    hold(
        [
            LAYOUTS,
            *(f"!ct::layout_mapping<{name}>" for name in bad),
            *(f"ct::layout_mapping<{name}> && !__is_constructible({name})" for name in (*every, "R const")),
            *(f"members<{name}> && __is_trivially_copyable({name})" for name in every),
            "ct::layout_mapping<good> && ct::layout_mapping<good const> && ct::layout_mapping<good_alias> && ct::layout_mapping<specialized>",
            "same<R::layout_type, ct::layout_right> && same<L::layout_type, ct::layout_left> && same<RP::layout_type, ct::layout_right_padded<4>>",
            "same<LD::layout_type, ct::layout_left_padded<dyn>> && same<S::layout_type, ct::layout_strided<X<int, 7, 2>>>",
            "same<R::extents_type, E> && same<R::index_type, int> && same<R::rank_type, size_t>",
            "same<ct::layout_right_padded<4>::mapping<E>, RP> && same<ct::layout_strided<X<int, 7, 2>>::mapping<E>, S>",
            "__is_empty(R) && __is_empty(RP) && sizeof(RD) == 16 && sizeof(ct::layout_right_padded_mapping<D, 4>) == 8 && sizeof(SD) == 16",
            "!__is_convertible(E, R) && !__is_constructible(R, X<long, 2, 3>) && __is_constructible(RP, E, double) && !__is_constructible(RP, E)",
            "!__is_constructible(RP, E, void*) && !__is_constructible(RD, D, void*) && __is_constructible(RD, D, decltype(4_ic)) && !__is_constructible(S, E)",
            "strided<E, X<int, dyn, dyn>> && !strided<E, X<long, 7, 2>> && !strided<E, X<int, 7>> && !strided<E, int>",
            "R::static_stride(0) == 3 && L::static_stride(1) == 2 && RP::static_stride(0) == 4 && LP::static_stride(1) == 4 && S::static_stride(0) == 7",
            "RD::static_stride(0) == dyn && RD::static_stride(1) == 1 && LD::static_stride(0) == 1 && SD::static_stride(0) == dyn",
            "ct::layout_left_padded_mapping<X<long, dyn, 2>, 4>::static_stride(1) == dyn && ct::layout_right_padded_mapping<X<long, 3, 3, 5>, 4>::static_stride(0) == 24",
            # Rounding up stays in range where the result is.
            "ct::layout_right_padded_mapping(X<unsigned, 1, dyn>(0xfffffffeu), 2_ic).stride(0) == 0xfffffffeu",
            "ct::layout_right_padded_mapping<X<size_t, 1, (dyn - 1)>, 2>::static_stride(0) == dyn - 1",
            "same<decltype(ct::layout_right_padded_mapping{E{}, 4_ic}), RP> && same<decltype(ct::layout_left_padded_mapping(D{}, 4.0)), LD>",
            "same<decltype(ct::layout_strided_mapping{E{}, X<int, 7, 2>{}}), S> && same<decltype(ct::layout_left_mapping{E{}}), L>",
            "eq<R, L> && eq<R, SD> && eq<good, L> && !eq<R, E> && !eq<R, int> && R{E{}} != L{E{}} && R{E{}} == good{}",
            "has_static<R> && has_static<specialized> && !has_static<plain> && !has_static<narrow>",
        ]
    )


SPANS = """
using E = X<int, 2, 3>; using D = X<long, 2, dyn>;
using T = ct::tensor_span<int, E>; using C = ct::tensor_span<int const, E>; using P = ct::tensor_span<float, D, ct::layout_right_padded<dyn>>;
using M = ct::layout_right_padded_mapping<D, dyn>;
template <typename S> concept members = requires(S const& s) {
  requires noexcept(S::rank()) && noexcept(S::rank_dynamic()) && noexcept(S::static_extent(0)) && noexcept(s.extent(0)) && noexcept(s.extents());
  requires noexcept(s.mapping()) && noexcept(s.accessor()) && noexcept(s.data_handle());
  requires same<decltype(S::rank()), typename S::rank_type> && same<decltype(S::rank_dynamic()), typename S::rank_type> && same<decltype(S::static_extent(0)), size_t>;
  requires same<decltype(s.extent(0)), typename S::index_type> && same<decltype(s.extents()), typename S::extents_type const&>;
  requires same<decltype(s.mapping()), typename S::mapping_type const&> && same<decltype(s.accessor()), typename S::accessor_type const&>;
  requires same<decltype(s.data_handle()), typename S::data_handle_type>; };
template <typename... A> concept span = requires { typename ct::tensor_span<A...>; };
template <typename... A> concept deduces = requires(A... a) { ct::tensor_span{a...}; };
template <typename E> concept accesses = requires { typename ct::default_accessor<E>; };
struct unmarked { using element_type = float; using data_handle_type = float*; using reference = float&; };
struct marked : unmarked { marked(int); }; struct by_value : unmarked { using reference = float; };
struct const_handle : unmarked { using data_handle_type = float const*; }; struct no_copy : unmarked { no_copy(no_copy const&) = delete; };
template <> inline constexpr bool ct::enable_contiguous_accessor_policy<marked> = true;
template <> inline constexpr bool ct::enable_contiguous_accessor_policy<by_value> = true;
template <> inline constexpr bool ct::enable_contiguous_accessor_policy<const_handle> = true;
template <> inline constexpr bool ct::enable_contiguous_accessor_policy<no_copy> = true;
struct own { using mapping_type = ct::layout_left_mapping<E>; using accessor_type = ct::default_accessor<int>; using extents_type = E;
  using layout_type = ct::layout_left; using index_type = int; using rank_type = size_t; using element_type = int; using value_type = int;
  using data_handle_type = int*; using reference = int&; constexpr int* data_handle() const { return p; }
  constexpr mapping_type const& mapping() const { return m; } constexpr accessor_type const& accessor() const { return a; }
  int* p; mapping_type m; accessor_type a; };
struct const_mapping : own { using mapping_type = own::mapping_type const; }; struct const_accessor : own { using accessor_type = own::accessor_type const; };
struct another_layout : own { using layout_type = ct::layout_right; }; struct another_index : own { using index_type = unsigned; };
struct another_value : own { using value_type = int const; }; struct handle_by_reference : own { int* const& data_handle() const; };
struct mapping_by_value : own { mapping_type mapping() const; }; struct accessor_by_value : own { accessor_type accessor() const; };
struct no_assignment : own { no_assignment& operator=(no_assignment const&) = delete; }; struct changing : own { int* data_handle(); };
template <typename... A> concept view = requires { typename ct::partition_view<A...>; };
using V = ct::partition_view<T, ct::shape<2, 4>>; using W = ct::partition_view<C, ct::shape<2, 4>>;
"""


def test_spans() -> None:
    bad = ["const_mapping", "const_accessor", "another_layout", "another_index", "another_value", "handle_by_reference"]
    bad += ["mapping_by_value", "accessor_by_value", "no_assignment", "changing", "E", "int*"]
    hold(
        [
            SPANS,
            *(f"!ct::tensor_span_like<{name}>" for name in bad),
            *(f"ct::tensor_span_like<{name}> && members<{name}> && __is_trivially_copyable({name})" for name in "TCP"),
            "same<T::value_type, int> && same<C::value_type, int> && same<C::element_type, int const> && same<C::reference, int const&>",
            "same<T::mapping_type, ct::layout_right_mapping<E>> && same<T::accessor_type, ct::default_accessor<int>> && same<P::data_handle_type, float*>",
            "T::rank() == 2 && P::rank_dynamic() == 1 && P::static_extent(1) == dyn && sizeof(T) == 8 && sizeof(P) == 24",
            "span<int, E, ct::layout_strided<E>> && !span<int, E, ct::layout_strided<D>> && !span<int, E, int> && !span<int, int>",
            "span<int*, E> && !span<int**, E> && !span<void, E> && !span<int, E, ct::layout_right, ct::default_accessor<int const>>",
            "__is_constructible(T, int*, E, ct::layout_right, ct::default_accessor<int>) && __is_constructible(T, int*, T::mapping_type)",
            "!__is_constructible(T, int*) && !__is_constructible(T, int*, E, ct::layout_left) && !__is_constructible(T, int const*, E)",
            "!__is_constructible(P, float*, D) && __is_constructible(P, float*, M) && !__is_constructible(C, T) && !__is_constructible(T, int*, D)",
            "same<decltype(ct::tensor_span{(float*)nullptr, M{D{4}, 4}}), P> && same<decltype(ct::tensor_span((int const*)nullptr, E{})), C>",
            "deduces<int[4], E> && !deduces<int*, int> && !deduces<void*, E> && !deduces<int*, E, ct::layout_right_padded<4>> && !deduces<int*>",
            "ct::storeable_tensor_span<T> && !ct::storeable_tensor_span<C> && !ct::storeable_tensor_span<ct::tensor_span<int volatile, E>>",
            "ct::accessor_policy<ct::default_accessor<int const>> && !ct::accessor_policy<ct::default_accessor<int> const> && !ct::accessor_policy<int>",
            "ct::accessor_policy<marked> && !ct::accessor_policy<unmarked> && !ct::accessor_policy<by_value> && !ct::accessor_policy<const_handle> && !ct::accessor_policy<no_copy>",
            "accesses<int const> && accesses<int*> && !accesses<void> && !accesses<int**> && span<float, E, ct::layout_left, marked>",
            "view<T, ct::shape<2, 4>> && view<own, ct::shape<2, 4>> && !view<T, ct::shape<2>> && !view<T, ct::shape<2, 3>> && !view<T, X<int, 2, 4>> && !view<E, ct::shape<2, 4>>",
            "same<V::view_tile_type, t<int, 2, 4>> && same<W::view_tile_type, t<int, 2, 4>> && same<W::element_type, int const> && same<W::value_type, int>",
            "same<decltype(ct::partition_view{T{nullptr, E{}}, ct::shape{2_ic, 4_ic}}), V> && same<decltype(((V const*)nullptr)->span()), T const&>",
            "noexcept(((V const*)nullptr)->load(0, 0)) && noexcept(((V const*)nullptr)->store_masked(t<int, 2, 4>{}, 0, 0)) && sizeof(V) == sizeof(T)",
        ]
    )


VIEWS = """
template <typename E> using view = ct::partition_view<ct::tensor_span<E, X<int, dyn, 3>>, ct::shape<2, 4>>;
using V = view<int>; using I = t<int, 2, 4>; using zero = ct::view_padding_zero_t;
using V0 = ct::partition_view<ct::tensor_span<int, X<int>>, ct::shape<>>;
struct converts { operator int() const; }; enum class scoped { a };
"""
INDICES_MET = ["int, int", "unsigned, long", "float, __half", "bool, bool", "__nv_tf32, char32_t", "int const, short"]
INDICES_UNMET = [
    "int",
    "",
    "int, int, int",
    "int*, int",
    "converts, int",
    "scoped, int",
    "t<int>, int",
    "decltype(0_ic), int",
]
# spelling of a load or store -> template arguments, and arguments before the indices
LOADS = {
    "load": ("", ""),
    "load_masked": ("", ""),
    "load_masked ": ("", "zero"),
    "load_masked  ": ("vp::zero", ""),
    "atomic_load": ("mo::relaxed", ""),
    "atomic_load ": ("mo::acquire, ts::block", ""),
    "atomic_load  ": ("", "acquire"),
    "atomic_load   ": ("", "relaxed, device"),
    "atomic_load_masked": ("vp::zero, mo::relaxed", ""),
    "atomic_load_masked ": ("vp::zero, mo::acquire, ts::block", "zero"),
    "atomic_load_masked  ": ("", "zero, relaxed"),
    "atomic_load_masked   ": ("", "zero, acquire, device"),
}
STORES = {
    "store": ("", "I"),
    "store_masked": ("", "I"),
    **{
        f"{name}{' ' * k}": arguments
        for name in ("atomic_store", "atomic_store_masked")
        for k, arguments in enumerate(
            [("mo::relaxed", "I"), ("mo::release, ts::block", "I"), ("", "I, release"), ("", "I, relaxed, device")]
        )
    },
}


def test_views() -> None:
    facts = [VIEWS]
    for k, (name, (template, first)) in enumerate({**LOADS, **STORES}.items()):
        call = f"v.{f'template {name.strip()}<{template}>' if template else name.strip()}(a...)"
        facts.append(f"template <typename V, typename... A> concept c{k} = requires(V const v, A... a) {{ {call}; }};")
        for no, lists in (("", INDICES_MET), ("!", INDICES_UNMET)):
            facts += [f"{no}c{k}<{', '.join(x for x in ('V', first, indices) if x)}>" for indices in lists]
        facts.append(
            f"{'!' if name in STORES else ''}c{k}<{', '.join(x for x in ('view<int const>', first) if x)}, int, int>"
        )
    facts += [
        "template <typename V, vp P, typename... A> concept pad = requires(V v, A... a) { v.template load_masked<P>(a...); };",
        "template <typename V, typename P> concept pads = requires(V v, P p) { v.load_masked(p, 0, 0); v.atomic_load_masked(p, relaxed{}, 0, 0); };",
    ]
    paddings = ("zero", "negative_zero", "positive_inf", "negative_inf", "nan")
    for element, padding in product((*TYPES, *FLOATS, "float const", "int*"), paddings):
        no = (
            "" if padding == "zero" or element in ("__half", "__nv_bfloat16", "float", "double", "float const") else "!"
        )
        facts.append(f"{no}pad<view<{element}>, vp::{padding}, int, int>")
        facts.append(f"{no}pads<view<{element}>, ct::view_padding_{padding}_t>")
    facts += [
        "!pad<view<float>, vp(5), int, int> && !pad<view<float>, vp(-1), int, int> && !pad<view<float>, vp::nan, zero, int, int>",
        "template <mo O, ts S> concept reads = requires(V v) { v.template atomic_load<O, S>(0, 0); };",
        "template <mo O, ts S> concept writes = requires(V v) { v.template atomic_store<O, S>(I(), 0, 0); };",
        "template <typename O> concept read = requires(V v, O o) { v.atomic_load(o, 0, 0); v.atomic_load_masked(zero(), o, 0, 0); };",
        "template <typename O> concept write = requires(V v, O o) { v.atomic_store(I(), o, 0, 0); v.atomic_store_masked(I(), o, 0, 0); };",
        "read<relaxed> && read<acquire> && !read<release> && !read<acq_rel> && !read<int> && !read<block>",
        "write<relaxed> && write<release> && !write<acquire> && !write<acq_rel> && !write<int>",
        "reads<mo::acquire, ts::system> && !reads<mo::release, ts::block> && !reads<mo::relaxed, ts(3)> && !reads<mo(4), ts::block>",
        "writes<mo::release, ts::device> && !writes<mo::acquire, ts::block> && !writes<mo::relaxed, ts(-1)>",
        "template <typename V, typename T> concept stores = requires(V v, T a) { v.store(a, 0, 0); v.store_masked(a, 0, 0); v.atomic_store(a, relaxed(), 0, 0); };",
        "stores<V, I> && stores<V, t<short, 2, 4>> && stores<V, t<bool, 2, 4>> && stores<view<float>, t<__half, 2, 4>>",
        "!stores<V, t<long, 2, 4>> && !stores<V, t<unsigned, 2, 4>> && !stores<V, int> && !stores<V, t<int, 1, 4>> && !stores<V, t<int*, 2, 4>> && !stores<view<int volatile>, I>",
        "same<decltype(V0(ct::tensor_span<int, X<int>>(nullptr, {}), {}).load()), t<int>>",
        "template <typename V, typename... T> concept puts = requires(V v, T... a) { v.store(a...); };",
        "puts<V0, int> && puts<V0, t<short>> && !puts<V0, int, int> && !puts<V0, t<int, 1>>",
    ]
    hold(facts)


ASSUMPTIONS = """
template <typename S, typename T> concept blocked = requires(T a, S s) { ct::assume_blocked(a, s); };
template <typename T, auto L, auto U> concept bounded = requires(T a) { ct::assume_bounded(a, ct::integral_constant<L>{}, ct::integral_constant<U>{}); ct::assume_bounded<L, U>(a); };
template <typename T, auto U> concept above = requires(T a) { ct::assume_bounded_above(a, ct::integral_constant<U>{}); };
template <typename T, auto L> concept below = requires(T a) { ct::assume_bounded_below(a, ct::integral_constant<L>{}); };
template <typename T, auto D> concept divisible = requires(T a) { ct::assume_divisible(a, ct::integral_constant<D>{}); };
template <typename T, auto... V> concept strided = requires(T a) { ct::assume_divisible_strided(a, ct::integral_constant<V>{}...); ct::assume_divisible_strided<V...>(a); };
template <typename T, auto D> concept aligned = requires(T a) { ct::assume_aligned(a, ct::integral_constant<D>{}); };
template <typename T, auto... V> concept aligned_strided = requires(T a) { ct::assume_aligned_strided(a, ct::integral_constant<V>{}...); };
"""


def test_assumptions() -> None:
    hold(
        [
            ASSUMPTIONS,
            "blocked<ct::shape<3>, I4> && blocked<X<long, 3, 2>, t<int*, 4, 8>> && blocked<ct::shape<>, int> && blocked<ct::shape<>, bool>",
            "!blocked<ct::shape<0>, I4> && !blocked<ct::shape<3, 1>, I4> && !blocked<ct::shape<3>, t<float, 4>> && !blocked<X<int, dyn>, I4>",
            "bounded<I4, -10, 100> && bounded<I4, 3, 3> && !bounded<I4, 4, 3> && !bounded<B4, 0, 1> && !bounded<t<float, 4>, 0, 1>",
            "bounded<signed char, -128, 127> && !bounded<signed char, -129, 3> && !bounded<signed char, 0, 128>",
            "bounded<unsigned char, 0, 127> && !bounded<unsigned char, 0, 128> && !bounded<unsigned char, -1, 3> && bounded<unsigned, 0u, 5l>",
            "above<int, 2147483647> && !above<int, 2147483648l> && above<unsigned, 0> && !above<unsigned, -1> && !above<bool, 1>",
            "above<unsigned long, 9223372036854775807l> && !above<unsigned long, 9223372036854775808ul>",
            "below<int, -5> && !below<unsigned, 0> && !below<bool, 0> && below<signed char, -128> && !below<signed char, 128>",
            "divisible<I4, 16> && divisible<int, 1> && divisible<bool, 2> && !divisible<I4, 0> && !divisible<I4, 3> && !divisible<I4, -4> && !divisible<int*, 4> && !divisible<float, 4>",
            "strided<I4, 16, 3, 0> && !strided<I4, 16, 0, 0> && !strided<I4, 16, -1, 0> && !strided<I4, 3, 3, 0> && !strided<I4, 16, 3, 1> && !strided<I4, 16, 3, -1>",
            "!strided<t<unsigned, 4>, 16, 3, 0> && !strided<P4, 16, 3, 0> && !strided<int, 16, 3, 0> && !strided<B4, 16, 3, 0>",
            "aligned<P4, 16> && aligned<void*, 4> && !aligned<P4, 0> && !aligned<P4, 12> && !aligned<I4, 16>",
            "aligned_strided<P4, 8, 3, 0> && !aligned_strided<P4, 8, 3, 1> && !aligned_strided<P4, 8, 0, 0> && !aligned_strided<P4, 7, 3, 0> && !aligned_strided<I4, 8, 3, 0>",
            "same<decltype(ct::assume_bounded(I4(), 0_ic, 1_ic)), I4> && same<decltype(ct::assume_aligned((int const*)nullptr, 4_ic)), int const*> && noexcept(ct::assume_divisible(3, 2_ic))",
        ]
    )


def hold(facts: list[str]) -> None:
    """Compile the declarations and, as static assertions, the expressions among ``facts``."""
    declarations = ("template", "using", "struct", "\n")
    lines = [f if f.startswith(declarations) else f"static_assert({f});" for f in facts]
    text = "\n".join([PREAMBLE, NAMES, *lines, "__tile_global__ void k() {}"])
    assert Module(text, "facts.cu").kernel("k").parameters == ()
