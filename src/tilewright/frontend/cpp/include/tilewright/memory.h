// Loads, stores and atomic operations through pointers (section 2.7).
#pragma once
#pragma clang system_header

namespace cuda::tiles::inline v1 {

template <typename T>
concept loadable_tile = pointer_tile<T> && detail::points_to_object<T> && (!__is_volatile(detail::pointee_t<T>));
template <typename T>
concept storeable_tile = loadable_tile<T> && (!__is_const(detail::pointee_t<T>));
template <loadable_tile T>
using tile_load_t = tile_with_element_t<T, __remove_cv(detail::pointee_t<T>)>;

namespace detail {
enum class atomic_op : int { exchange, add, max, min, bit_and, bit_or, bit_xor, sub };
inline constexpr int weak = -1;
inline constexpr __tw_tile absent = nullptr;

template <typename Ptrs, typename Mask>
__tile__ inline __tw_tile mask_of(Mask mask) noexcept {
    return converted<bool, tile_shape_t<Ptrs>>(mask);
}
template <typename Ptrs, typename Pad>
__tile__ inline __tw_tile padding_of(Pad padding) noexcept {
    using R = tile_load_t<Ptrs>;
    return converted<tile_element_t<R>, tile_shape_t<R>>(padding);
}
template <int Order, int Scope, typename Ptrs>
__tile__ inline tile_load_t<Ptrs> load(Ptrs ptrs, __tw_tile mask, __tw_tile padding) noexcept {
    using R = tile_load_t<Ptrs>;
    return make<R>(__tw_load(tile_code<R>, Order, Scope, handle(ptrs), mask, padding));
}
template <int Order, int Scope, typename Ptrs, typename Value>
__tile__ inline void store(Ptrs ptrs, Value value, __tw_tile mask) noexcept {
    __tw_store(Order, Scope, handle(ptrs), converted_to<tile_load_t<Ptrs>>(value), mask);
}
template <atomic_op Op, memory_order Order, thread_scope Scope, typename Ptrs, typename Value>
__tile__ inline tile_load_t<Ptrs> atomic(Ptrs ptrs, Value value, __tw_tile mask) noexcept {
    using R = tile_load_t<Ptrs>;
    return make<R>(
        __tw_atomic(tile_code<R>, int(Op), int(Order), int(Scope), handle(ptrs), converted_to<R>(value), mask));
}

template <typename Ptrs>
inline constexpr unsigned loaded_code = code_of<tile_element_t<tile_load_t<Ptrs>>>;
constexpr bool is_word(unsigned c) { return is_integer_code(c) && bits_of(c) >= 32; }
template <typename T>
concept atomic_integer = is_word(loaded_code<T>);
template <typename T>
concept atomic_number = is_word(loaded_code<T>) || loaded_code<T> == code_f32 || loaded_code<T> == code_f64;
template <typename T>
concept atomic_addend = is_word(loaded_code<T>) || loaded_code<T> == code_f16 || loaded_code<T> == code_f32 ||
                        loaded_code<T> == code_f64;

template <typename Mask, typename Ptrs>
concept mask_for = bool_tile_convertible<Mask> && broadcastable_to<Mask, tile_shape_t<Ptrs>>;
template <typename Pad, typename Ptrs>
concept padding_for = tile_like<Pad> && broadcastable_to<Pad, tile_shape_t<Ptrs>> &&
                      scalar_convertible_to<tile_element_t<Pad>, tile_element_t<tile_load_t<Ptrs>>>;
}  // namespace detail

template <loadable_tile Tile>
__tile__ inline tile_load_t<Tile> load(Tile ptrs) noexcept {
    return detail::load<detail::weak, 0>(ptrs, detail::absent, detail::absent);
}
template <loadable_tile Tile, bool_tile_convertible Mask>
    requires broadcastable_to<Mask, tile_shape_t<Tile>>
__tile__ inline tile_load_t<Tile> load_masked(Tile ptrs, Mask mask) noexcept {
    return detail::load<detail::weak, 0>(ptrs, detail::mask_of<Tile>(mask), detail::absent);
}
template <loadable_tile Tile, bool_tile_convertible Mask, tile_like Padding>
    requires broadcastable_to<Mask, tile_shape_t<Tile>> && detail::padding_for<Padding, Tile>
__tile__ inline tile_load_t<Tile> load_masked(Tile ptrs, Mask mask, Padding padding) noexcept {
    return detail::load<detail::weak, 0>(ptrs, detail::mask_of<Tile>(mask), detail::padding_of<Tile>(padding));
}
template <memory_order Order, thread_scope Scope = default_thread_scope(), loadable_tile Tile>
    requires read_memory_order<Order>
__tile__ inline tile_load_t<Tile> atomic_load(Tile ptrs, memory_order_constant<Order> = {},
                                              thread_scope_constant<Scope> = {}) noexcept {
    return detail::load<int(Order), int(Scope)>(ptrs, detail::absent, detail::absent);
}
template <memory_order Order, thread_scope Scope = default_thread_scope(), loadable_tile Tile,
          bool_tile_convertible Mask>
    requires(broadcastable_to<Mask, tile_shape_t<Tile>> && read_memory_order<Order>)
__tile__ inline tile_load_t<Tile> atomic_load_masked(Tile ptrs, Mask mask, memory_order_constant<Order> = {},
                                                     thread_scope_constant<Scope> = {}) noexcept {
    return detail::load<int(Order), int(Scope)>(ptrs, detail::mask_of<Tile>(mask), detail::absent);
}
template <memory_order Order, thread_scope Scope = default_thread_scope(), loadable_tile Tile,
          bool_tile_convertible Mask, tile_like Padding>
    requires broadcastable_to<Mask, tile_shape_t<Tile>> && read_memory_order<Order> &&
             detail::padding_for<Padding, Tile>
__tile__ inline tile_load_t<Tile> atomic_load_masked(Tile ptrs, Mask mask, Padding padding,
                                                     memory_order_constant<Order> = {},
                                                     thread_scope_constant<Scope> = {}) noexcept {
    return detail::load<int(Order), int(Scope)>(ptrs, detail::mask_of<Tile>(mask), detail::padding_of<Tile>(padding));
}

template <storeable_tile Ptrs, non_narrowing_tile_convertible_to<tile_load_t<Ptrs>> Value>
__tile__ inline void store(Ptrs ptrs, Value value) noexcept {
    detail::store<detail::weak, 0>(ptrs, value, detail::absent);
}
template <storeable_tile Ptrs, non_narrowing_tile_convertible_to<tile_load_t<Ptrs>> Value, bool_tile_convertible Mask>
    requires broadcastable_to<Mask, tile_shape_t<Ptrs>>
__tile__ inline void store_masked(Ptrs ptrs, Value value, Mask mask) noexcept {
    detail::store<detail::weak, 0>(ptrs, value, detail::mask_of<Ptrs>(mask));
}
template <memory_order Order, thread_scope Scope = default_thread_scope(), storeable_tile Ptrs,
          non_narrowing_tile_convertible_to<tile_load_t<Ptrs>> Value>
    requires write_memory_order<Order>
__tile__ inline void atomic_store(Ptrs ptrs, Value value, memory_order_constant<Order> = {},
                                  thread_scope_constant<Scope> = {}) noexcept {
    detail::store<int(Order), int(Scope)>(ptrs, value, detail::absent);
}
template <memory_order Order, thread_scope Scope = default_thread_scope(), storeable_tile Ptrs,
          non_narrowing_tile_convertible_to<tile_load_t<Ptrs>> Value, bool_tile_convertible Mask>
    requires broadcastable_to<Mask, tile_shape_t<Ptrs>> && write_memory_order<Order>
__tile__ inline void atomic_store_masked(Ptrs ptrs, Value value, Mask mask, memory_order_constant<Order> = {},
                                         thread_scope_constant<Scope> = {}) noexcept {
    detail::store<int(Order), int(Scope)>(ptrs, value, detail::mask_of<Ptrs>(mask));
}

template <memory_order Order, thread_scope Scope = default_thread_scope(), storeable_tile Ptrs,
          non_narrowing_tile_convertible_to<tile_load_t<Ptrs>> Cmp,
          non_narrowing_tile_convertible_to<tile_load_t<Ptrs>> Val>
    requires detail::atomic_number<Ptrs> && detail::valid_memory_order<Order>
__tile__ inline tile_load_t<Ptrs> atomic_compare_exchange(Ptrs ptrs, Cmp cmp, Val val,
                                                          memory_order_constant<Order> = {},
                                                          thread_scope_constant<Scope> = {}) noexcept {
    using R = tile_load_t<Ptrs>;
    return detail::make<R>(__tw_compare_exchange(detail::tile_code<R>, int(Order), int(Scope), detail::handle(ptrs),
                                                 detail::converted_to<R>(cmp), detail::converted_to<R>(val),
                                                 detail::absent));
}
template <memory_order Order, thread_scope Scope = default_thread_scope(), storeable_tile Ptrs,
          non_narrowing_tile_convertible_to<tile_load_t<Ptrs>> Cmp,
          non_narrowing_tile_convertible_to<tile_load_t<Ptrs>> Val, bool_tile_convertible Mask>
    requires broadcastable_to<Mask, tile_shape_t<Ptrs>> && detail::atomic_number<Ptrs> &&
             detail::valid_memory_order<Order>
__tile__ inline tile_load_t<Ptrs> atomic_compare_exchange_masked(Ptrs ptrs, Cmp cmps, Val vals, Mask mask,
                                                                 memory_order_constant<Order> = {},
                                                                 thread_scope_constant<Scope> = {}) noexcept {
    using R = tile_load_t<Ptrs>;
    return detail::make<R>(__tw_compare_exchange(detail::tile_code<R>, int(Order), int(Scope), detail::handle(ptrs),
                                                 detail::converted_to<R>(cmps), detail::converted_to<R>(vals),
                                                 detail::mask_of<Ptrs>(mask)));
}

#define TW_ATOMIC(name, elements, op)                                                                             \
    template <memory_order Order, thread_scope Scope = default_thread_scope(), storeable_tile Ptrs,               \
              non_narrowing_tile_convertible_to<tile_load_t<Ptrs>> Values>                                        \
        requires detail::elements<Ptrs> && detail::valid_memory_order<Order>                                     \
    __tile__ inline tile_load_t<Ptrs> name(Ptrs ptrs, Values values, memory_order_constant<Order> = {},           \
                                           thread_scope_constant<Scope> = {}) noexcept {                          \
        return detail::atomic<detail::atomic_op::op, Order, Scope>(ptrs, values, detail::absent);                 \
    }                                                                                                             \
    template <memory_order Order, thread_scope Scope = default_thread_scope(), storeable_tile Ptrs,               \
              non_narrowing_tile_convertible_to<tile_load_t<Ptrs>> Values, bool_tile_convertible Mask>            \
        requires broadcastable_to<Mask, tile_shape_t<Ptrs>> && detail::elements<Ptrs> &&                          \
                 detail::valid_memory_order<Order>                                                                    \
    __tile__ inline tile_load_t<Ptrs> name##_masked(Ptrs ptrs, Values values, Mask mask,                          \
                                                    memory_order_constant<Order> = {},                            \
                                                    thread_scope_constant<Scope> = {}) noexcept {                 \
        return detail::atomic<detail::atomic_op::op, Order, Scope>(ptrs, values, detail::mask_of<Ptrs>(mask));    \
    }
TW_ATOMIC(atomic_and, atomic_integer, bit_and)
TW_ATOMIC(atomic_or, atomic_integer, bit_or)
TW_ATOMIC(atomic_xor, atomic_integer, bit_xor)
TW_ATOMIC(atomic_max, atomic_integer, max)
TW_ATOMIC(atomic_min, atomic_integer, min)
TW_ATOMIC(atomic_add, atomic_addend, add)
TW_ATOMIC(atomic_sub, atomic_addend, sub)
TW_ATOMIC(atomic_xchg, atomic_number, exchange)
#undef TW_ATOMIC

}  // namespace cuda::tiles::inline v1
