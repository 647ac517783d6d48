// Tensor spans and partition views (sections 1.8, 2.11 and 2.12).
#pragma once
#pragma clang system_header

namespace cuda::tiles::inline v1 {

template <typename T>
inline constexpr bool enable_contiguous_accessor_policy = false;
template <scalar E>
struct default_accessor {
    using element_type = E;
    using data_handle_type = E*;
    using reference = E&;
};
template <scalar E>
inline constexpr bool enable_contiguous_accessor_policy<default_accessor<E>> = true;

template <typename T>
concept accessor_policy = detail::copyable<T> && requires {
    requires scalar<typename T::element_type>;
    requires detail::same<typename T::data_handle_type, typename T::element_type*>;
    requires detail::same<typename T::reference, typename T::element_type&>;
    requires enable_contiguous_accessor_policy<T>;
};

template <typename T>
concept tensor_span_like = detail::copyable<__remove_cv(T)> && requires(T const& t) {
    requires layout_mapping<typename T::mapping_type> && detail::unqualified<typename T::mapping_type>;
    requires accessor_policy<typename T::accessor_type>;
    requires detail::same<typename T::extents_type, typename T::mapping_type::extents_type>;
    requires detail::same<typename T::layout_type, typename T::mapping_type::layout_type>;
    requires detail::same<typename T::index_type, typename T::extents_type::index_type>;
    requires detail::same<typename T::rank_type, typename T::extents_type::rank_type>;
    requires detail::same<typename T::element_type, typename T::accessor_type::element_type>;
    requires detail::same<typename T::value_type, __remove_cv(typename T::element_type)>;
    requires detail::same<typename T::data_handle_type, typename T::accessor_type::data_handle_type>;
    requires detail::same<typename T::reference, typename T::accessor_type::reference>;
    { t.data_handle() } -> detail::same<typename T::data_handle_type>;
    { t.mapping() } -> detail::same<typename T::mapping_type const&>;
    { t.accessor() } -> detail::same<typename T::accessor_type const&>;
};
template <typename T>
concept storeable_tensor_span =
    tensor_span_like<T> && detail::same<typename T::element_type, __remove_cv(typename T::element_type)>;

namespace detail {
template <typename A, typename E>
concept accessor_of = same<E, typename A::element_type>;
template <typename M>
concept made_from_extents = __is_constructible(M, typename M::extents_type const&);
}  // namespace detail

template <scalar E, extents_like Extents, typename Layout = layout_right, accessor_policy Accessor = default_accessor<E>>
    requires detail::layout_policy_for<Layout, Extents> && detail::accessor_of<Accessor, E>
struct tensor_span {
    static_assert(__is_same(Layout, __remove_cv(Layout)), "the layout of a tensor span must not be cv-qualified");
    using element_type = E;
    using value_type = __remove_cv(E);
    using extents_type = Extents;
    using layout_type = Layout;
    using mapping_type = detail::mapping_of<Layout, Extents>;
    using index_type = typename extents_type::index_type;
    using rank_type = typename extents_type::rank_type;
    using accessor_type = Accessor;
    using data_handle_type = typename accessor_type::data_handle_type;
    using reference = typename accessor_type::reference;

    __tile__ constexpr tensor_span(data_handle_type handle, mapping_type const& mapping,
                                   accessor_type const& accessor = {}) noexcept
        : mapping_{mapping}, accessor_{accessor}, handle_{handle} {}
    __tile__ constexpr tensor_span(data_handle_type handle, extents_type const& extents,
                                   layout_type const& = {}, accessor_type const& accessor = {}) noexcept
        requires detail::made_from_extents<mapping_type>
        : mapping_{extents}, accessor_{accessor}, handle_{handle} {}

    static constexpr rank_type rank() noexcept { return extents_type::rank(); }
    static constexpr rank_type rank_dynamic() noexcept { return extents_type::rank_dynamic(); }
    static constexpr size_t static_extent(rank_type dim) noexcept { return extents_type::static_extent(dim); }
    __tile__ constexpr index_type extent(rank_type dim) const noexcept { return mapping_.extents().extent(dim); }
    __tile__ constexpr extents_type const& extents() const noexcept { return mapping_.extents(); }
    __tile__ constexpr mapping_type const& mapping() const noexcept { return mapping_; }
    __tile__ constexpr accessor_type const& accessor() const noexcept { return accessor_; }
    __tile__ constexpr data_handle_type data_handle() const noexcept { return handle_; }

  private:
    [[no_unique_address]] mapping_type mapping_;
    [[no_unique_address]] accessor_type accessor_;
    [[no_unique_address]] data_handle_type handle_;
};
template <typename T, typename M, typename A = default_accessor<T>>
    requires layout_mapping<M>
tensor_span(T*, M const&, A const& = {})
    -> tensor_span<T, typename M::extents_type, typename M::layout_type, A>;
template <typename T, typename E, typename L = layout_right, typename A = default_accessor<T>>
    requires extents_like<E>
tensor_span(T*, E const&, L const& = {}, A const& = {}) -> tensor_span<T, E, L, A>;

namespace detail {
// Extents, strides and indices of views are passed as 32-bit numbers when they are no wider, else as 64-bit ones.
template <typename T>
__tile__ constexpr auto view_number(T x) noexcept {
    if constexpr (sizeof(T) < 4 || (sizeof(T) == 4 && __is_signed(T))) return static_cast<int>(x);
    else return static_cast<long>(x);
}
template <typename T, view_padding Pad>
concept padding_available = Pad == view_padding::zero || basic_floating_point_scalar<T>;
template <memory_order Order, thread_scope Scope>
concept read_allowed = read_memory_order<Order> && valid_thread_scope<Scope>;
template <memory_order Order, thread_scope Scope>
concept write_allowed = write_memory_order<Order> && valid_thread_scope<Scope>;
template <typename View, typename... Idx>
concept partition_index = sizeof...(Idx) == size_t(View::view_shape_type::rank()) &&
                          (scalar_convertible_to<Idx, typename View::index_type> && ...);
}  // namespace detail

template <tensor_span_like Span, tile_shape Shape>
    requires detail::same_rank<Shape, typename Span::extents_type>
struct partition_view {
    using span_type = Span;
    using view_shape_type = Shape;
    using element_type = typename span_type::element_type;
    using value_type = typename span_type::value_type;
    using index_type = typename span_type::index_type;
    using rank_type = typename span_type::rank_type;  // which the reference does not name, and Kokkos uses
    using view_tile_type = tile<value_type, view_shape_type>;

    __tile__ constexpr partition_view(span_type span, view_shape_type) noexcept : span_{span} {}
    __tile__ constexpr span_type const& span() const noexcept { return span_; }

#define TW_INDICES requires detail::partition_index<partition_view, Idx...>
#define TW_PADDING detail::valid_view_padding<Pad> && detail::padding_available<value_type, Pad>
#define TW_PADDED_INDICES TW_INDICES && TW_PADDING
#define TW_READ_INDICES TW_INDICES && detail::read_allowed<Order, Scope>
#define TW_PADDED_READ_INDICES TW_READ_INDICES && TW_PADDING
    template <typename... Idx>
        TW_INDICES
    __tile__ view_tile_type load(Idx... idx) const noexcept {
        return get<detail::weak, 0, in_bounds>(axes{}, idx...);
    }
    template <view_padding Pad = default_view_padding(), typename... Idx>
        TW_PADDED_INDICES
    __tile__ view_tile_type load_masked(Idx... idx) const noexcept {
        return get<detail::weak, 0, int(Pad)>(axes{}, idx...);
    }
    template <view_padding Pad = default_view_padding(), typename... Idx>
        TW_PADDED_INDICES
    __tile__ view_tile_type load_masked(view_padding_constant<Pad>, Idx... idx) const noexcept {
        return get<detail::weak, 0, int(Pad)>(axes{}, idx...);
    }
    template <memory_order Order, thread_scope Scope = default_thread_scope(), typename... Idx>
        TW_READ_INDICES
    __tile__ view_tile_type atomic_load(Idx... idx) const noexcept {
        return get<int(Order), int(Scope), in_bounds>(axes{}, idx...);
    }
    template <memory_order Order, thread_scope Scope = default_thread_scope(), typename... Idx>
        TW_READ_INDICES
    __tile__ view_tile_type atomic_load(memory_order_constant<Order>, Idx... idx) const noexcept {
        return get<int(Order), int(Scope), in_bounds>(axes{}, idx...);
    }
    template <memory_order Order, thread_scope Scope = default_thread_scope(), typename... Idx>
        TW_READ_INDICES
    __tile__ view_tile_type atomic_load(memory_order_constant<Order>, thread_scope_constant<Scope>,
                                        Idx... idx) const noexcept {
        return get<int(Order), int(Scope), in_bounds>(axes{}, idx...);
    }
    template <view_padding Pad, memory_order Order, thread_scope Scope = default_thread_scope(), typename... Idx>
        TW_PADDED_READ_INDICES
    __tile__ view_tile_type atomic_load_masked(Idx... idx) const noexcept {
        return get<int(Order), int(Scope), int(Pad)>(axes{}, idx...);
    }
    template <view_padding Pad, memory_order Order, thread_scope Scope = default_thread_scope(), typename... Idx>
        TW_PADDED_READ_INDICES
    __tile__ view_tile_type atomic_load_masked(view_padding_constant<Pad>, Idx... idx) const noexcept {
        return get<int(Order), int(Scope), int(Pad)>(axes{}, idx...);
    }
    template <view_padding Pad = default_view_padding(), memory_order Order,
              thread_scope Scope = default_thread_scope(), typename... Idx>
        TW_PADDED_READ_INDICES
    __tile__ view_tile_type atomic_load_masked(view_padding_constant<Pad>, memory_order_constant<Order>,
                                               Idx... idx) const noexcept {
        return get<int(Order), int(Scope), int(Pad)>(axes{}, idx...);
    }
    template <view_padding Pad = default_view_padding(), memory_order Order,
              thread_scope Scope = default_thread_scope(), typename... Idx>
        TW_PADDED_READ_INDICES
    __tile__ view_tile_type atomic_load_masked(view_padding_constant<Pad>, memory_order_constant<Order>,
                                               thread_scope_constant<Scope>, Idx... idx) const noexcept {
        return get<int(Order), int(Scope), int(Pad)>(axes{}, idx...);
    }

#define TW_STORE(name, padding)                                                                                   \
    template <tile_like Value, typename... Idx>                                                                   \
        requires non_narrowing_tile_convertible_to<Value, view_tile_type> && storeable_tensor_span<span_type> &&  \
                 detail::partition_index<partition_view, Idx...>                                                  \
    __tile__ void name(Value a, Idx... idx) const noexcept {                                                      \
        put<detail::weak, 0, padding>(a, axes{}, idx...);                                                         \
    }
#define TW_ATOMIC_STORE(name, padding, ...)                                                                       \
    template <memory_order Order, thread_scope Scope = default_thread_scope(), tile_like Value, typename... Idx>  \
        requires detail::write_allowed<Order, Scope> && storeable_tensor_span<span_type> &&                       \
                 non_narrowing_tile_convertible_to<Value, view_tile_type> &&                                      \
                 detail::partition_index<partition_view, Idx...>                                                  \
    __tile__ void name(Value a, __VA_ARGS__ Idx... idx) const noexcept {                                          \
        put<int(Order), int(Scope), padding>(a, axes{}, idx...);                                                  \
    }
#define TW_COMMA ,
    TW_STORE(store, in_bounds)
    TW_STORE(store_masked, masked)
    TW_ATOMIC_STORE(atomic_store, in_bounds)
    TW_ATOMIC_STORE(atomic_store, in_bounds, memory_order_constant<Order> TW_COMMA)
    TW_ATOMIC_STORE(atomic_store, in_bounds, memory_order_constant<Order> TW_COMMA thread_scope_constant<Scope> TW_COMMA)
    TW_ATOMIC_STORE(atomic_store_masked, masked)
    TW_ATOMIC_STORE(atomic_store_masked, masked, memory_order_constant<Order> TW_COMMA)
    TW_ATOMIC_STORE(atomic_store_masked, masked,
                    memory_order_constant<Order> TW_COMMA thread_scope_constant<Scope> TW_COMMA)
#undef TW_COMMA
#undef TW_ATOMIC_STORE
#undef TW_STORE
#undef TW_INDICES
#undef TW_PADDING
#undef TW_PADDED_INDICES
#undef TW_READ_INDICES
#undef TW_PADDED_READ_INDICES

  private:
    static constexpr int in_bounds = -1;
    static constexpr int masked = int(view_padding::zero);
    using axes = detail::indices<size_t(Shape::rank())>;

    template <int Order, int Scope, int Padding, size_t... I, typename... Idx>
    __tile__ view_tile_type get(detail::index_pack<size_t, I...>, Idx... idx) const noexcept {
        return detail::make<view_tile_type>(
            __tw_load_view(detail::tile_code<view_tile_type>, Order, Scope, Padding, base(),
                           int(sizeof...(I)), extent_at<I>()..., stride_at<I>()..., index(idx)...));
    }
    template <int Order, int Scope, int Padding, typename Value, size_t... I, typename... Idx>
    __tile__ void put(Value a, detail::index_pack<size_t, I...>, Idx... idx) const noexcept {
        __tw_store_view(detail::tile_code<view_tile_type>, Order, Scope, Padding, base(),
                        detail::converted_to<view_tile_type>(a), int(sizeof...(I)), extent_at<I>()...,
                        stride_at<I>()..., index(idx)...);
    }
    __tile__ value_type* base() const noexcept { return const_cast<value_type*>(span_.data_handle()); }
    // What is known statically must not be read from the object: a user-defined type may compute it at run time.
    template <size_t I>
    __tile__ auto extent_at() const noexcept {
        constexpr size_t length = span_type::extents_type::static_extent(I);
        if constexpr (length != dynamic_extent) return detail::view_number(static_cast<index_type>(length));
        else return detail::view_number(span_.mapping().extents().extent(I));
    }
    template <size_t I>
    __tile__ auto stride_at() const noexcept {
        using M = typename span_type::mapping_type;
        constexpr size_t stride = layout_mapping_static_stride<M>{}(I);
        if constexpr (stride != dynamic_extent) return detail::view_number(static_cast<index_type>(stride));
        else return detail::view_number(span_.mapping().stride(I));
    }
    template <typename T>
    __tile__ static auto index(T x) noexcept {
        // An index that index_type cannot hold is undefined behavior, so integers need no conversion.
        if constexpr (integral<T>) return detail::view_number(x);
        else return detail::view_number(static_cast<index_type>(x));
    }

    span_type span_;
};

}  // namespace cuda::tiles::inline v1
