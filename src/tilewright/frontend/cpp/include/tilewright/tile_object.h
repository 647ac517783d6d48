// What a tile is as an object: of the size of its elements, aligned as one of them (section 2.9.1).
#pragma once
#pragma clang system_header

namespace cuda::tiles::inline v1::detail {

// Eight bytes or more: the handle. The bytes after it are never read nor written.
template <size_t Size, size_t Align>
struct __attribute__((packed, aligned(Align))) object_of_handle {
    __tw_tile held;
    unsigned char rest[Size - sizeof(__tw_tile)];

    __tile__ constexpr object_of_handle(uint64_t, __tw_tile h) noexcept : held(h) {}
    __tile__ __tw_tile handle(uint64_t) const noexcept { return held; }
};
// A single smaller element: that element.
template <typename E, bool HasRank>
struct object_of_element {
    E element;

    __tile__ constexpr object_of_element(uint64_t, __tw_tile h) noexcept
        : element(unwrap<E>(HasRank ? __tw_reshape(code_of<E>, h) : h)) {}
    __tile__ __tw_tile handle(uint64_t type) const noexcept {
        return HasRank ? __tw_reshape(type, wrap(element)) : wrap(element);
    }
};
// Two or four bytes in several elements: those bytes.
template <size_t Align>
struct __attribute__((packed, aligned(Align))) object_of_two_bytes {
    unsigned short bits;

    __tile__ constexpr object_of_two_bytes(uint64_t type, __tw_tile h) noexcept : bits(__tw_pack_i16(type, h)) {}
    __tile__ __tw_tile handle(uint64_t type) const noexcept { return __tw_unpack_i16(type, bits); }
};
template <size_t Align>
struct __attribute__((packed, aligned(Align))) object_of_four_bytes {
    unsigned int bits;

    __tile__ constexpr object_of_four_bytes(uint64_t type, __tw_tile h) noexcept : bits(__tw_pack_i32(type, h)) {}
    __tile__ __tw_tile handle(uint64_t type) const noexcept { return __tw_unpack_i32(type, bits); }
};

template <typename E, typename S>
consteval auto object_of() {
    constexpr size_t count = shape_size_v<S>, size = sizeof(E) * count;
    if constexpr (size >= sizeof(__tw_tile)) return type_is<object_of_handle<size, alignof(E)>>{};
    else if constexpr (count == 1) return type_is<object_of_element<E, S::rank() != 0>>{};
    else if constexpr (size == 2) return type_is<object_of_two_bytes<alignof(E)>>{};
    else return type_is<object_of_four_bytes<alignof(E)>>{};
}

}  // namespace cuda::tiles::inline v1::detail
