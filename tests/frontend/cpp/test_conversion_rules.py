"""Sections 1.4, 1.7 and 2.1: every pair of scalar types, against the rules of the reference written down once more."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from cpp_harness import PREAMBLE

from tilewright.frontend.cpp.module import Module


@dataclass(frozen=True)
class Scalar:
    name: str
    category: str  # bool, signed, unsigned, basic, restricted
    width: int  # of integers: how many bits the type has
    rank: int  # conversion rank, among integers or among formats
    subrank: int = 2

    @property
    def integral(self) -> bool:
        return self.category in ("bool", "signed", "unsigned")

    @property
    def arithmetic(self) -> bool:
        return self.integral or self.category == "basic"


SCALARS = (
    Scalar("bool", "bool", 1, 0),
    Scalar("char", "signed", 8, 1, 0),
    Scalar("signed char", "signed", 8, 1),
    Scalar("unsigned char", "unsigned", 8, 1),
    Scalar("char8_t", "unsigned", 8, 1, 1),
    Scalar("short", "signed", 16, 2),
    Scalar("unsigned short", "unsigned", 16, 2),
    Scalar("char16_t", "unsigned", 16, 2, 1),
    Scalar("int", "signed", 32, 3),
    Scalar("unsigned", "unsigned", 32, 3),
    Scalar("char32_t", "unsigned", 32, 3, 1),
    Scalar("wchar_t", "signed", 32, 3, 1),
    Scalar("long", "signed", 64, 4),
    Scalar("unsigned long", "unsigned", 64, 4),
    Scalar("long long", "signed", 64, 5),
    Scalar("unsigned long long", "unsigned", 64, 5),
    Scalar("__nv_fp8_e4m3", "restricted", 8, 0),
    Scalar("__nv_fp8_e5m2", "restricted", 8, 0),
    Scalar("__half", "basic", 16, 1),
    Scalar("__nv_bfloat16", "basic", 16, 1),
    Scalar("__nv_tf32", "restricted", 32, 2),
    Scalar("float", "basic", 32, 3),
    Scalar("double", "basic", 64, 4),
)
ARITHMETIC = [s for s in SCALARS if s.arithmetic]
UNSIGNED_OF = {s.rank: s for s in SCALARS if s.category == "unsigned" and s.subrank == 2}


def holds_all(source: Scalar, target: Scalar) -> bool:
    """Whether the integer type ``target`` represents every value of ``source``."""
    if source.category == "signed":
        return target.category == "signed" and target.width >= source.width
    return target.width - (target.category == "signed") >= source.width


def narrows(source: Scalar, target: Scalar) -> bool:
    """Section 1.7.2: narrowing as the language defines it, with the formats ordered by conversion rank."""
    if source.integral and target.integral:
        return not holds_all(source, target)
    if source.integral or target.integral:
        return True
    return source != target and source.rank >= target.rank


def common(a: Scalar, b: Scalar) -> Scalar | None:
    """The arithmetic common type (1.7.4)."""
    if a == b:
        return a
    if not (a.integral and b.integral):
        formats = [s for s in (a, b) if not s.integral]
        if len(formats) == 1:
            return formats[0]
        return None if a.rank == b.rank else max(formats, key=lambda s: s.rank)
    if (a.category == "signed") != (b.category == "signed"):
        s, u = (a, b) if a.category == "signed" else (b, a)
        if u.rank > s.rank:
            return u
        return s if holds_all(u, s) else UNSIGNED_OF[s.rank]
    return max((a, b), key=lambda s: (s.rank, s.subrank))


def converts(source: Scalar, target: Scalar) -> bool:
    return not narrows(source, target) or (source.integral and not target.integral)


def compile_rows(head: str, rows: list[str]) -> None:
    """Compile ``rows`` of static assertions."""
    text = "\n".join([PREAMBLE, head, *rows, "__tile_global__ void k() {}"])
    assert Module(text).kernel("k").parameters == ()


HEAD = """
template <bool... B> struct row {};
template <typename... T> struct types {};
template <typename T> using t = ct::tile<T, ct::shape<4>>;
struct none {};
template <typename A, typename B> struct conversion { using type = none; };
template <typename A, typename B> requires ct::arithmetic_tile_convertible<A, B>
struct conversion<A, B> { using type = ct::tile_element_t<ct::arithmetic_tile_conversion_t<A, B>>; };
template <typename A, typename B> using converted = typename conversion<A, B>::type;
template <typename A, typename B> struct comparison { using type = none; };
template <typename A, typename B> requires ct::arithmetic_tile_comparable<A, B>
struct comparison<A, B> { using type = ct::tile_element_t<ct::arithmetic_tile_comparison_t<A, B>>; };
template <typename A, typename B> using compared = typename comparison<A, B>::type;
"""


def test_narrowing_of_all_pairs() -> None:
    rows = []
    for source in SCALARS:
        exist = ", ".join(f"ct::scalar_convertible_to<{source.name}, {u.name}>" for u in SCALARS)
        keep = ", ".join(f"ct::non_narrowing_scalar_convertible_to<{source.name}, {u.name}>" for u in SCALARS)
        tiles = ", ".join(f"ct::non_narrowing_tile_convertible_to<t<{source.name}>, t<{u.name}>>" for u in SCALARS)
        want = ", ".join(str(not narrows(source, u)).lower() for u in SCALARS)
        rows += [f"static_assert(__is_same(row<{got}>, row<{want}>));" for got in (keep, tiles)]
        rows.append(f"static_assert(__is_same(row<{exist}>, row<{', '.join(['true'] * len(SCALARS))}>));")
    compile_rows(HEAD, rows)


def test_arithmetic_conversions_of_all_pairs() -> None:
    """Of two scalars, of a scalar with a tile, and in comparisons, which prefer no side."""
    rows = []
    for a in ARITHMETIC:
        got: list[str] = []
        want: list[str] = []
        for b in ARITHMETIC:
            both = common(a, b)
            if both is not None and not (converts(a, both) and converts(b, both)):
                both = None
            same = both.name if both else "none"
            got += [
                f"converted<{a.name}, {b.name}>",
                f"converted<{a.name}, t<{b.name}>>",
                f"compared<t<{a.name}>, {b.name}>",
            ]
            want += [same, b.name if converts(a, b) else "none", same]
        rows.append(f"static_assert(__is_same(types<{', '.join(got)}>, types<{', '.join(want)}>));")
    compile_rows(HEAD, rows)


CATEGORIES = {
    "integral": lambda s: s.integral,
    "basic_floating_point": lambda s: s.category == "basic",
    "restricted_floating_point": lambda s: s.category == "restricted",
    "floating_point": lambda s: not s.integral,
    "arithmetic": lambda s: s.arithmetic,
    "numeric": lambda s: True,
    "pointer": lambda s: False,
}


def test_categories_of_all_scalars() -> None:
    rows = []
    for (name, belongs), s in product(CATEGORIES.items(), SCALARS):
        want = str(bool(belongs(s))).lower()
        rows += [
            f"static_assert(ct::{name}_scalar<{s.name}{cv}> == {want} && ct::{name}_tile<{s.name}{cv}> == {want});"
            for cv in ("", " const", " volatile", " const volatile")
        ]
        rows.append(f"static_assert(ct::{name}_tile<t<{s.name}> const> == {want} && !ct::{name}_scalar<t<{s.name}>>);")
        rows.append(f"static_assert(ct::{name}_tile<t<{s.name}*>> == {str(name == 'pointer').lower()});")
    compile_rows(HEAD, rows)


NOT_TILE_LIKE = """
struct user { int a; }; struct incomplete; enum plain { zero }; enum class scoped : int {}; enum class bytes : unsigned char {};
template <typename T> inline constexpr bool refused = !ct::tile_like<T> && !ct::scalar<T> && !ct::numeric_tile<T> &&
    !ct::pointer_tile<T> && !ct::integral_scalar<T> && !ct::bool_tile_convertible<T> && !ct::extents_like<T> &&
    !ct::shape_like<T> && !ct::tile_shape<T> && !ct::arithmetic_tile_convertible<T, int> && !ct::broadcast_compatible<int, T> &&
    !ct::scalar_convertible_to<T, int> && !ct::scalar_convertible_to<int, T> && !ct::same_shape<T, ct::shape<>>;
"""
NO_TILES = (
    *("user", "user*", "incomplete", "incomplete*", "plain", "plain*", "scoped", "bytes", "decltype(nullptr)", "void"),
    *("void const", "int&", "int const&", "int&&", "int[4]", "int[]", "int()", "int (*)()", "int user::*", "int**"),
    *("__int128", "unsigned __int128", "__int128*", "long double", "long double*", "t<int>&", "t<int>*", "t<int>[2]"),
    *("int (&)[4]", "int (*)[4]", "_Float16", "__bf16"),
)


def test_what_is_not_tile_like() -> None:
    compile_rows(HEAD + NOT_TILE_LIKE, [f"static_assert(refused<{name}>);" for name in NO_TILES])


# Concept, a type that meets it, and what the notes of section 2.1.2 and the declarations of 2.1.5 say it subsumes.
SUBSUMED = (
    ("arithmetic_scalar<T>", "int", ("numeric_tile<T>", "numeric_scalar<T>", "arithmetic_tile<T>", "scalar<T>")),
    ("floating_point_scalar<T>", "__nv_tf32", ("numeric_tile<T>", "numeric_scalar<T>", "floating_point_tile<T>")),
    (
        "basic_floating_point_scalar<T>",
        "__half",
        ("floating_point_tile<T>", "arithmetic_tile<T>", "floating_point_scalar<T>", "arithmetic_scalar<T>"),
    ),
    ("restricted_floating_point_scalar<T>", "__nv_tf32", ("floating_point_tile<T>", "floating_point_scalar<T>")),
    ("integral_scalar<T>", "bool", ("arithmetic_tile<T>", "arithmetic_scalar<T>", "integral<T>", "integral_tile<T>")),
    ("pointer_scalar<T>", "int*", ("pointer_tile<T>", "scalar<T>", "tile_like<T>")),
    ("tile_shape<T>", "ct::shape<4>", ("shape_like<T>", "extents_like<T>")),
    ("same_shape<T, T>", "ct::shape<3>", ("shape_like<T>",)),
    ("non_narrowing_tile_convertible_to<T, int>", "int", ("tile_convertible_to<T, int>", "tile_like<T>")),
    ("non_narrowing_scalar_convertible_to<T, int>", "int", ("scalar_convertible_to<T, int>", "scalar<T>")),
    ("bool_tile_convertible<T>", "t<int*>", ("tile_like<T>",)),
    ("arithmetic_tile_convertible<T, int>", "t<int>", ("arithmetic_tile<T>", "broadcast_compatible<T, int>")),
    ("arithmetic_tile_comparable<T, int>", "t<int>", ("arithmetic_tile<T>", "broadcast_compatible<T, int>")),
)


def test_subsumption() -> None:
    """Of two functions, the one whose constraint subsumes the other's is called."""
    rows = []
    for number, (concept, example, subsumed) in enumerate(SUBSUMED):
        for weaker, other in enumerate(subsumed):
            f = f"chosen_{number}_{weaker}"
            rows.append(f"template <typename T> requires ct::{other} consteval bool {f}() {{ return false; }}")
            rows.append(f"template <typename T> requires ct::{concept} consteval bool {f}() {{ return true; }}")
            rows.append(f"static_assert({f}<{example}>());")
    compile_rows(HEAD, rows)
