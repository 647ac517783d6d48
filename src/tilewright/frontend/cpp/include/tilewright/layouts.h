// Layout policies and mappings (sections 1.8.1, 2.1.6 and 2.10).
#pragma once
#pragma clang system_header

namespace cuda::tiles::inline v1 {

template <typename T>
struct layout_mapping_static_stride {
    __tile__ constexpr size_t operator()(typename T::rank_type idx) const noexcept
        requires requires {
            { T::static_stride(idx) } -> detail::same<size_t>;
        }
    {
        return T::static_stride(idx);
    }
};

namespace detail {
template <typename P, typename E>
struct policy_mapping {};
template <typename P, typename E>
    requires requires { typename P::template mapping_type<E>; }
struct policy_mapping<P, E> {
    using type = typename P::template mapping_type<E>;
};
template <typename P, typename E>
    requires(!requires { typename P::template mapping_type<E>; }) && requires { typename P::template mapping<E>; }
struct policy_mapping<P, E> {
    using type = typename P::template mapping<E>;
};
// The document spells the member of a policy both `mapping_type` and `mapping`.
template <typename P, typename E>
using mapping_of = typename policy_mapping<P, E>::type;
}  // namespace detail

template <typename T>
concept layout_mapping =
    detail::copyable<__remove_cv(T)> &&
    requires(T const& m, typename T::rank_type const& dim) {
        requires extents_like<typename T::extents_type> && detail::unqualified<typename T::extents_type>;
        requires detail::unqualified<typename T::layout_type>;
        requires detail::same<typename T::rank_type, typename T::extents_type::rank_type>;
        requires detail::same<typename T::index_type, typename T::extents_type::index_type>;
        requires detail::same<detail::mapping_of<typename T::layout_type, typename T::extents_type>, __remove_cv(T)>;
        requires detail::same<integral_constant<T::is_always_strided()>, integral_constant<true>>;
        { layout_mapping_static_stride<__remove_cv(T)>{}(dim) } -> detail::same<size_t>;
        { m.stride(dim) } -> detail::same<typename T::index_type>;
        { m.extents() } -> detail::same<typename T::extents_type const&>;
    };

namespace detail {
template <typename T>
__tile__ constexpr T times(T x, T y) noexcept {
    constexpr T largest = T(-1) > T(0) ? T(-1) : T(~(unsigned long)0 >> (65 - 8 * sizeof(T)));
    TW_REQUIRE(x <= 0 || y <= 0 || x <= largest / y, stride_overflow, x, y);
    return static_cast<T>(x * y);
}
// Products of lengths as folds over constant dimensions, so that no loop is left when the dimension is constant.
template <typename E, size_t... K>
__tile__ constexpr typename E::index_type stride_right(E const& e, size_t i, index_pack<size_t, K...>) noexcept {
    typename E::index_type product = 1;
    TW_REQUIRE(i < sizeof...(K), stride_index, i, sizeof...(K));
    ((K > i ? void(product = times(product, e.extent(K))) : void()), ...);
    return product;
}
template <typename E, size_t... K>
__tile__ constexpr typename E::index_type stride_left(E const& e, size_t i, index_pack<size_t, K...>) noexcept {
    typename E::index_type product = 1;
    TW_REQUIRE(i < sizeof...(K), stride_index, i, sizeof...(K));
    ((K < i ? void(product = times(product, e.extent(K))) : void()), ...);
    return product;
}
// The product of the static extents of dimensions begin to end, or dynamic_extent when one of them is not static.
template <typename E, size_t... K>
constexpr size_t static_product(size_t begin, size_t end, index_pack<size_t, K...>) noexcept {
    if (((K >= begin && K < end && E::static_extent(K) == dynamic_extent) || ...)) return dynamic_extent;
    size_t product = 1;
    ((K >= begin && K < end ? void(product = times(product, E::static_extent(K))) : void()), ...);
    return product;
}
template <typename T>
__tile__ constexpr T round_up(T n, T alignment) noexcept {
    return static_cast<T>(n % alignment == 0 ? n : n - n % alignment + alignment);
}
constexpr size_t padded_length(size_t n, size_t alignment) {
    return n == dynamic_extent || alignment == dynamic_extent ? dynamic_extent : round_up(n, alignment);
}
// Extents like E, with dimension D rounded up to a multiple of A.
template <typename E, size_t A, size_t D, size_t... I>
extents<typename E::index_type, (I == D ? padded_length(E::static_extent(I), A) : E::static_extent(I))...>
    padded_shape(index_pack<size_t, I...>);
template <typename E, size_t A, size_t D>
using padded_t = decltype(padded_shape<E, A, D>(indices<size_t(E::rank())>{}));
template <typename P, size_t D, typename E, size_t... I>
__tile__ constexpr P padded(E const& e, typename E::index_type a, index_pack<size_t, I...>) noexcept {
    using T = typename E::index_type;
    if constexpr (sizeof...(I) == 0) return P{};
    else return P(I == D ? round_up<T>(e.extent(I), a) : static_cast<T>(e.extent(I))...);
}
}  // namespace detail

namespace detail {
template <typename T, typename E>
concept alignment_for = __is_convertible(T, typename E::index_type);
template <typename P, typename E>
concept layout_policy_for = layout_mapping<mapping_of<P, E>>;
}  // namespace detail

template <extents_like E>
struct layout_right_mapping;
template <extents_like E>
struct layout_left_mapping;
template <extents_like E, size_t A>
struct layout_right_padded_mapping;
template <extents_like E, size_t A>
struct layout_left_padded_mapping;
template <extents_like E, extents_like S>
    requires detail::same_rank<E, S> && detail::same_index_type<E, S>
struct layout_strided_mapping;

#define TW_POLICY(...)                      \
    template <extents_like E>               \
    using mapping = __VA_ARGS__;            \
    template <extents_like E>               \
    using mapping_type = mapping<E>;
struct layout_right {
    TW_POLICY(layout_right_mapping<E>)
};
struct layout_left {
    TW_POLICY(layout_left_mapping<E>)
};
template <size_t A>
struct layout_right_padded {
    TW_POLICY(layout_right_padded_mapping<E, A>)
};
template <size_t A>
struct layout_left_padded {
    TW_POLICY(layout_left_padded_mapping<E, A>)
};
template <extents_like S>
struct layout_strided {
    TW_POLICY(layout_strided_mapping<E, S>)
};
#undef TW_POLICY

#define TW_MAPPING_MEMBERS(...)                                                               \
    static_assert(__is_same(E, __remove_cv(E)), "extents must not be cv-qualified");          \
    using extents_type = E;                                                                   \
    using rank_type = typename E::rank_type;                                                  \
    using index_type = typename E::index_type;                                                \
    using layout_type = __VA_ARGS__;                                                          \
    static constexpr bool is_always_strided() noexcept { return true; }                       \
    __tile__ constexpr extents_type const& extents() const noexcept { return shape_; }        \
                                                                                              \
  private:                                                                                    \
    using all = detail::indices<size_t(E::rank())>;                                           \
    [[no_unique_address]] extents_type shape_;

template <extents_like E>
struct layout_right_mapping {
    __tile__ explicit constexpr layout_right_mapping(E const& other) noexcept : shape_{other} {}
    static constexpr size_t static_stride(typename E::rank_type i) noexcept {
        TW_REQUIRE(size_t(i) < size_t(E::rank()), stride_index, i, E::rank());
        return detail::static_product<E>(size_t(i) + 1, size_t(E::rank()), all{});
    }
    __tile__ constexpr typename E::index_type stride(typename E::rank_type i) const noexcept {
        return detail::stride_right(shape_, size_t(i), all{});
    }
    TW_MAPPING_MEMBERS(layout_right)
};
template <extents_like E>
struct layout_left_mapping {
    __tile__ explicit constexpr layout_left_mapping(E const& other) noexcept : shape_{other} {}
    static constexpr size_t static_stride(typename E::rank_type i) noexcept {
        TW_REQUIRE(size_t(i) < size_t(E::rank()), stride_index, i, E::rank());
        return detail::static_product<E>(0, size_t(i), all{});
    }
    __tile__ constexpr typename E::index_type stride(typename E::rank_type i) const noexcept {
        return detail::stride_left(shape_, size_t(i), all{});
    }
    TW_MAPPING_MEMBERS(layout_left)
};

#define TW_PADDED_MAPPING(name, policy, plain, dimension)                                                     \
    template <extents_like E, size_t A>                                                                       \
    struct name {                                                                                             \
        template <typename T>                                                                                 \
            requires detail::alignment_for<T, E>                                                              \
        __tile__ constexpr name(E const& other, T alignment) noexcept                                         \
            : shape_{other}, alignment_(alignment) {}                                                         \
        static constexpr size_t static_stride(typename E::rank_type i) noexcept {                             \
            return plain<padded_extents>::static_stride(i);                                                   \
        }                                                                                                     \
        __tile__ constexpr typename E::index_type stride(typename E::rank_type i) const noexcept {            \
            auto shape = detail::padded<padded_extents, dimension>(shape_, alignment_.extent(0), all{});      \
            return plain<padded_extents>{shape}.stride(i);                                                    \
        }                                                                                                     \
        TW_MAPPING_MEMBERS(policy<A>)                                                                         \
        using padded_extents = detail::padded_t<E, A, dimension>;                                             \
        /* Takes no room when the alignment is static. */                                                     \
        [[no_unique_address]] v1::extents<index_type, A> alignment_;                                          \
    };                                                                                                        \
    template <typename E, typename A>                                                                         \
    name(E const&, A) -> name<E, detail::extent_or_dynamic<A>>;
TW_PADDED_MAPPING(layout_right_padded_mapping, layout_right_padded, layout_right_mapping, size_t(E::rank()) - 1)
TW_PADDED_MAPPING(layout_left_padded_mapping, layout_left_padded, layout_left_mapping, 0)
#undef TW_PADDED_MAPPING

template <extents_like E, extents_like S>
    requires detail::same_rank<E, S> && detail::same_index_type<E, S>
struct layout_strided_mapping {
    static_assert(__is_same(S, __remove_cv(S)), "strides must not be cv-qualified");
    __tile__ constexpr layout_strided_mapping(E const& other, S const& strides) noexcept
        : shape_{other}, strides_{strides} {}
    static constexpr size_t static_stride(typename E::rank_type i) noexcept {
        TW_REQUIRE(size_t(i) < size_t(E::rank()), stride_index, i, E::rank());
        return S::static_extent(i);
    }
    __tile__ constexpr typename E::index_type stride(typename E::rank_type i) const noexcept {
        TW_REQUIRE(size_t(i) < size_t(E::rank()), stride_index, i, E::rank());
        return strides_.extent(i);
    }
    TW_MAPPING_MEMBERS(layout_strided<S>)
    [[no_unique_address]] S strides_;
};
#undef TW_MAPPING_MEMBERS

template <layout_mapping Lhs, layout_mapping Rhs>
__tile__ constexpr bool layout_mapping_equal(Lhs const& x, Rhs const& y) noexcept {
    if (!extents_equal(x.extents(), y.extents())) return false;
    for (size_t i = 0; i < size_t(Lhs::extents_type::rank()); ++i)
        if (size_t(x.stride(i)) != size_t(y.stride(i))) return false;
    return true;
}
template <layout_mapping Lhs, layout_mapping Rhs>
__tile__ constexpr bool operator==(Lhs const& lhs, Rhs const& rhs) noexcept {
    return layout_mapping_equal(lhs, rhs);
}

}  // namespace cuda::tiles::inline v1
