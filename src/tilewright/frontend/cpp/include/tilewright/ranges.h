// Integer ranges (section 2.14).
#pragma once
#pragma clang system_header

namespace cuda::tiles::inline v1 {
namespace detail {
template <integral T>
struct irange_sentinel {
    static_assert(__is_same(T, __remove_cv(T)), "the type of a range must not be cv-qualified");
    constexpr irange_sentinel() noexcept = default;
    __tile__ constexpr irange_sentinel(T end) noexcept : end_{end} {}
    T end_{};
};
}  // namespace detail

template <integral T>
struct irange_iterator {
    static_assert(!__is_const(T), "the type of a range must not be const");
    using difference_type = int64_t;
    using value_type = T;

    constexpr irange_iterator() noexcept = default;
    __tile__ constexpr irange_iterator(T current, T step) noexcept : current_{current}, step_{step} {}
    __tile__ constexpr T operator*() const noexcept { return current_; }
    __tile__ constexpr irange_iterator& operator++() noexcept {
        current_ += step_;
        return *this;
    }
    __tile__ constexpr irange_iterator operator++(int) noexcept {
        irange_iterator before = *this;
        ++*this;
        return before;
    }
    __tile__ constexpr bool operator==(irange_iterator const& other) const noexcept {
        return current_ == other.current_;
    }
    __tile__ constexpr bool operator==(detail::irange_sentinel<T> const& other) const noexcept {
        return !(current_ < other.end_);
    }

  private:
    T current_{};
    T step_{};
};

template <integral T>
struct irange {
    static_assert(!__is_const(T), "the type of a range must not be const");
    using iterator = irange_iterator<T>;
    using const_iterator = irange_iterator<T>;

    __tile__ constexpr irange(T lb, T ub, T step = 1) noexcept
        __attribute__((diagnose_if(step <= 0, "the step of a range must be positive", "error")))
        : lb_{lb}, ub_{ub}, step_{step} {
        TW_REQUIRE(step > 0, irange_step, step, 0);
        TW_REQUIRE(step <= 0 || ub <= 0 || ub - 1 <= largest - step, irange_bound, ub, step);
    }
    __tile__ constexpr iterator begin() const noexcept { return {lb_, step_}; }
    __tile__ constexpr detail::irange_sentinel<T> end() const noexcept { return {ub_}; }
    __tile__ constexpr bool empty() const noexcept { return !(lb_ < ub_); }
    __tile__ constexpr typename iterator::difference_type size() const noexcept {
        if (empty()) return 0;
        // The distance of two signed bounds may fit no signed type.
        uint64_t distance = uint64_t(ub_) - uint64_t(lb_), step = uint64_t(step_);
        return typename iterator::difference_type(distance / step + (distance % step != 0));
    }
    __tile__ constexpr T lower_bound() const noexcept { return lb_; }
    __tile__ constexpr T upper_bound() const noexcept { return ub_; }
    __tile__ constexpr T step() const noexcept { return step_; }

  private:
    static constexpr T largest = T(-1) > T(0) ? T(-1) : T(~(unsigned long)0 >> (65 - 8 * sizeof(T)));
    T lb_;
    T ub_;
    T step_;
};
template <typename U1, typename U2>
irange(U1, U2) -> irange<arithmetic_tile_conversion_t<U1, U2>>;
template <typename U1, typename U2, typename U3>
irange(U1, U2, U3) -> irange<arithmetic_tile_conversion_t<arithmetic_tile_conversion_t<U1, U2>, U3>>;

}  // namespace cuda::tiles::inline v1
