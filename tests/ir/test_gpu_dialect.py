"""The gpu dialect: its text form reads back, and the verifiers of ops and of the gpu stage find what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.ir.gpu_stage import verify_gpu
from tilewright.ir.layouts import LANE, REGISTER, WARP, LinearLayout
from tilewright.ir.opdef import GPU_OPS
from tilewright.ir.ops.gpu.tiles import broadcast_sources
from tilewright.ir.parser import IRParseError, parse_function
from tilewright.ir.printer import print_function
from tilewright.ir.verifier import VerificationError

# Together these have every op: the others are of a product, before and after its warps have different work, and with sums in tensor memory.
SAMPLES = [
    (Path(__file__).parent / f"{n}.tir").read_text()
    for n in ("every_gpu_op", "wgmma_tiles", "wgmma_roles", "wgmma_stager", "gpu_clusters", "tensor_memory")
]
ROW = "#layout<register = [[1],[2]], lane = [[4],[8],[16],[32],[64]], warp = []>"
SPREAD = "#layout<register = [[32],[64]], lane = [[1],[2],[4],[8],[16]], warp = []>"
FLAT = "#layout<offset = [[1],[2],[4],[8],[16],[32],[64]]>"


def test_the_samples_have_every_op() -> None:
    assert {op.name for sample in SAMPLES for op in parse_function(sample).walk()} >= set(GPU_OPS)
    assert all(name.startswith("gpu.") for name in GPU_OPS)


@pytest.mark.parametrize("sample", SAMPLES, ids=["ops", "tiles", "roles", "stager", "clusters", "tensor memory"])
def test_text_round_trip(sample: str) -> None:
    function = parse_function(sample)
    verify_gpu(function)
    assert print_function(function) == sample


def _function(*lines: str, warps: str = "1") -> str:
    body = "\n".join(f"  {line}" for line in (*lines, "return()"))
    return f'func @f(%p: ptr<f16> = "p".base) hints {{num_warps = {warps}}} {{\n{body}\n}}\n'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"%0 = iota() {{type = !i32[64]{ROW}}} : i32[64]{ROW}", r"lane has the basis \[64\], outside of a tile"),
        (f"%0 = gpu.splat(%p) {{type = !f32[128]{ROW}}} : f32[128]{ROW}", "gpu.splat: ptr<f16> to f32"),
        ("%0 = gpu.splat(%p) {type = !ptr<f16>[128]} : ptr<f16>[128]", "is not distributed"),
        ("%0 = gpu.nothing() : i32", "unknown op 'gpu.nothing'"),
        ("gpu.barrier() {id = 16}", "barrier 16, where there are 16"),
        ("gpu.barrier() {threads = 33}", "33 threads at a barrier"),
        (f"%0 = gpu.shared_alloc() {{type = !shared<f32[64,2]{FLAT}>}} : i32", r"\[1\], outside of a tile of shape"),
        ("%0 = gpu.shared_alloc() {type = !shared<f32[64]>} : i32", "has numbers and a layout"),
        (
            "%0 = gpu.shared_alloc() {type = !shared<f32[2]#layout<offset = [[1],[1]]>>} : i32",
            "does not hold each element once",
        ),
    ],
)
def test_malformed_ops(line: str, message: str) -> None:
    with pytest.raises(IRParseError, match=rf"^2:\d+: .*{message}"):
        parse_function(_function(line))


POINTERS = (
    f"%0 = gpu.splat(%p) {{type = !ptr<f16>[128]{ROW}}} : ptr<f16>[128]{ROW}",
    f"%1 = gpu.shared_alloc() {{type = !shared<f16[128]{FLAT}>}} : shared<f16[128]{FLAT}>",
)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"%2 = gpu.load(%0, _, _) {{vector = 8}} : f16[128]{ROW}", "vector 8 of ptr<f16>"),
        (f"%2 = gpu.load(%0, _, _) {{vector = 3}} : f16[128]{ROW}", "vector 3 of ptr<f16>"),
        (f"%2 = gpu.shared_load(%1) {{type = !f32[128]{ROW}}} : f32[128]{ROW}", "shared<f16.*> as f32"),
        (f"%2 = gpu.shuffle(%0) {{lane_xor = 32}} : ptr<f16>[128]{ROW}", "lane_xor 32"),
        (f"%2 = gpu.drop_bits(%0) {{axis = 0, bits = 1}} : ptr<f16>[128]{ROW}", "depend on registers"),
        ("gpu.async_copy(%1, %0, _) {vector = 1}", "copies of 2 bytes"),
    ],
)
def test_malformed_accesses(line: str, message: str) -> None:
    with pytest.raises(IRParseError, match=rf"^4:\d+: .*{message}"):
        parse_function(_function(*POINTERS, line))


def test_async_copies_lie_side_by_side() -> None:
    pointers = f"%0 = gpu.splat(%p) {{type = !ptr<f16>[128]{SPREAD}}} : ptr<f16>[128]{SPREAD}"
    with pytest.raises(IRParseError, match=r"^4:3: gpu.async_copy: 2 registers of .* are not side by side"):
        parse_function(_function(pointers, POINTERS[1], "gpu.async_copy(%1, %0, _) {vector = 2}"))


ROW_2 = ROW.replace("[64]], warp = []", "[64]], warp = [[0]]")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"%0 = iota() {{type = !i32[128]{ROW}}} : i32[128]{ROW}", "for 32 lanes and 1 warps, of 32 and 2"),
        ("%0 = iota() {type = !i32[128]} : i32[128]", "has the tile .* without a layout"),
        (
            f"%0 = iota() {{type = !i32[256]{ROW_2}}} : i32[256]{ROW_2}",
            "no thread holds some elements",
        ),
        (
            "%0 = make_tensor_view(%p, [], []) {type = !view<f16,[4],[1],i32>} : view<f16,[4],[1],i32>",
            "make_tensor_view is not an op of the gpu stage",
        ),
        ("%0 = iota() {type = !i32[2]#layout<register = [[1]]>} : i32[2]#layout<register = [[1]]>", "the dimensions"),
    ],
)
def test_the_stage(line: str, message: str) -> None:
    function = parse_function(_function(line, warps="2"))
    with pytest.raises(VerificationError, match=message):
        verify_gpu(function)


def test_elementwise_ops_have_one_layout() -> None:
    lines = (
        f"%0 = iota() {{type = !i32[128]{ROW}}} : i32[128]{ROW}",
        f"%1 = iota() {{type = !i32[128]{SPREAD}}} : i32[128]{SPREAD}",
        f"%2 = add(%0, %1) : i32[128]{ROW}",
    )
    with pytest.raises(IRParseError, match=r"^4:8: add: operand types differ"):
        parse_function(_function(*lines))


@pytest.mark.parametrize("warps", ["0", "3", "64", "true", "none"])
def test_the_number_of_warps(warps: str) -> None:
    with pytest.raises(ValueError, match=r"f: num_warps = .* is no power of two from 1 to 32"):
        verify_gpu(parse_function(_function(warps=warps)))


def test_broadcast_sources() -> None:
    target = LinearLayout.of((4, 8), {REGISTER: [[0, 1], [2, 0]], LANE: [[0, 2], [1, 0]], WARP: [[0, 4]]})
    source = LinearLayout.of((4, 1), {REGISTER: [[2, 0]], LANE: [[0, 0], [1, 0]], WARP: [[0, 0]]})
    assert target.shrink(1) == source
    assert broadcast_sources(source, target) == (0, 0, 1, 1)
    elsewhere = LinearLayout.of((4, 1), {REGISTER: [[2, 0]], LANE: [[1, 0], [0, 0]], WARP: [[0, 0]]})
    assert broadcast_sources(elsewhere, target) is None
    for r, held in enumerate((0, 0, 1, 1)):
        for lane in range(4):
            assert source.apply(register=held, lane=lane)[0] == target.apply(register=r, lane=lane)[0]
