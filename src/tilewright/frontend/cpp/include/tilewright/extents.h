// Extents: the shapes of arrays and tiles (sections 2.1.3 and 2.8).
#pragma once
#pragma clang system_header

namespace cuda::tiles::inline v1 {

enum unspecified_extent : size_t { dynamic_extent = ~size_t(0) };

namespace detail {
template <typename T>
inline constexpr size_t extent_or_dynamic = dynamic_extent;
template <auto V>
inline constexpr size_t extent_or_dynamic<integral_constant<V>> = size_t(V);
template <typename T>
inline constexpr size_t extent_or_dynamic<T const> = extent_or_dynamic<T>;

template <typename T>
concept complete = requires { sizeof(T); };
template <typename T, typename U>
concept same = __is_same(T, U);
template <typename T>
concept unqualified = same<T, __remove_cv(T)>;
template <typename T, typename From>
concept copied_from = __is_constructible(T, From) && __is_convertible(From, T) && requires(T& to, From&& from) {
    { to = static_cast<From&&>(from) } -> same<T&>;
};
template <typename T>
concept copyable =
    complete<T> && copied_from<T, T> && copied_from<T, T&> && copied_from<T, T const> && copied_from<T, T const&>;
template <typename T, typename U>
concept same_rank = size_t(T::rank()) == size_t(U::rank());
template <typename T, typename U>
concept same_index_type = same<typename T::index_type, typename U::index_type>;
// These are told the class and not its numbers, which Clang confuses with those of other specializations.
template <typename E, size_t N>
concept number_of_dynamic_lengths = N == E::rank_dynamic() && N != 0;
template <typename E, size_t N>
concept number_of_lengths = N == E::rank() && N != E::rank_dynamic() && N != 0;
template <typename I, typename... T>
concept lengths_convertible_to = (__is_convertible(T, I) && ...);
template <typename T, T... I>
struct index_pack {};
template <size_t N>
using indices = __make_integer_seq<index_pack, size_t, N>;

template <typename T, typename Pack>
struct extent_storage;
template <typename T, size_t... J>
struct extent_storage<T, index_pack<size_t, J...>> {
    T at[sizeof...(J)];
    constexpr extent_storage() noexcept : at{(void(J), T(0))...} {}
    template <typename... V>
        requires(sizeof...(V) == sizeof...(J))
    explicit constexpr extent_storage(V... values) noexcept : at{T(values)...} {}
    constexpr T operator[](size_t i) const noexcept { return at[i]; }
};
template <typename T>
struct extent_storage<T, index_pack<size_t>> {
    constexpr T operator[](size_t) const noexcept { return 0; }
};
}  // namespace detail

template <typename T>
concept extents_like = detail::copyable<__remove_cv(T)> && requires(__remove_cv(T) const& e,
                                                                    typename T::rank_type const& dim) {
    requires integral<typename T::rank_type> && integral<typename T::index_type>;
    requires detail::same<decltype(T::rank()), typename T::rank_type>;
    requires detail::same<decltype(T::rank_dynamic()), typename T::rank_type>;
    requires detail::same<decltype(T::static_extent(dim)), size_t>;
    requires detail::same<decltype(e.extent(dim)), typename T::index_type>;
    typename integral_constant<T::rank()>;
    typename integral_constant<T::rank_dynamic()>;
};

template <integral I, size_t... Exts>
struct extents {
    static_assert(__is_same(I, __remove_cv(I)), "the index type of extents must not be cv-qualified");
    using index_type = I;
    using rank_type = size_t;

    static constexpr rank_type rank() noexcept { return sizeof...(Exts); }
    static constexpr rank_type rank_dynamic() noexcept { return (size_t(Exts == dynamic_extent) + ... + 0); }
    static constexpr size_t static_extent(rank_type i) noexcept {
        TW_REQUIRE(i < rank(), extent_index, i, rank());
        return lengths[i];
    }
    constexpr index_type extent(rank_type i) const noexcept {
        TW_REQUIRE(i < rank(), extent_index, i, rank());
        TW_REQUIRE(lengths[i] == dynamic_extent || size_t(index_type(lengths[i])) == lengths[i], extent_overflow,
                   lengths[i], sizeof(index_type) * 8);
        if (lengths[i] != dynamic_extent) return index_type(lengths[i]);
        return dynamic[slots.at[i]];
    }

    constexpr extents() noexcept = default;
    template <typename... Others>
        requires detail::number_of_dynamic_lengths<extents, sizeof...(Others)> &&
                 detail::lengths_convertible_to<I, Others...>
    explicit constexpr extents(Others... other) noexcept : dynamic(static_cast<index_type>(other)...) {}
    template <typename... Others>
        requires detail::number_of_lengths<extents, sizeof...(Others)> &&
                 detail::lengths_convertible_to<I, Others...>
    explicit constexpr extents(Others... other) noexcept
        : extents(detail::indices<rank_dynamic()>{}, static_cast<index_type>(other)...) {}

  private:
    // Tables and folds rather than loops, so that the optimizer sees constants at constant indices.
    struct table {
        size_t at[sizeof...(Exts) + 1];
    };
    static constexpr size_t lengths[] = {Exts..., 0};
    // How many dynamic extents come before dimension i, and the dimension of dynamic extent j.
    static constexpr table slots = [] {
        table t{};
        size_t n = 0;
        for (size_t i = 0; i < sizeof...(Exts); ++i) t.at[i] = lengths[i] == dynamic_extent ? n++ : n;
        return t;
    }();
    static constexpr table dimensions = [] {
        table t{};
        size_t n = 0;
        for (size_t i = 0; i < sizeof...(Exts); ++i)
            if (lengths[i] == dynamic_extent) t.at[n++] = i;
        return t;
    }();
    template <size_t J, typename First, typename... Rest>
    static constexpr index_type nth(First first, Rest... rest) noexcept {
        if constexpr (J == 0) return first;
        else return nth<J - 1>(rest...);
    }
    template <size_t... J, typename... V>
    constexpr extents(detail::index_pack<size_t, J...>, V... values) noexcept
        : dynamic(nth<dimensions.at[J]>(values...)...) {}

    [[no_unique_address]] detail::extent_storage<I, detail::indices<rank_dynamic()>> dynamic;
};
template <typename... Ts>
extents(Ts...) -> extents<uint32_t, detail::extent_or_dynamic<Ts>...>;

namespace detail {
template <typename T>
consteval bool all_static() {
    return T::rank_dynamic() == 0;
}
extern "C++" void shape_size_overflow();  // not constexpr: a constant expression that gets here is refused
template <typename T>
consteval size_t shape_size() {
    size_t n = 1;
    for (size_t i = 0; i < size_t(T::rank()); ++i) {
        bool overflows = __builtin_mul_overflow(n, T::static_extent(i), &n);
        if (checked && overflows) shape_size_overflow();
    }
    return n;
}
template <typename T, typename U>
consteval bool same_lengths() {
    if (size_t(T::rank()) != size_t(U::rank())) return false;
    for (size_t i = 0; i < size_t(T::rank()); ++i)
        if (T::static_extent(i) != U::static_extent(i)) return false;
    return true;
}
template <typename T>
inline constexpr bool is_extents = false;
template <typename I, size_t... E>
inline constexpr bool is_extents<extents<I, E...>> = true;

inline constexpr size_t largest_tile = size_t(1) << 24, largest_rank = 16;
template <typename T>
concept rank_supported = T::rank() <= largest_rank;
template <typename T>
consteval bool tile_compatible() {
    if (!is_extents<T> || !__is_same(typename T::index_type, uint32_t)) return false;
    size_t n = 1;
    for (size_t i = 0; i < T::rank(); ++i) {
        size_t d = T::static_extent(i);
        if (d == 0 || (d & (d - 1)) != 0 || d > largest_tile) return false;
        n *= d;
        if (n > largest_tile) return false;
    }
    return true;
}
}  // namespace detail

template <extents_like T, extents_like U>
__tile__ constexpr bool extents_equal(T const& x, U const& y) noexcept {
    if (size_t(T::rank()) != size_t(U::rank())) return false;
    for (size_t i = 0; i < size_t(T::rank()); ++i)
        if (size_t(x.extent(i)) != size_t(y.extent(i))) return false;
    return true;
}
template <extents_like Lhs, extents_like Rhs>
__tile__ constexpr bool operator==(Lhs const& lhs, Rhs const& rhs) noexcept {
    return extents_equal(lhs, rhs);
}

template <typename T>
concept shape_like = extents_like<T> && (detail::all_static<T>());
// Unconstrained, because programs write ct::shape{512_ic, n}; what needs a static shape asks for shape_like itself.
template <size_t... Ts>
using shape = extents<uint32_t, Ts...>;
template <shape_like T>
inline constexpr size_t shape_size_v = detail::shape_size<T>();
template <typename T, typename U>
concept same_shape = shape_like<T> && shape_like<U> && (detail::same_lengths<T, U>());
template <typename T>
concept tile_shape = shape_like<T> && (detail::tile_compatible<__remove_cv(T)>()) && detail::rank_supported<T>;

}  // namespace cuda::tiles::inline v1
