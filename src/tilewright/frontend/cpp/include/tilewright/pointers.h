// Arithmetic and comparison of pointer tiles (sections 2.2.25 to 2.2.31).
#pragma once
#pragma clang system_header

namespace cuda::tiles::inline v1 {
namespace detail {
template <typename T>
using pointee_t = __remove_pointer(tile_element_t<T>);
template <typename T>
concept points_to_object = pointer_tile<T> && (!__is_void(__remove_cv(pointee_t<T>)));
template <typename T, typename U>
concept differences_defined =
    pointer_tile<T> && pointer_tile<U> && requires(tile_element_t<T> a, tile_element_t<U> b) { a - b; };
template <typename T, typename U>
concept comparisons_defined =
    pointer_tile<T> && pointer_tile<U> && requires(tile_element_t<T> a, tile_element_t<U> b) { a == b; a < b; };

template <typename P, typename I>
__tile__ inline auto offset(P pointers, __tw_tile by) noexcept {
    using R = mutual_broadcast_t<P, I, tile_element_t<P>>;
    return make<R>(__tw_offset(tile_code<R>, converted_to<R>(pointers), by));
}
// Offsets keep their integer type, except that bool counts as an int.
template <typename P, typename I>
__tile__ inline __tw_tile offsets(I x) noexcept {
    using E = typename decltype(promoted<tile_element_t<I>>())::type;
    using R = mutual_broadcast_t<P, I, E>;
    return converted<E, tile_shape_t<R>>(x);
}
template <predicate Op, typename L, typename R>
__tile__ inline auto compare_pointers(L lhs, R rhs) noexcept {
    using C = mutual_broadcast_t<L, R, void const*>;
    using B = mutual_broadcast_t<L, R, bool>;
    return make<B>(__tw_compare(tile_code<B>, int(Op), converted_to<C>(lhs), converted_to<C>(rhs)));
}
template <predicate Op, typename T>
__tile__ inline auto compare_null(T x) noexcept {
    using B = tile_with_element_t<T, bool>;
    using V = tile_with_element_t<T, void const*>;
    auto null = converted_to<V>(static_cast<void const*>(nullptr));
    return make<B>(__tw_compare(tile_code<B>, int(Op), converted_to<V>(x), null));
}
}  // namespace detail

template <pointer_tile Tile>
__tile__ inline Tile operator+(Tile x) noexcept {
    return x;
}
template <integral_tile Offset, pointer_tile Ptr>
    requires broadcast_compatible<Offset, Ptr> && detail::points_to_object<Ptr>
__tile__ inline mutual_broadcast_t<Offset, Ptr, tile_element_t<Ptr>> operator+(Offset offset, Ptr ptr) noexcept {
    return detail::offset<Ptr, Offset>(ptr, detail::offsets<Ptr>(offset));
}
template <pointer_tile Ptr, integral_tile Offset>
    requires broadcast_compatible<Ptr, Offset> && detail::points_to_object<Ptr>
__tile__ inline mutual_broadcast_t<Ptr, Offset, tile_element_t<Ptr>> operator+(Ptr ptr, Offset offset) noexcept {
    return detail::offset<Ptr, Offset>(ptr, detail::offsets<Ptr>(offset));
}
template <pointer_tile Ptr, integral_tile Offset>
    requires broadcast_compatible<Ptr, Offset> && detail::points_to_object<Ptr>
__tile__ inline mutual_broadcast_t<Ptr, Offset, tile_element_t<Ptr>> operator-(Ptr ptr, Offset offset) noexcept {
    // Negated as a signed 64-bit number, so that unsigned offsets work too.
    using E = ptrdiff_t;
    using R = mutual_broadcast_t<Ptr, Offset, E>;
    __tw_tile by = detail::converted<E, tile_shape_t<R>>(offset);
    by = __tw_unary(detail::tile_code<R>, int(detail::unary_op::neg), detail::default_modes, by);
    return detail::offset<Ptr, Offset>(ptr, by);
}
template <pointer_tile Lhs, pointer_tile Rhs>
    requires broadcast_compatible<Lhs, Rhs> && detail::differences_defined<Lhs, Rhs>
__tile__ inline mutual_broadcast_t<Lhs, Rhs, ptrdiff_t> operator-(Lhs lhs, Rhs rhs) noexcept {
    using P = mutual_broadcast_t<Lhs, Rhs, __remove_cv(detail::pointee_t<Lhs>) const volatile*>;
    using D = mutual_broadcast_t<Lhs, Rhs, ptrdiff_t>;
    return detail::make<D>(
        __tw_difference(detail::tile_code<D>, detail::converted_to<P>(lhs), detail::converted_to<P>(rhs)));
}

#define TW_COMPARISON(op, which)                                                            \
    template <pointer_tile Lhs, pointer_tile Rhs>                                               \
        requires broadcast_compatible<Lhs, Rhs> && detail::comparisons_defined<Lhs, Rhs>        \
    __tile__ inline mutual_broadcast_t<Lhs, Rhs, bool> operator op(Lhs lhs, Rhs rhs) noexcept { \
        return detail::compare_pointers<detail::predicate::which>(lhs, rhs);                \
    }
TW_COMPARISON(==, eq)
TW_COMPARISON(!=, ne)
TW_COMPARISON(<, lt)
TW_COMPARISON(<=, le)
TW_COMPARISON(>, gt)
TW_COMPARISON(>=, ge)
#undef TW_COMPARISON

#define TW_NULL_COMPARISON(op, which)                                                                   \
    template <pointer_tile Ptrs>                                                                            \
    __tile__ inline tile_with_element_t<Ptrs, bool> operator op(Ptrs ptrs, decltype(nullptr)) noexcept {    \
        return detail::compare_null<detail::predicate::which>(ptrs);                                    \
    }                                                                                                       \
    template <pointer_tile Ptrs>                                                                            \
    __tile__ inline tile_with_element_t<Ptrs, bool> operator op(decltype(nullptr), Ptrs ptrs) noexcept {    \
        return detail::compare_null<detail::predicate::which>(ptrs);                                    \
    }
TW_NULL_COMPARISON(==, eq)
TW_NULL_COMPARISON(!=, ne)
#undef TW_NULL_COMPARISON

}  // namespace cuda::tiles::inline v1
