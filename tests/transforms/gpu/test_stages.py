"""The passes from pointers to the gpu stage, text in and text out, with one or two warps."""

from __future__ import annotations

import re

import pytest
from support.gpu_text import flat, layout, line
from support.passes import check

from tilewright.ir.errors import TileError
from tilewright.ir.gpu_stage import verify_gpu
from tilewright.ir.ops.gpu.memory import SharedAlloc
from tilewright.ir.ops.gpu.tiles import ConvertLayout
from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.transforms.gpu.allocate_shared import AllocateShared, shared_bytes
from tilewright.transforms.gpu.assign_layouts import AssignLayouts
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.gpu.lower_conversions import LowerConversions
from tilewright.transforms.gpu.lower_reductions import LowerReductions

V4 = layout(line(1, 2), line(4, 8, 16, 32, 64))  # 128 elements in one warp, four side by side
ROW = layout(line(), line(1, 2, 4, 8, 16), line(32))  # 64 elements in two warps
HALVES = layout(line(), line(2, 4, 8, 16, 32), line(1))
HEAD_2 = 'func @f(%p: ptr<f32> = "x".base, %q: ptr<f32> = "y".base) hints {num_warps = 2} {'


def test_accesses_are_coalesced_and_wide() -> None:
    """Sixteen bytes a thread, for a pointer that is promised to be aligned and a mask in steps of four."""
    check(
        AssignLayouts(1),
        """
func @add_one(%p: ptr<f32> = "x".base, %n: i32 = "n".scalar) {
  %a = assume_divisible(%p) {divisor = 16} : ptr<f32>
  %m = assume_divisible(%n) {divisor = 4} : i32
  %b = reshape(%a) {shape = (1)} : ptr<f32>[1]
  %c = broadcast(%b) {shape = (128)} : ptr<f32>[128]
  %i = iota() {type = !i32[128]} : i32[128]
  %d = ptr_offset(%c, %i) : ptr<f32>[128]
  %e = reshape(%m) {shape = (1)} : i32[1]
  %k = broadcast(%e) {shape = (128)} : i32[128]
  %l = cmp(%i, %k) {predicate = CmpPredicate.LT} : i1[128]
  %x = load(%d, %l, _) : f32[128]
  %o = constant() {value = 1.0, type = !f32[128]} : f32[128]
  %y = add(%x, %o) : f32[128]
  store(%d, %y, %l)
  return()
}
""",
        f"""
func @add_one(%p: ptr<f32> = "x".base, %n: i32 = "n".scalar) hints {{num_warps = 1}} {{
  %a = assume_divisible(%p) {{divisor = 16}} : ptr<f32>
  %m = assume_divisible(%n) {{divisor = 4}} : i32
  %c = gpu.splat(%a) {{type = !ptr<f32>[128]{V4}}} : ptr<f32>[128]{V4}
  %i = iota() {{type = !i32[128]{V4}}} : i32[128]{V4}
  %d = ptr_offset(%c, %i) : ptr<f32>[128]{V4}
  %k = gpu.splat(%m) {{type = !i32[128]{V4}}} : i32[128]{V4}
  %l = cmp(%i, %k) {{predicate = CmpPredicate.LT}} : i1[128]{V4}
  %x = gpu.load(%d, %l, _) {{vector = 4}} : f32[128]{V4}
  %o = constant() {{value = 1.0, type = !f32[128]{V4}}} : f32[128]{V4}
  %y = add(%x, %o) : f32[128]{V4}
  gpu.store(%d, %y, %l) {{vector = 4}}
  return()
}}
""",
    )


def test_all_threads_have_what_one_load_with_an_order_found() -> None:
    """Two such loads may find different values: of what each thread found itself, some would leave a loop early."""
    one = layout(line(), line(0, 0, 0, 0, 0), line(0))
    check(
        AssignLayouts(2),
        """
func @wait(%p: ptr<i32> = "x".base, %q: ptr<i32> = "y".base) {
  %x = load(%p, _, _) {memory_order = MemoryOrder.ACQUIRE, memory_scope = MemoryScope.DEVICE} : i32
  store(%q, %x, _)
  return()
}
""",
        f"""
func @wait(%p: ptr<i32> = "x".base, %q: ptr<i32> = "y".base) hints {{num_warps = 2}} {{
  %0 = gpu.splat(%p) {{type = !ptr<i32>[1]{one}}} : ptr<i32>[1]{one}
  %1 = gpu.load(%0, _, _) {{memory_order = MemoryOrder.ACQUIRE, memory_scope = MemoryScope.DEVICE}} : i32[1]{one}
  %2 = gpu.shared_alloc() {{type = !shared<i32[1]#layout<offset = []>>}} : shared<i32[1]#layout<offset = []>>
  gpu.shared_store(%2, %1)
  %3 = gpu.shared_load(%2) {{type = !i32[1]{one}}} : i32[1]{one}
  %x = reshape(%3) {{shape = ()}} : i32
  gpu.store(%q, %x, _)
  return()
}}
""",
    )


@pytest.mark.parametrize(("base", "bound", "vector"), [(16, 4, 4), (8, 4, 2), (16, 2, 2), (1, 16, 1), (16, 1, 1)])
def test_how_wide_accesses_are(base: int, bound: int, vector: int) -> None:
    """As wide as the alignment of the pointer and the steps of the mask allow."""
    function = AssignLayouts(1).run(
        parse_function(f"""
func @f(%p: ptr<f32> = "x".base, %n: i32 = "n".scalar) {{
  %a = assume_divisible(%p) {{divisor = {base}}} : ptr<f32>
  %m = assume_divisible(%n) {{divisor = {bound}}} : i32
  %b = reshape(%a) {{shape = (1)}} : ptr<f32>[1]
  %c = broadcast(%b) {{shape = (256)}} : ptr<f32>[256]
  %i = iota() {{type = !i32[256]}} : i32[256]
  %d = ptr_offset(%c, %i) : ptr<f32>[256]
  %e = reshape(%m) {{shape = (1)}} : i32[1]
  %k = broadcast(%e) {{shape = (256)}} : i32[256]
  %l = cmp(%i, %k) {{predicate = CmpPredicate.LT}} : i1[256]
  %x = load(%d, %l, _) : f32[256]
  store(%d, %x, %l)
  return()
}}
""")
    )
    verify_gpu(function)
    found = re.findall(r"vector = (\d+)", print_function(function))
    assert found == ([] if vector == 1 else [str(vector)] * 2)


def test_a_transposed_store_is_converted_once_and_coalesced() -> None:
    function = AssignLayouts(4).run(
        parse_function("""
func @f(%p: ptr<f32> = "x".base, %q: ptr<f32> = "y".base) {
  %i = iota() {type = !i32[64,64]} : i32[64,64]
  %a = assume_divisible(%p) {divisor = 16} : ptr<f32>
  %b = reshape(%a) {shape = (1, 1)} : ptr<f32>[1,1]
  %c = broadcast(%b) {shape = (64, 64)} : ptr<f32>[64,64]
  %d = ptr_offset(%c, %i) : ptr<f32>[64,64]
  %x = load(%d, _, _) : f32[64,64]
  %y = permute(%x) {axes = (1, 0)} : f32[64,64]
  %e = assume_divisible(%q) {divisor = 16} : ptr<f32>
  %g = reshape(%e) {shape = (1, 1)} : ptr<f32>[1,1]
  %h = broadcast(%g) {shape = (64, 64)} : ptr<f32>[64,64]
  %k = ptr_offset(%h, %i) : ptr<f32>[64,64]
  store(%k, %y, _)
  return()
}
""")
    )
    verify_gpu(function)
    assert sum(isinstance(op, ConvertLayout) for op in function.walk()) == 1
    assert print_function(function).count("vector = 4") == 2


def check_unnamed(tested: LowerReductions, before: str, after: str) -> None:
    """As ``check``, for a pass that makes values without names."""
    printed = []
    for function in (tested.run(parse_function(before)), parse_function(after)):
        for op in function.walk():
            for value in (*op.results, *(a for r in op.regions for a in r.args)):
                value.name = ""
        verify_gpu(function)
        printed.append(print_function(function))
    assert printed[0] == printed[1], after


def test_a_reduction_within_threads_across_lanes_and_across_warps() -> None:
    row, partial = layout(line(1), line(2, 4, 8, 16, 32), line(64)), layout(line(), line(1, 2, 4, 8, 16), line(32))
    warps, joined, all_ = (
        layout(line(), line(0, 0, 0, 0, 0), line(1)),
        layout(line(1), line(0, 0, 0, 0, 0), line(0)),
        layout(line(), line(0, 0, 0, 0, 0), line(0)),
    )
    body = "{{ ^(%{0}: i32, %{1}: i32)\n    %{2} = add(%{0}, %{1}) : i32\n    yield([%{2}])\n  }}"
    lanes = "".join(
        f"  %s{m} = gpu.shuffle(%{a}) {{lane_xor = {m}}} : i32[64]{partial}\n  %t{m} = add(%{a}, %s{m}) : i32[64]{partial}\n"
        for m, a in ((1, "r"), (2, "t1"), (4, "t2"), (8, "t4"), (16, "t8"))
    )
    check_unnamed(
        LowerReductions(),
        f"""
func @f() hints {{num_warps = 2}} {{
  %x = iota() {{type = !i32[128]{row}}} : i32[128]{row}
  %y = reduce([%x]) {{axis = 0, identities = (0), commutative = true}} : i32 {body.format("a", "b", "c")}
  print([%y]) {{parts = (none), formats = ("")}}
  return()
}}
""",
        f"""
func @f() hints {{num_warps = 2}} {{
  %x = iota() {{type = !i32[128]{row}}} : i32[128]{row}
  %r = gpu.thread_reduce([%x]) {{axis = 0}} : i32[64]{partial} {body.format("a", "b", "c")}
{lanes}  %d = gpu.drop_bits(%t16) {{axis = 0, bits = 31}} : i32[2]{warps}
  %w = gpu.convert_layout(%d) {{type = !i32[2]{joined}}} : i32[2]{joined}
  %z = gpu.thread_reduce([%w]) {{axis = 0}} : i32[1]{all_} {body.format("e", "f", "g")}
  %y = reshape(%z) {{shape = ()}} : i32
  print([%y]) {{parts = (none), formats = ("")}}
  return()
}}
""",
    )


def test_conversions() -> None:
    """Registers and shuffles stay; what another warp has goes through shared memory."""
    in_warp = layout(line(), line(16, 1, 2, 4, 8), line(32))
    function = LowerConversions().run(
        parse_function(f"""
{HEAD_2}
  %x = constant() {{value = 1.0, type = !f32[64]{ROW}}} : f32[64]{ROW}
  %a = gpu.convert_layout(%x) {{type = !f32[64]{in_warp}}} : f32[64]{in_warp}
  %b = gpu.convert_layout(%a) {{type = !f32[64]{HALVES}}} : f32[64]{HALVES}
  print([%b]) {{parts = (none), formats = ("")}}
  return()
}}
""")
    )
    names = [op.name for op in function.walk()]
    assert names == [
        "constant", "gpu.convert_layout", "gpu.shared_alloc", "gpu.shared_store", "gpu.shared_load", "print", "return",
    ]  # fmt: skip


def buffer(name: str, size: int, offset: int | None = None) -> str:
    where = "" if offset is None else f", offset = {offset}"
    t = f"shared<f32[{size}]{flat(size)}>"
    return f"  %{name} = gpu.shared_alloc() {{type = !{t}{where}}} : {t}\n"


STORED = f"  gpu.shared_store(%NAME, %x)\n  %l_NAME = gpu.shared_load(%NAME) {{type = !f32[64]{ROW}}} : f32[64]{ROW}\n"
X = f"  %x = constant() {{value = 1.0, type = !f32[64]{ROW}}} : f32[64]{ROW}\n"


def test_what_is_not_live_at_once_shares_memory() -> None:
    """But small tiles, of which a number of each row is exchanged."""
    wide = layout(line(64, 128), line(1, 2, 4, 8, 16), line(32))

    def program(size: int, a: int | None, b: int | None, c: int | None) -> str:
        use = [STORED.replace("NAME", n) for n in "abc"]
        again = use[0].replace("l_a", "m_a")
        buffers = [buffer(n, size, offset) for n, offset in zip("abc", (a, b, c))]
        text = f"{HEAD_2}\n{X}{buffers[0]}{use[0]}{buffers[1]}{use[1]}{again}{buffers[2]}{use[2]}  return()\n}}\n"
        return text if size == 64 else text.replace(f"f32[64]{ROW}", f"f32[{size}]{wide}")

    check(AllocateShared(), program(256, None, None, None), program(256, 0, 1024, 0))
    assert shared_bytes(parse_function(program(256, 0, 1024, 0))) == 2048
    check(AllocateShared(), program(64, None, None, None), program(64, 0, 256, 512))


def test_a_buffer_from_outside_of_a_loop_lives_as_long() -> None:
    loop = (
        "  %z = constant() {value = 0, type = !i32} : i32\n  %o = constant() {value = 1, type = !i32} : i32\n"
        "  for(%z, %o, %o, []) { ^(%i: i32)\n"
    )
    body = STORED.replace("NAME", "a") + buffer("b", 64) + STORED.replace("NAME", "b") + "    continue([])\n  }\n"
    function = AllocateShared().run(parse_function(f"{HEAD_2}\n{X}{buffer('a', 64)}{loop}{body}  return()\n}}\n"))
    offsets = [op.offset for op in function.walk() if isinstance(op, SharedAlloc)]
    assert sorted(offsets, key=lambda o: o or 0) == [0, 256]


def test_more_than_there_is() -> None:
    with pytest.raises(TileError, match=r"f32\[64\] needs 256 bytes of shared memory beside 0 bytes .* of 128 bytes"):
        AllocateShared(128).run(
            parse_function(f"{HEAD_2}\n{X}{buffer('a', 64)}{STORED.replace('NAME', 'a')}  return()\n}}\n")
        )


def test_barriers_between_what_threads_exchange() -> None:
    """Before a load of what was stored, and before a store to what was loaded; none between different bytes."""
    store, load = (
        "  gpu.shared_store(%{0}, %x)\n",
        "  %{1} = gpu.shared_load(%{0}) {{type = !f32[64]" + ROW + "}} : f32[64]" + ROW + "\n",
    )
    barrier = "  gpu.barrier()\n"

    def program(between: str) -> str:
        parts = [
            buffer("a", 64, 0), buffer("b", 64, 256), store.format("a"), store.format("b"), between,
            load.format("a", "c"), load.format("b", "d"), between, store.format("a"),
        ]  # fmt: skip
        return f"{HEAD_2}\n{X}{''.join(parts)}  return()\n}}\n"

    check(InsertBarriers(), program(""), program(barrier))


def test_barriers_around_loops() -> None:
    """A store of the next iteration waits for the load of this one."""
    store, load = (
        "    gpu.shared_store(%a, %x)\n",
        "    %c = gpu.shared_load(%a) {type = !f32[64]" + ROW + "} : f32[64]" + ROW + "\n",
    )
    barrier = "    gpu.barrier()\n"

    def program(between: str) -> str:
        loop = (
            "  %z = constant() {value = 0, type = !i32} : i32\n  %o = constant() {value = 1, type = !i32} : i32\n"
            "  for(%z, %o, %o, []) { ^(%i: i32)\n"
        )
        body = between + store + between + load + "    continue([])\n  }\n"
        return f"{HEAD_2}\n{X}{buffer('a', 64, 0)}{loop}{body}  return()\n}}\n"

    check(InsertBarriers(), program(""), program(barrier))


def test_one_barrier_before_a_loop_that_only_reads() -> None:
    load = "    %c = gpu.shared_load(%a) {type = !f32[64]" + ROW + "} : f32[64]" + ROW + "\n"

    def program(between: str) -> str:
        before = (
            "  gpu.shared_store(%a, %x)\n  %z = constant() {value = 0, type = !i32} : i32\n"
            "  %o = constant() {value = 1, type = !i32} : i32\n"
        )
        loop = "  for(%z, %o, %o, []) { ^(%i: i32)\n" + load + "    continue([])\n  }\n"
        return f"{HEAD_2}\n{X}{buffer('a', 64, 0)}{before}{between}{loop}  return()\n}}\n"

    check(InsertBarriers(), program(""), program("  gpu.barrier()\n"))


def test_barriers_in_global_memory() -> None:
    """Another layout of the same array needs one, the same pointers none, another array none."""

    def pointers(base: str, name: str, where: str) -> str:
        return (
            f"  %s{name} = gpu.splat(%{base}) {{type = !ptr<f32>[64]{where}}} : ptr<f32>[64]{where}\n"
            f"  %i{name} = iota() {{type = !i32[64]{where}}} : i32[64]{where}\n"
            f"  %{name} = ptr_offset(%s{name}, %i{name}) : ptr<f32>[64]{where}\n"
        )

    def program(between: str) -> str:
        head = X + pointers("p", "a", ROW) + pointers("p", "b", HALVES) + pointers("q", "c", HALVES)
        parts = [
            "  gpu.store(%a, %x, _)\n", f"  %l = gpu.load(%a, _, _) : f32[64]{ROW}\n",
            f"  %n = gpu.load(%c, _, _) : f32[64]{HALVES}\n", between, f"  %m = gpu.load(%b, _, _) : f32[64]{HALVES}\n",
        ]  # fmt: skip
        return f"{HEAD_2}\n{head}{''.join(parts)}  return()\n}}\n"

    check(InsertBarriers(), program(""), program("  gpu.barrier()\n"))
