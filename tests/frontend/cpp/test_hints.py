"""Optimization hints (section 2.16): every placement and form, what they apply to, and what is ignored."""

from __future__ import annotations

from typing import Any

import pytest
from cpp_harness import FIRST_LINE, PREAMBLE, refused

from tilewright.frontend.cpp.attributes import rewrite_hints
from tilewright.frontend.cpp.module import Module
from tilewright.ir.errors import TileError, TileSyntaxError
from tilewright.ir.hints import ByTarget
from tilewright.ir.location import Loc

HELPERS = """
using v4 = ct::tile<int, ct::shape<4>>;
constexpr int five = 5;
enum level { low = 2 };
constexpr int twice(int x) { return 2 * x; }
template <int A, int B> constexpr int sum_of() { return A + B; }
__tile__ int inner(int* p) { return ct::load(p); }
__tile__ int hinted(int* p) { int x; [[cutile::hint(0, latency=3)]] x = ct::load(p); return x; }
template <int N> __tile__ int dependent(int* p) { int x; [[cutile::hint(0, latency=N)]] x = ct::load(p); return x; }
template <int... N> __tile__ int packed(int* p) {
    int x; [[ cutile::hint(N, latency = N / 100)... ]] x = ct::load(p); return x; }
struct object { int* p; __tile__ void fill(int& x) { [[cutile::hint(0, latency=2)]] x = ct::load(p); } };
#define LOAD(target, from) target = ct::load(from)
"""
MACROS = """
#define STATEMENT(n, from) [[cutile::hint(0, latency=n)]] x = ct::load(from)
#define SLOW [[cutile::hint(0, latency=10)]]
#define ENTRY __tile_global__ void
#define KERNEL(name) [[cutile::hint(0, occupancy=9)]] __tile_global__ void name
"""
NONE: dict[str, Any] = {}


def latency(value: Any) -> dict[str, Any]:
    return {"latency": value}


# Statements of a kernel, and the hints of their memory operations.
STATEMENTS: dict[str, list[dict[str, Any]]] = {
    # Specification.
    "[[ cutile::hint(0, latency=4) ]] x = ct::load(p);": [latency(4)],
    "[[ cutile::hint(0, latency=(4, 3)) ]] x = ct::load(p);": [latency(3)],
    "[ [cutile :: hint (0 , latency = 4 )] ]x = ct::load(p);": [latency(4)],
    "[[ cutile::hint(0, latency=4) /* ]] */ ]] // , 5\n x = ct::load(p);": [latency(4)],
    "[[ cutile::hint(0, latency=five) ]] x = ct::load(p);": [latency(5)],
    "[[ cutile::hint(0, latency=twice(4) + (1 << 1)) ]] x = ct::load(p);": [latency(10)],
    "[[ cutile::hint(0, latency=sum_of<3, 4>()) ]] x = ct::load(p);": [latency(7)],
    "[[ cutile::hint(0, latency=five > 4 ? 2, 6 : 7) ]] x = ct::load(p);": [latency(6)],
    "[[ cutile::hint(0, latency=low) ]] x = ct::load(p);": [latency(2)],
    "[[ cutile::hint(0, latency=9_ic) ]] x = ct::load(p);": [latency(9)],
    "[[ cutile::hint(0, latency='a' - 'Y') ]] x = ct::load(p);": [latency(8)],
    "[[ cutile::hint(sizeof(int) * 225, latency=0x4u) ]] x = ct::load(p);": [latency(ByTarget(sm_90=4))],
    # Several hints: the last one wins, an architecture beats none.
    "[[ cutile::hint(0, latency=4, latency=5) ]] x = ct::load(p);": [latency(5)],
    "[[ cutile::hint(0, latency=4) ]]\n[[ cutile::hint(0, latency=5) ]] x = ct::load(p);": [latency(5)],
    "[[ using cutile :\n hint(0, latency=4),\n hint(0, latency=5)\n]] x = ct::load(p);": [latency(5)],
    "[[ cutile::hint(0, latency=4), cutile::hint(0, latency=6) ]] x = ct::load(p);": [latency(6)],
    "[[ cutile::hint(0, latency=4, latency=11) ]] x = ct::load(p);": [latency(4)],
    "[[ using cutile : hint(0, latency=4), hint(1000, latency=5) ]] ct::load(p);": [
        latency(ByTarget(default=4, sm_100=5))
    ],
    "[[ using cutile : hint(900, latency=4), hint(0, latency=5), hint(900, latency=6) ]] x = ct::load(p);": [
        latency(ByTarget(default=5, sm_90=6))
    ],
    "[[ cutile::hint(1210, latency=1) ]] x = ct::load(p);": [latency(ByTarget(sm_121=1))],
    # Kinds, values and architectures that do not exist.
    "[[ cutile::hint(0, latency=0) ]] [[ cutile::hint(0, latency=-4294967295) ]] x = ct::load(p);": [NONE],
    "[[ cutile::hint(0, speed=4, class=1, occupancy=2) ]] x = ct::load(p);": [NONE],
    "[[ cutile::hint(90, latency=4) ]] [[ cutile::hint(905, latency=4), cutile::hint(-1, latency=4) ]] x = ct::load(p);": [
        NONE
    ],
    "[[ cutile::hint(4294968196, latency=4), cutile::fast, cutile::hints(0) ]] x = ct::load(p);": [NONE],
    # Other attributes.
    "[[ cutile::hint(0, latency=4), likely ]] x = ct::load(p);": [latency(4)],
    "if (n) [[likely]] [[ cutile::hint(0, latency=4) ]] x = ct::load(p);": [latency(4)],
    "[[ cutile::hint(0, latency=4) ]] [[maybe_unused]] int y = ct::load(p); x = y;": [NONE],
    # Statements that are no expression statements.
    "[[ cutile::hint(0, latency=4) ]] auto y = ct::load(p); x = y;": [NONE],
    "[[ cutile::hint(0, latency=4) ]] v4 y = ct::load(q + ct::iota<v4>());": [NONE],
    "[[ cutile::hint(0, latency=4) ]] ct::tile<int, ct::shape<>> y(ct::load(p));": [NONE],
    "[[ cutile::hint(0, latency=4) ]] if (auto y = ct::load(p)) { x = y; }": [NONE],
    "[[ cutile::hint(0, latency=4) ]] { x = ct::load(p); }": [NONE],
    "[[ cutile::hint(0, latency=4) ]] for (int i = 0; i < n; ++i) x = ct::load(p);": [NONE],
    "[[ cutile::hint(0, latency=4) ]] again: x = ct::load(p); if (x > n) goto again;": [NONE],
    "[[ cutile::hint(0, latency=4) ]]; x = ct::load(p);": [NONE],
    "x = [&] { [[ cutile::hint(0, latency=4) ]] return ct::load(p); }();": [NONE],
    # Expression statements in all places.
    "if (n > 1) [[ cutile::hint(0, latency=4) ]] x = ct::load(p); else [[ cutile::hint(0, latency=5) ]] x = ct::load(q);": [
        latency(4),
        latency(5),
    ],
    "if (n > 1) { [[ cutile::hint(0, latency=4) ]] x = ct::load(p); } else { [[ cutile::hint(0, latency=4) ]] x = ct::load(q); }": [
        latency(4),
        latency(4),
    ],
    "for (int i = 0; i < n; ++i) [[ cutile::hint(0, latency=4) ]] x += ct::load(p + i);": [latency(4)],
    "do [[ cutile::hint(0, latency=4) ]] x += ct::load(p); while (x < n);": [latency(4)],
    "switch (n) { case 1: [[ cutile::hint(0, latency=1) ]] x = ct::load(p); break; default: [[ cutile::hint(0, latency=2) ]] x = ct::load(q); }": [
        latency(1),
        latency(2),
    ],
    "[[ cutile::hint(0, latency=4) ]] x = ct::load(p); x += ct::load(q);": [latency(4), NONE],
    "x = ct::load(p); [[ cutile::hint(0, latency=4) ]] x += ct::load(q);": [NONE, latency(4)],
    "[[ cutile::hint(0, latency=4) ]] x = ct::load(p); [[ cutile::hint(0, latency=5) ]] x += ct::load(q);": [
        latency(4),
        latency(5),
    ],
    "[[ cutile::hint(0, latency=4) ]]\n x = ct::load(p)\n   + ct::load(q);": [latency(4), latency(4)],
    "[[ cutile::hint(0, latency=4) ]] LOAD(x, p); LOAD(x, q);": [latency(4), NONE],
    # Only direct calls; what a called function does has hints of its own.
    "[[ cutile::hint(0, latency=4) ]] x = inner(p) + ct::load(q);": [NONE, latency(4)],
    "[[ cutile::hint(0, latency=4) ]] x = hinted(p) + ct::load(q);": [latency(3), latency(4)],
    "[[ cutile::hint(0, latency=4) ]] x = [&] { return ct::load(p); }() + ct::load(q);": [NONE, latency(4)],
    "[[ cutile::hint(0, latency=4) ]] x = [&] { int y; [[ cutile::hint(0, latency=5) ]] y = ct::load(p); return y; }() + ct::load(q);": [
        latency(5),
        latency(4),
    ],
    "[[ cutile::hint(0, latency=4) ]] [&] { x = ct::load(p); }();": [NONE],
    "[&]<class T>(T y) { [[ cutile::hint(0, latency=4) ]] x = ct::load(y); }(p);": [latency(4)],
    "[[ cutile::hint(0, latency=4) ]] x = p[0] + *q;": [NONE, NONE],
    "x = dependent<6>(p) + dependent<7>(p) + dependent<11>(p);": [latency(6), latency(7), NONE],
    "x = packed<900, 1000>(p) + packed<>(p) + packed<800>(p);": [
        latency(ByTarget(sm_90=9, sm_100=10)),
        NONE,
        latency(ByTarget(sm_80=8)),
    ],
    "object o{p}; o.fill(x); [[ cutile::hint(0, latency=1) ]] o.fill(x);": [latency(2), latency(2)],
    # Every memory operation that takes them, and those that do not.
    "[[ cutile::hint(0, latency=4, allow_tma=false) ]] ct::store(p, n);": [latency(4)],
    "[[ cutile::hint(0, latency=4) ]] ct::atomic_store(p, ct::atomic_load(q, ct::memory_order_relaxed_t{}), ct::memory_order_relaxed_t{});": [
        latency(4),
        latency(4),
    ],
    "[[ cutile::hint(0, latency=4) ]] ct::store_masked(p, ct::load_masked(q, n > 1, 0), n > 2);": [latency(4)] * 2,
    "[[ cutile::hint(0, latency=4) ]] ct::atomic_add(p, 1, ct::memory_order_relaxed_t{});": [NONE],
    "[[ cutile::hint(0, allow_tma=false) ]] v.store(v.load(0), 0);": [{"allow_tma": False}] * 2,
    "[[ using cutile : hint(0, latency=7, allow_tma=true), hint(900, allow_tma=0) ]] v.store_masked(v.load_masked(0), 0);": [
        {"latency": 7, "allow_tma": ByTarget(default=True, sm_90=False)}
    ]
    * 2,
    "[[ cutile::hint(0, allow_tma=2) ]] v.atomic_store(v.atomic_load(ct::memory_order_relaxed_t{}, 0), ct::memory_order_relaxed_t{}, 0);": [
        NONE
    ]
    * 2,
}
IN_MACROS: dict[str, list[dict[str, Any]]] = {
    "STATEMENT(6, p);": [latency(6)],
    "STATEMENT(low + 1, p); x += ct::load(q);": [latency(3), NONE],
    "SLOW x = ct::load(p); x += ct::load(q);": [latency(10), NONE],
}
# Declarations of kernels called k, and their hints.
KERNELS: dict[str, dict[str, Any]] = {
    "[[ cutile::hint(0, occupancy=4) ]] __tile_global__ void k() {}": {"occupancy": 4},
    "[[ cutile::hint(0, occupancy=4, num_cta_in_cga=8) ]] __tile_global__ void k() {}": {"occupancy": 4, "num_ctas": 8},
    "[[ using cutile :\n hint(900, num_cta_in_cga=4),\n hint(1000, num_cta_in_cga=8) ]]\n__tile_global__ void k() {}": {
        "num_ctas": ByTarget(sm_90=4, sm_100=8)
    },
    "[[ using cutile : hint(0, occupancy=15), hint(900, occupancy=22) ]] __tile_global__ void k() {}": {
        "occupancy": ByTarget(default=15, sm_90=22)
    },
    "[[ cutile::hint(0, occupancy=4) ]] [[ cutile::hint(0, occupancy=5, occupancy=33) ]] __tile_global__ void k() {}": {
        "occupancy": 5
    },
    "[[ cutile::hint(0, occupancy=4) ]] __tile_global__ void k();\n[[ cutile::hint(0, occupancy=5) ]] __tile_global__ void k() {}": {
        "occupancy": 5
    },
    "__tile_global__ [[ cutile::hint(0, occupancy=4) ]] void k() {}": {"occupancy": 4},
    "__tile_global__ void k [[ cutile::hint(0, occupancy=4) ]] () {}": {"occupancy": 4},
    "[[ noreturn, cutile::hint(0, occupancy=4) ]] __tile_global__ void k() { while (true) {} }": {"occupancy": 4},
    'extern "C" { [[ cutile::hint(0, occupancy=4) ]] __tile_global__ void k() {} }': {"occupancy": 4},
    "[[ cutile::hint(0, num_cta_per_cga=4, occupancy=33, num_cta_in_cga=3) ]] __tile_global__ void k() {}": NONE,
    "[[ cutile::hint(800, num_cta_in_cga=2), cutile::hint(800, occupancy=2) ]] __tile_global__ void k() {}": {
        "occupancy": ByTarget(sm_80=2)
    },
    "[[ cutile::hint(90, occupancy=2), cutile::hint(0, latency=2) ]] __tile_global__ void k() {}": NONE,
    # Of the function's type, of a parameter, of other declarations.
    "__tile_global__ void k() [[ cutile::hint(0, occupancy=4) ]] {}": NONE,
    "__tile_global__ void k([[ cutile::hint(0, occupancy=4) ]] int n) {}": NONE,
    "[[ cutile::hint(0, occupancy=4) ]] __tile__ int f() { return 1; }\n__tile_global__ void k() {}": NONE,
    "[[ cutile::hint(0, occupancy=4) ]] constexpr int x = 1; struct [[ cutile::hint(0, occupancy=4) ]] s { [[ cutile::hint(0, latency=4) ]] s(); [[ cutile::hint(0, latency=4) ]] int y; };\n__tile_global__ void k() {}": NONE,
    # Templates.
    "template <int N> [[ cutile::hint(0, occupancy=N) ]] __tile_global__ void k() {} // <3>": {"occupancy": 3},
    "template <int N> requires (N > 2) [[ cutile::hint(N * 100, occupancy=N) ]] __tile_global__ void k() {} // <9>": {
        "occupancy": ByTarget(sm_90=9)
    },
    "template <int... N> [[ cutile::hint(N, occupancy = N / 100) ... ]] __tile_global__ void k() {} // <900, 1000>": {
        "occupancy": ByTarget(sm_90=9, sm_100=10)
    },
    "template <int... N> [[ cutile::hint(900, occupancy = N) ... ]] __tile_global__ void k() {} // <7, 3>": {
        "occupancy": ByTarget(sm_90=3)
    },
    "template <int... N> [[ cutile::hint(N, occupancy = 2) ... ]] __tile_global__ void k() {} // <>": NONE,
    # In macros.
    "[[ cutile::hint(0, occupancy=9) ]] ENTRY k() {}": {"occupancy": 9},
    "KERNEL(k)() {}": {"occupancy": 9},
}


@pytest.mark.parametrize("macros", [False, True])
def test_hints_of_statements(macros: bool) -> None:
    cases = {**STATEMENTS, **IN_MACROS} if macros else STATEMENTS
    kernels = [
        f"""__tile_global__ void k{i}(int* p, int* q, int n, int* out) {{
            ct::partition_view v{{ct::tensor_span{{p, ct::extents{{8_ic}}}}, ct::shape{{4_ic}}}};
            int x = 0;
            {statement}
            *out = x; }}"""
        for i, statement in enumerate(cases)
    ]
    module = Module(PREAMBLE + HELPERS + MACROS * macros + "\n".join(kernels), "user.cu")
    for kernel, (statement, expected) in zip(module.load(*(f"k{i}" for i in range(len(kernels)))), cases.items()):
        found = [
            {kind: op.attributes[kind] for kind in ("latency", "allow_tma") if op.attributes.get(kind) is not None}
            for op in kernel.function.walk()
            if op.name in ("load", "store", "load_view", "store_view", "atomic_rmw")
        ]
        assert found == [*expected, NONE], statement


def test_hints_of_kernels() -> None:
    spaces = [d if "extern" in d else f"namespace n{i} {{ {d}\n}}" for i, d in enumerate(KERNELS)]
    names = [
        ("k" if "extern" in d else f"n{i}::k") + (d.rpartition("// ")[2] if "// <" in d else "")
        for i, d in enumerate(KERNELS)
    ]
    module = Module(PREAMBLE + HELPERS + MACROS + "\n".join(spaces), "user.cu")
    for kernel, (declaration, expected) in zip(module.load(*names), KERNELS.items()):
        assert kernel.function.hints == expected, declaration


@pytest.mark.parametrize(
    ("attribute", "words"),
    [
        ("cutile::hint", "is not of the form cutile::hint"),
        ("cutile::hint()", "needs an architecture"),
        ("cutile::hint(0)", "at least one kind = value"),
        ("cutile::hint(0, latency=4, 3)", "'3' in a cutile::hint is not of the form kind = value"),
        ("cutile::hint(0, latency=4,)", "'' in a cutile::hint is not of the form kind = value"),
        ("cutile::hint(latency=4)", "at least one kind = value"),
        ("cutile::hint(0, latency==4)", "is not of the form kind = value"),
        ('cutile::hint(0, "latency"=4)', "is not of the form kind = value"),
        ("cutile::hint(0, latency)", "is not of the form kind = value"),
        ("cutile::hint(0, latency=)", "is not of the form kind = value"),
    ],
)
def test_malformed_hints(attribute: str, words: str) -> None:
    error = refused(f"\n[[ {attribute} ]] ct::store(p, 1);")
    assert isinstance(error, TileSyntaxError)
    assert words in error.message
    assert error.loc is not None
    assert error.loc.line == FIRST_LINE + 3


@pytest.mark.parametrize("attribute", ["0, latency=n", "n, latency=4", "0, latency=4.0", "0, latency=nowhere"])
def test_hints_need_integral_constant_expressions(attribute: str) -> None:
    error = refused(f"\n[[ cutile::hint({attribute}) ]] ct::store(p, 1);")
    assert error.loc is not None
    assert error.loc.line == FIRST_LINE + 3


@pytest.mark.parametrize("hint", ["0, occupancy=4.5", "0, occupancy=nowhere"])
def test_hints_of_kernels_need_integral_constant_expressions(hint: str) -> None:
    with pytest.raises(TileError) as caught:
        Module(f"{PREAMBLE}\n[[ cutile::hint({hint}) ]] __tile_global__ void k() {{}}", "user.cu").kernel("k")
    assert caught.value.loc is not None
    assert (caught.value.loc.file, caught.value.loc.line) == ("user.cu", FIRST_LINE + 1)


@pytest.mark.parametrize(
    "text",
    [
        "int a[3]; auto f = a[ [] { return 1; }()];",
        "// [[cutile::hint(0)]]",
        'char const* s = "[[cutile::hint(0, latency=1)]]";',
        "[[nodiscard]] int f(); [[maybe_unused]] int cutile;",
    ],
)
def test_other_text_is_left_alone(text: str) -> None:
    assert rewrite_hints(text, "t.cu") == text


@pytest.mark.parametrize("before", ["", "f([&] { "])
def test_lines_and_columns_stay(before: str) -> None:
    after = " });" if before else ""
    body = f"""{before}[[ using cutile : hint(0, latency=1), // one ]]
  hint(900, latency=2), hint(0, allow_tma=false) ]]
    q = 5;{after}"""
    assert refused(body, code="template <typename F> void f(F g) { g(); }").loc == Loc("user.cu", FIRST_LINE + 4, 8)
    for line in ("[[ cutile::hint(0, latency=1) ]] n = 5; q = 8;", "[[ cutile::hint(0, latency=1) ]] q = n - 8;"):
        column = line.index("8") if "n -" not in line else line.index("n -") + 2
        assert refused(line).loc == Loc("user.cu", FIRST_LINE + 2, column)
    line = "[[ cutile::hint(0, latency=1) ]] auto x = nowhere;"
    assert refused(line).loc == Loc("user.cu", FIRST_LINE + 2, line.index("nowhere"))
    with pytest.raises(TileError) as caught:
        Module(f"{PREAMBLE}[[cutile::hint(0, occupancy=4)]] __tile_global__ void k(nothing p) {{}}").kernel("k")
    assert caught.value.loc == Loc("<tile C++>", FIRST_LINE, 56)


def test_statements_side_by_side() -> None:
    source = "__tile_global__ void k(int* p) { int x; [[cutile::hint(0, latency=1)]]x=ct::load(p);ct::store(p, x);}"
    load, store = (op for op in Module(PREAMBLE + source).kernel("k").function.walk() if op.name in ("load", "store"))
    assert (load.attributes["latency"], store.attributes.get("latency")) == (1, None)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_literals_and_line_ends(line_end: str) -> None:
    source = """\ufeff#include "cuda_tile.h"
        [[cutile::hint(0, occupancy=1'2)]] __tile_global__ void k(int* p) {
        char const* s = R"x([[cutile::hint(0)]] )" )x"; char q = '"'; (void)s; (void)q;
        int x; /* [[cutile::hint( */ [[cutile::hint(0, latency=1'0)]] x = cuda::tiles::load(p + 1'000 - 1'000); // ' \\
        [[cutile::hint(0)]]
        [[cutile::hint(0, latency=2)]] cuda::tiles::store(p + 2'0, x); }"""
    function = Module(source.replace("\n", line_end)).kernel("k").function
    assert function.hints == {"occupancy": 12}
    assert [op.attributes["latency"] for op in function.walk() if op.name in ("load", "store")] == [10, 2]
