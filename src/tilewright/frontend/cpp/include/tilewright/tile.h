// The tile type, and what can be asked of tile like types (sections 1.6, 1.7, 2.1 and 2.9).
#pragma once
#pragma clang system_header

namespace cuda::tiles::inline v1 {

namespace detail {
template <typename T>
struct tile_parts {
    static constexpr bool is_tile = false;
};
template <any_scalar T>
struct tile_parts<T> {
    static constexpr bool is_tile = false;
    using element = T;
    using shape = extents<uint32_t>;
};
template <typename T>
using parts = tile_parts<__remove_cv(T)>;
template <typename T>
inline constexpr unsigned element_code_of = [] {
    if constexpr (requires { typename parts<T>::element; }) return code_of<typename parts<T>::element>;
    else return unsigned(code_none);
}();
}  // namespace detail

template <typename T>
concept tile_like = requires { typename detail::parts<T>::element; };
template <typename T>
concept scalar = tile_like<T> && (!detail::parts<T>::is_tile);
template <scalar E, tile_shape S>
struct tile;
namespace detail {
template <typename E, typename S>
struct tile_parts<tile<E, S>> {
    static constexpr bool is_tile = true;
    using element = E;
    using shape = S;
};
}  // namespace detail
template <typename T>
concept pointer_tile = tile_like<T> && (detail::is_pointer_code(detail::element_code_of<T>));
template <typename T>
concept numeric_tile = tile_like<T> && (detail::is_numeric_code(detail::element_code_of<T>));
template <typename T>
concept arithmetic_tile = numeric_tile<T> && (detail::is_arithmetic_code(detail::element_code_of<T>));
template <typename T>
concept floating_point_tile = numeric_tile<T> && (detail::is_float_code(detail::element_code_of<T>));
template <typename T>
concept basic_floating_point_tile =
    arithmetic_tile<T> && floating_point_tile<T> && (detail::is_basic_float_code(detail::element_code_of<T>));
template <typename T>
concept restricted_floating_point_tile =
    floating_point_tile<T> && (detail::is_restricted_code(detail::element_code_of<T>));
template <typename T>
concept integral_tile = arithmetic_tile<T> && (detail::is_integer_code(detail::element_code_of<T>));
template <typename T>
concept pointer_scalar = pointer_tile<T> && scalar<T>;
template <typename T>
concept numeric_scalar = numeric_tile<T> && scalar<T>;
template <typename T>
concept arithmetic_scalar = arithmetic_tile<T> && scalar<T> && numeric_scalar<T>;
template <typename T>
concept floating_point_scalar = floating_point_tile<T> && scalar<T> && numeric_scalar<T>;
template <typename T>
concept basic_floating_point_scalar =
    basic_floating_point_tile<T> && scalar<T> && floating_point_scalar<T> && arithmetic_scalar<T>;
template <typename T>
concept restricted_floating_point_scalar =
    restricted_floating_point_tile<T> && scalar<T> && floating_point_scalar<T>;
template <typename T>
concept integral_scalar = integral_tile<T> && scalar<T> && arithmetic_scalar<T> && integral<T>;

template <tile_like T>
using tile_element_t = typename detail::parts<T>::element;
template <tile_like T>
using tile_shape_t = typename detail::parts<T>::shape;
template <tile_like T>
inline constexpr size_t tile_size_v = shape_size_v<tile_shape_t<T>>;
template <tile_like T>
inline constexpr size_t tile_rank_v = tile_shape_t<T>::rank();

namespace detail {
template <typename T, typename E>
struct with_element {
    using type = E;
};
template <typename F, typename S, typename E>
struct with_element<tile<F, S>, E> {
    using type = tile<E, S>;
};

// The element code in six bits, then for each length as many zeros as its logarithm, and a one: what the compiler
// calls a tile type.
template <typename E, typename S>
consteval uint64_t make_code() {
    uint64_t code = code_of<E>, end = uint64_t(1) << 6;
    for (size_t i = 0; i < S::rank(); ++i) {
        end *= S::static_extent(i);
        code |= end;
        end *= 2;
    }
    return code;
}
template <typename T>
inline constexpr uint64_t tile_code = make_code<typename parts<T>::element, typename parts<T>::shape>();

template <typename T>
inline constexpr unsigned type_code_of_parameter = code_of<T>;
}  // namespace detail
template <tile_like T, scalar E>
using tile_with_element_t = typename detail::with_element<__remove_cv(T), __remove_cv(E)>::type;

// Conversions.
template <typename T, typename U>
concept scalar_convertible_to = scalar<T> && scalar<U> && (detail::scalar_conversion_exists<T, U>());
template <typename T, typename U>
concept non_narrowing_scalar_convertible_to =
    scalar_convertible_to<T, U> && (!detail::scalar_conversion_narrows<T, U>());
template <typename T, typename U>
concept tile_convertible_to = tile_like<T> && tile_like<U> && same_shape<tile_shape_t<T>, tile_shape_t<U>> &&
                              scalar_convertible_to<tile_element_t<T>, tile_element_t<U>>;
template <typename T, typename U>
concept non_narrowing_tile_convertible_to =
    tile_convertible_to<T, U> && non_narrowing_scalar_convertible_to<tile_element_t<T>, tile_element_t<U>>;
template <typename T>
concept bool_tile_convertible = tile_like<T> && tile_convertible_to<T, tile_with_element_t<T, bool>>;

namespace detail {
template <typename T, typename U>
consteval bool broadcasts_to() {
    constexpr size_t n = T::rank(), m = U::rank();
    if (n > m) return false;
    for (size_t i = 0; i < n; ++i)
        if (T::static_extent(i) != 1 && T::static_extent(i) != U::static_extent(i + m - n)) return false;
    return true;
}
template <typename T, typename U>
consteval bool broadcasts_with() {
    constexpr size_t n = T::rank(), m = U::rank();
    for (size_t i = 0; i < (n < m ? n : m); ++i) {
        size_t a = T::static_extent(n - 1 - i), b = U::static_extent(m - 1 - i);
        if (a != b && a != 1 && b != 1) return false;
    }
    return true;
}
template <typename T, typename U>
consteval size_t mutual_length(size_t i) {
    constexpr size_t n = T::rank(), m = U::rank(), r = n < m ? m : n;
    size_t a = i + n < r ? 1 : T::static_extent(i + n - r);
    size_t b = i + m < r ? 1 : U::static_extent(i + m - r);
    return a == 1 ? b : a;
}
template <typename T, typename U, typename Dimensions>
struct mutual_shape;
template <typename T, typename U, size_t... I>
struct mutual_shape<T, U, index_pack<size_t, I...>> {
    using type = typename type_is<extents<uint32_t, mutual_length<T, U>(I)...>>::type;  // messages show the lengths
};
template <typename T, typename U>
using mutual_shape_t = typename mutual_shape<
    T, U, indices<(size_t(T::rank()) < size_t(U::rank()) ? size_t(U::rank()) : size_t(T::rank()))>>::type;
// A variable, so that it is found out once for two shapes and not for every two tiles.
template <typename T, typename U>
inline constexpr bool mutual_shape_fits = tile_shape<mutual_shape_t<T, U>>;
}  // namespace detail

template <typename T, typename U>
concept shape_broadcastable_to = shape_like<T> && shape_like<U> && (detail::broadcasts_to<T, U>());
template <typename T, typename U>
concept broadcastable_to = tile_like<T> && tile_shape<U> && shape_broadcastable_to<tile_shape_t<T>, U>;
template <typename T, typename U>
concept shape_broadcast_compatible = shape_like<T> && shape_like<U> && (detail::broadcasts_with<T, U>());
template <shape_like T, shape_like U>
    requires shape_broadcast_compatible<T, U>
using shape_broadcast_t = detail::mutual_shape_t<T, U>;
template <typename T, typename U>
concept broadcast_compatible =
    tile_like<T> && tile_like<U> && shape_broadcast_compatible<tile_shape_t<T>, tile_shape_t<U>> &&
    (detail::mutual_shape_fits<tile_shape_t<T>, tile_shape_t<U>>);

namespace detail {
// Scalars mix to a scalar, anything else to a tile.
template <typename T, typename U, typename E>
struct mutual {
    using type = tile<E, mutual_shape_t<tile_shape_t<T>, tile_shape_t<U>>>;
};
template <scalar T, scalar U, typename E>
struct mutual<T, U, E> {
    using type = E;
};
}  // namespace detail
template <tile_like T, tile_like U, scalar E>
    requires broadcast_compatible<T, U>
using mutual_broadcast_t = typename detail::mutual<T, U, __remove_cv(E)>::type;

namespace detail {
// The element type of an arithmetic conversion; `prefer_tile` is what tells operators from comparisons.
template <typename T, typename U, bool prefer_tile>
consteval auto conversion_element() {
    using A = tile_element_t<T>;
    using B = tile_element_t<U>;
    if constexpr (prefer_tile && scalar<T> && !scalar<U>) return type_is<B>{};
    else if constexpr (prefer_tile && scalar<U> && !scalar<T>) return type_is<A>{};
    else return common_arithmetic<A, B>();
}
template <typename From, typename To>
consteval bool arithmetic_step_allowed() {
    return !scalar_conversion_narrows<From, To>() || (is_integer_code(code_of<From>) && is_float_code(code_of<To>));
}
template <typename T, typename U, bool prefer_tile>
consteval bool has_arithmetic_common_type() {
    return !__is_same(decltype(conversion_element<T, U, prefer_tile>()), no_type);
}
template <typename T, typename U, bool prefer_tile>
consteval bool converts_without_narrowing() {
    using C = typename decltype(conversion_element<T, U, prefer_tile>())::type;
    return arithmetic_step_allowed<tile_element_t<T>, C>() && arithmetic_step_allowed<tile_element_t<U>, C>();
}
}  // namespace detail
template <typename T, typename U>
concept arithmetic_tile_convertible = arithmetic_tile<T> && arithmetic_tile<U> && broadcast_compatible<T, U> &&
                                      (detail::has_arithmetic_common_type<T, U, true>()) &&
                                      (detail::converts_without_narrowing<T, U, true>());
template <arithmetic_tile T, arithmetic_tile U>
    requires arithmetic_tile_convertible<T, U>
using arithmetic_tile_conversion_t =
    mutual_broadcast_t<T, U, typename decltype(detail::conversion_element<T, U, true>())::type>;
template <typename T, typename U>
concept arithmetic_tile_comparable = arithmetic_tile<T> && arithmetic_tile<U> && broadcast_compatible<T, U> &&
                                     (detail::has_arithmetic_common_type<T, U, false>()) &&
                                      (detail::converts_without_narrowing<T, U, false>());
template <arithmetic_tile T, arithmetic_tile U>
    requires arithmetic_tile_comparable<T, U>
using arithmetic_tile_comparison_t =
    mutual_broadcast_t<T, U, typename decltype(detail::conversion_element<T, U, false>())::type>;

namespace detail {
template <typename E>
consteval auto promoted() {
    if constexpr (__is_integral(E)) return type_is<decltype(+E{})>{};
    else return type_is<E>{};
}

template <typename T>
consteval bool singleton_tile() {
    return tile_size_v<T> == 1;
}
struct from_handle {};
template <typename T>
__tile__ inline __tw_tile handle(T const& x) noexcept {
    if constexpr (parts<T>::is_tile) return x.object.handle(tile_code<T>);
    else return wrap<__remove_cv(T)>(x);
}
template <typename T>
__tile__ inline T make(__tw_tile h) noexcept {
    if constexpr (parts<T>::is_tile) return T(from_handle{}, h);
    else return unwrap<T>(h);
}
// The handle of x after tile conversion to elements E, then broadcast conversion to shape S.
template <typename E, typename S, typename T>
__tile__ inline __tw_tile converted(T const& x) noexcept {
    using From = tile<tile_element_t<T>, tile_shape_t<T>>;
    using Cast = tile<E, tile_shape_t<T>>;
    __tw_tile h = handle(x);
    if constexpr (tile_code<From> != tile_code<Cast>) h = __tw_cast(tile_code<Cast>, h);
    if constexpr (!same_shape<tile_shape_t<T>, S>) h = __tw_broadcast(tile_code<tile<E, S>>, h);
    return h;
}
template <typename To, typename T>
__tile__ inline __tw_tile converted_to(T const& x) noexcept {
    return converted<tile_element_t<To>, tile_shape_t<To>>(x);
}
}  // namespace detail
template <arithmetic_tile T>
using arithmetic_tile_promotion_t =
    tile_with_element_t<T, typename decltype(detail::promoted<tile_element_t<T>>())::type>;

template <scalar E, tile_shape S>
struct tile final {
    static_assert(__is_same(E, __remove_cv(E)), "the element type of a tile must not be cv-qualified");
    static_assert(__is_same(S, __remove_cv(S)), "the shape of a tile must not be cv-qualified");
    using shape_type = S;
    using element_type = E;
    using rank_type = typename S::rank_type;

    tile() = default;
    template <tile_like O>
        requires tile_convertible_to<O, tile>
    __tile__ explicit(!non_narrowing_tile_convertible_to<O, tile>) tile(O other) noexcept
        : tile(detail::from_handle{}, detail::converted_to<tile>(other)) {}
    __tile__ tile(detail::from_handle, __tw_tile h) noexcept : object(detail::tile_code<tile>, h) {}

    // What assignment refuses, by the constraint that is not met.
    template <tile_like O>
        requires(tile_convertible_to<O, tile> && !non_narrowing_tile_convertible_to<O, tile>)
    tile& operator=(O const&) = delete(
        "the tile conversion is narrowing, so it must be explicit (non_narrowing_tile_convertible_to)");
    template <tile_like O>
        requires(!tile_convertible_to<O, tile>)
    tile& operator=(O const&) = delete("there is no tile conversion to the type that is assigned to (tile_convertible_to)");

    template <scalar O>
        requires(detail::singleton_tile<tile>()) && scalar_convertible_to<E, O>
    __tile__ explicit(!non_narrowing_scalar_convertible_to<E, O>) operator O() const noexcept {
        __tw_tile h = detail::handle(*this);
        if constexpr (detail::code_of<E> != detail::code_of<O>) h = __tw_cast(detail::tile_code<tile<O, S>>, h);
        if constexpr (S::rank() != 0) h = __tw_reshape(detail::code_of<O>, h);
        return detail::unwrap<O>(h);
    }

    using object_type = typename decltype(detail::object_of<E, S>())::type;
    object_type object = object_type(detail::tile_code<tile>, __tw_undefined(detail::tile_code<tile>));
};
template <scalar O>
tile(O) -> tile<__remove_cv(O), shape<>>;

}  // namespace cuda::tiles::inline v1

// What `kernel(...)` of the Python interface reads: the entry and the codes of its parameters.
namespace __tw {
template <typename R, typename... A>
struct kernel_entry {
    R (*function)(A...);
    unsigned long codes[sizeof...(A) + 1];
};
// An enumeration counts as its integer, and a pointer to a struct or to pointers as one to bytes.
template <typename T>
consteval unsigned parameter_code() {
    if constexpr (__is_enum(T)) return cuda::tiles::detail::code_of<__underlying_type(T)>;
    else if constexpr (__is_pointer(T) && cuda::tiles::detail::code_of<T> == cuda::tiles::detail::code_none)
        return cuda::tiles::detail::code_of<void*>;
    else return cuda::tiles::detail::code_of<T>;
}
template <typename R, typename... A>
constexpr kernel_entry<R, A...> describe(R (*function)(A...)) {
    return {function, {parameter_code<A>()..., 0}};
}
template <typename R, typename... A>
constexpr kernel_entry<R, A...> describe(R (*function)(A...) noexcept) {
    return describe(static_cast<R (*)(A...)>(function));
}
}  // namespace __tw
