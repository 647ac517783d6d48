"""MMA by dot instructions and tile registers: with the instruction replaced by the arithmetic that defines it.

So the packing of operands is shown on every x86-64 machine; that LLVM selects the instruction, in assembly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

import tilewright as ct
from tilewright.backends.cpu import compiler, identity, target
from tilewright.backends.cpu.codegen.kernel import Lowered, lower
from tilewright.backends.cpu.codegen.pipeline import optimize
from tilewright.backends.cpu.compiler import compile_native
from tilewright.backends.cpu.jit import assemble
from tilewright.backends.cpu.loops import pack_panels
from tilewright.backends.cpu.target import Processor, described
from tilewright.backends.native.image import Image
from tilewright.runtime.launch import specialization
from tilewright.system.environment import SettingError

_INTRINSIC = "llvm.x86.avx512bf16.dpbf16ps.512"
_HALF = """
  %{side}.{part}.bits = {take} <16 x i32> %{side}, splat (i32 {operand})
  %{side}.{part} = bitcast <16 x i32> %{side}.{part}.bits to <16 x float>"""
_FMA = "call <16 x float> @llvm.fma.v16f32(<16 x float> %x.{part}, <16 x float> %y.{part}, <16 x float> %{total})"
_EMULATED = f"""
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
define internal <16 x float> @emulated_dot(<16 x float> %total, <16 x i32> %x, <16 x i32> %y) {{
{"".join(_HALF.format(side=s, part="even", take="shl", operand=16) for s in "xy")}
{"".join(_HALF.format(side=s, part="odd", take="and", operand=-65536) for s in "xy")}
  %first = {_FMA.format(part="odd", total="total")}
  %second = {_FMA.format(part="even", total="first")}
  ret <16 x float> %second
}}
"""


# Tile registers in a file of memory, each 16 rows of 64 bytes; row r of register t of %file:
_ROW = """
  %{0}.of = zext i8 %{0} to i64
  %{0}.start = mul i64 %{0}.of, 1024
  %{0}.at = mul i64 %{1}, 64
  %{0}.offset = add i64 %{0}.start, %{0}.at
  %{0}.row = getelementptr i8, ptr %file, i64 %{0}.offset"""
_MOVE = (
    """
define internal void @emulated.{name}(ptr %file, i8 %t, ptr %p, i64 %stride) {{
entry:
  br label %loop
loop:
  %r = phi i64 [0, %entry], [%next, %loop]
  %skipped = mul i64 %r, %stride
  %memory = getelementptr i8, ptr %p, i64 %skipped
"""
    + _ROW.format("t", "r")
    + """
  %v = load <64 x i8>, ptr {source}, align 1
  store <64 x i8> %v, ptr {target}, align 1
  %next = add i64 %r, 1
  %more = icmp ult i64 %next, 16
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
)
_TILES = (
    _MOVE.format(name="tileloadd64", source="%memory", target="%t.row")
    + _MOVE.format(name="tilestored64", source="%t.row", target="%memory")
    + """
define internal void @emulated.ldtilecfg(ptr %file, ptr %configuration) {
  ret void
}
define internal void @emulated.tilerelease(ptr %file) {
  ret void
}
"""
)
_PRODUCT = (
    """
define internal void @emulated.{name}(ptr %file, i8 %c, i8 %a, i8 %b) {{
entry:
  br label %rows
rows:
  %r = phi i64 [0, %entry], [%r.next, %row.done]
  br label %words
words:
  %k = phi i64 [0, %rows], [%k.next, %words]"""
    + _ROW.format("c", "r")
    + _ROW.format("a", "r")
    + _ROW.format("b", "k")
    + """
  %total = load <16 x {type}>, ptr %c.row, align 1
  %word.at = getelementptr i32, ptr %a.row, i64 %k
  %word = load i32, ptr %word.at, align 1
  %one = insertelement <16 x i32> poison, i32 %word, i64 0
  %left = shufflevector <16 x i32> %one, <16 x i32> poison, <16 x i32> zeroinitializer
  %right = load <16 x i32>, ptr %b.row, align 1
  %sum = call <16 x {type}> @emulated_dot(<16 x {type}> %total, <16 x i32> %left, <16 x i32> %right)
  store <16 x {type}> %sum, ptr %c.row, align 1
  %k.next = add i64 %k, 1
  %k.more = icmp ult i64 %k.next, 16
  br i1 %k.more, label %words, label %row.done
row.done:
  %r.next = add i64 %r, 1
  %r.more = icmp ult i64 %r.next, 16
  br i1 %r.more, label %rows, label %done
done:
  ret void
}}
"""
)
_TILE_CALL = re.compile(r'call void @"llvm\.x86\.(tile\w+|ldtilecfg|tdpb\w+)"\(')


def _dot_of_bytes(signs: str) -> str:
    """The sums of four products of bytes, signed or unsigned: the left ones, then the right ones."""
    lines = []
    for side, sign in zip("xy", signs):
        lines.append(f"  %{side}.bytes = bitcast <16 x i32> %{side} to <64 x i8>")
        lines.append(f"  %{side}.wide = {'sz'[sign == 'u']}ext <64 x i8> %{side}.bytes to <64 x i32>")
    lines.append("  %products = mul <64 x i32> %x.wide, %y.wide")
    total = "%total"
    for k in range(4):
        places = ", ".join(f"i32 {4 * lane + k}" for lane in range(16))
        part = f"<64 x i32> %products, <64 x i32> poison, <16 x i32> <{places}>"
        lines += [f"  %part.{k} = shufflevector {part}", f"  %sum.{k} = add <16 x i32> {total}, %part.{k}"]
        total = f"%sum.{k}"
    parameters = "<16 x i32> %total, <16 x i32> %x, <16 x i32> %y"
    body = "\n".join(lines)
    return f"define internal <16 x i32> @emulated_dot({parameters}) {{\n{body}\n  ret <16 x i32> {total}\n}}\n"


def _with_dot(processor: Processor, *, tiles: bool = False) -> Processor:
    features = processor.features._replace(dot_bfloat=not tiles, dot_bfloat_tiles=tiles)
    return processor._replace(features=features)


def _emulate_tiles(lowered: Lowered, processor: Processor) -> Image | bytes:
    text = lowered.block
    (product,) = set(re.findall(r"llvm\.x86\.(tdpb\w+)", text))
    declared = ("llvm.x86.tile", "llvm.x86.ldtilecfg", "llvm.x86.tdpb", "llvm.fma.v16f32")
    functions = []
    for function in "\n".join(
        line for line in text.splitlines() if not (line.startswith("declare") and any(d in line for d in declared))
    ).split("\ndefine "):
        called, count = _TILE_CALL.subn(r"call void @emulated.\1(ptr %file, ", function)
        called = called.replace("(ptr %file, )", "(ptr %file)")
        if count:
            called = called.replace("entry:", "entry:\n  %file = alloca [8192 x i8], align 64", 1)
        functions.append(called)
    dot = _EMULATED if product == "tdpbf16ps" else _dot_of_bytes(product[4:6])
    emulated = _PRODUCT.format(name=product, type="float" if product == "tdpbf16ps" else "i32")
    text = "\ndefine ".join(functions) + dot + _TILES + emulated
    return compile_native(lowered._replace(block=text), processor)


def _emulate(lowered: Lowered, processor: Processor) -> Image | bytes:
    text = lowered.block
    assert _INTRINSIC in text
    declared = (_INTRINSIC, "llvm.fma.v16f32")
    lines = [
        line for line in text.splitlines() if not (line.startswith("declare") and any(d in line for d in declared))
    ]
    text = "\n".join(lines).replace(f'@"{_INTRINSIC}"', "@emulated_dot") + _EMULATED
    return compile_native(lowered._replace(block=text), processor)


@pytest.fixture(params=[False, True], ids=["vectors", "tiles"])
def _emulated(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    processor = _with_dot(compiler.host(), tiles=request.param)
    monkeypatch.setattr(compiler, "host", lambda: processor)
    monkeypatch.setattr(compiler, "compile_native", _emulate_tiles if request.param else _emulate)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "off")
    yield


def _product_kernel() -> ct.kernel:
    @ct.kernel
    def product(a, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
        total = ct.load(c, (ct.bid(0), ct.bid(1)), (M, N), padding_mode=ct.PaddingMode.ZERO)
        for k in range(ct.num_tiles(a, 1, (M, K))):
            left = ct.load(a, (ct.bid(0), k), (M, K), padding_mode=ct.PaddingMode.ZERO)
            right = ct.load(b, (k, ct.bid(1)), (K, N), padding_mode=ct.PaddingMode.ZERO)
            total = ct.mma(left, right, total)
        ct.store(c, (ct.bid(0), ct.bid(1)), total)

    return product


@pytest.mark.usefixtures("_emulated")
@pytest.mark.parametrize("turned", ["", "a", "b"])
@pytest.mark.parametrize("tile", [(1, 16, 2), (4, 64, 32), (16, 16, 32), (16, 128, 64), (64, 32, 32)])
def test_products_of_integers_are_exact(
    tile: tuple[int, int, int], turned: str, request: pytest.FixtureRequest
) -> None:
    """In arrays that tiles leave, row by row and column by column."""
    if "tiles" in request.node.name and tile[0] < 16:
        pytest.skip("too few rows for a tile register")
    m, n, k = 37, 150, 100
    draw = np.random.default_rng(0).integers
    a, b = (draw(-8, 9, s).astype(ml_dtypes.bfloat16) for s in ((m, k), (k, n)))
    expected = a.astype(np.float32) @ b.astype(np.float32) + 1
    a, b = (np.asfortranarray(x) if name in turned else x for name, x in (("a", a), ("b", b)))
    c = np.ones((m, n), np.float32)
    grid = (-(-m // tile[0]), -(-n // tile[1]))
    ct.launch(None, grid, _product_kernel(), (a, b, c, *tile), backend="cpu")
    np.testing.assert_array_equal(c, expected)


@pytest.mark.usefixtures("_emulated")
def test_softmax_between_two_products() -> None:
    """A scaled accumulator and an operand that is computed: attention's second product."""

    @ct.kernel
    def attend(q, k, v, out):
        query, total, high = (
            ct.load(q, (0, 0), (16, 32)),
            ct.zeros((16, 32), ct.float32),
            ct.full((16, 1), -9e9, ct.float32),
        )
        sums = ct.zeros((16, 1), ct.float32)
        for j in range(4):
            scores = ct.mma(query, ct.transpose(ct.load(k, (j, 0), (16, 32))), ct.zeros((16, 16), ct.float32))
            top = ct.maximum(high, ct.max(scores, axis=1, keepdims=True))
            weights, scale = ct.exp(scores - top), ct.exp(high - top)
            sums, high = sums * scale + ct.sum(weights, axis=1, keepdims=True), top
            total = ct.mma(weights.astype(ct.bfloat16), ct.load(v, (j, 0), (16, 32)), total * scale)
        ct.store(out, (0, 0), total / sums)

    normal = np.random.default_rng(1).standard_normal
    q, k, v = (normal(s).astype(ml_dtypes.bfloat16) for s in ((16, 32), (64, 32), (64, 32)))
    out = np.zeros((16, 32), np.float32)
    ct.launch(None, (1,), attend, (q, k, v, out), backend="cpu")
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    weights = np.exp(q @ k.T)
    np.testing.assert_allclose(out, weights / weights.sum(1, keepdims=True) @ v, rtol=0, atol=0.02)


@pytest.mark.parametrize("types", ["int8 int8", "int8 uint8", "uint8 int8", "uint8 uint8"])
@pytest.mark.parametrize("tile", [(16, 16, 64), (32, 128, 128), (64, 32, 64)])
def test_products_of_bytes_in_tile_registers(
    types: str, tile: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In arrays that tiles leave."""
    host = compiler.host()
    processor = host._replace(features=host.features._replace(dot_byte_tiles=True))
    monkeypatch.setattr(compiler, "host", lambda: processor)
    monkeypatch.setattr(compiler, "compile_native", _emulate_tiles)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "off")
    m, n, k = 37, 150, 200
    x, y = map(np.dtype, types.split())
    draw = np.random.default_rng(0).integers
    a, b = (draw(np.iinfo(t).min, np.iinfo(t).max, s, t, endpoint=True) for t, s in ((x, (m, k)), (y, (k, n))))
    c = np.ones((m, n), np.int32)
    ct.launch(None, (-(-m // tile[0]), -(-n // tile[1])), _product_kernel(), (a, b, c, *tile), backend="cpu")
    np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32) + 1)


@pytest.mark.parametrize("kind", ["bfloat16", "int8", "bytes by vectors"])
def test_right_operands_are_kept_as_instructions_want_them(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some steps of each block have room, and the others do not; blocks with other columns follow."""
    texts: list[str] = []
    by_vectors, floating = kind == "bytes by vectors", kind == "bfloat16"
    host = compiler.host()
    bytes_ = host.features._replace(dot_byte_tiles=not by_vectors, dot_bytes=by_vectors)
    processor = _with_dot(host, tiles=False) if floating else host._replace(features=bytes_)

    def compile_(lowered: Lowered, processor: Processor) -> Image | bytes:
        texts.append(lowered.block)
        emulate = compile_native if by_vectors else _emulate if floating else _emulate_tiles
        return emulate(lowered, processor)

    if by_vectors and not host.features.dot_bytes:
        pytest.skip("needs the instructions")
    monkeypatch.setattr(compiler, "host", lambda: processor)
    monkeypatch.setattr(compiler, "compile_native", compile_)
    monkeypatch.setattr(pack_panels, "_LARGEST", 2 * 512 * 128 * (4 if floating else 1))
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "off")
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "1")
    draw = np.random.default_rng(0).integers
    a, b = (draw(-8, 9, shape).astype(np.int8) for shape in ((70, 3000), (3000, 200)))
    expected = a.astype(np.int32) @ b.astype(np.int32) + 1
    if floating:
        a, b, expected = a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16), expected.astype(np.float32)
    c = np.ones_like(expected)
    ct.launch(None, (2, 2), _product_kernel(), (a, b, c, 64, 128, 128), backend="cpu")
    np.testing.assert_array_equal(c, expected)
    assert "tw.mma.interleave." in texts[0]


def test_the_instruction_is_selected() -> None:
    flags = dict.fromkeys(
        (
            "avx2",
            "fma",
            "f16c",
            "avx512f",
            "avx512vl",
            "avx512bw",
            "avx512dq",
            "avx512vnni",
            "avx512bf16",
            "amx-tile",
            "amx-bf16",
            "amx-int8",
        ),
        True,
    )
    processor = described("x86_64-unknown-linux-gnu", "sapphirerapids", flags)
    x, out = np.zeros((64, 64), ml_dtypes.bfloat16), np.zeros((64, 64), np.float32)
    function = specialization(_product_kernel(), (x, x, out, 16, 64, 32), "cpu").function
    assert "dpbf16ps" not in assemble(lower(optimize(function), processor).text, processor)
    for tiles, wanted in ((False, "vdpbf16ps"), (True, "tdpbf16ps")):
        chosen = _with_dot(processor, tiles=tiles)
        assert wanted in assemble(lower(optimize(function), chosen).text, chosen)
    x, y, out = np.zeros((64, 64), np.int8), np.zeros((64, 64), np.uint8), np.zeros((64, 64), np.int32)
    function = specialization(_product_kernel(), (x, y, out, 16, 64, 64), "cpu").function
    for tiles, wanted in ((False, "vpdpbusd"), (True, "tdpbsud")):
        chosen = processor._replace(features=processor.features._replace(dot_byte_tiles=tiles))
        assert wanted in assemble(lower(optimize(function), chosen).text, chosen)


def test_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is part of the key of compiled code, and refused where the processor cannot."""
    without = identity.target_key()
    monkeypatch.setenv("TILEWRIGHT_BF16_DOT", "1")
    assert identity.target_key() != without
    if target._host().features.bfloat:
        assert target.host().features.dot_bfloat
    else:
        with pytest.raises(SettingError, match="TILEWRIGHT_BF16_DOT=1 asks for AVX-512 BF16"):
            target.host()
