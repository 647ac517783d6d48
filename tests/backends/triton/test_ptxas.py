"""What ptxas compiles wrongly is not given to it."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tilewright as ct

pytest.importorskip("triton", reason="the package triton is not installed")
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.triton import ptxas_workarounds
from tilewright.backends.triton.backend import compile_for
from tilewright.backends.triton.compiler import assembler
from tilewright.runtime.launch import specialization


@ct.kernel
def narrowed(sums, last):
    """Numbers that LLVM knows to be small, in pairs, of which not all are used."""
    small = ct.arange(1024, dtype=ct.int32).reshape((4, 256)) % 33 - 5
    ct.store(sums, (0, 0), ct.cumsum(small, axis=1) & 127)
    ct.store(last, (0, 0), small + 1)


@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
def test_sums_of_16_bits_are_made_one_by_one(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With constants, of one of which nobody knows the result, ptxas 12.8 and 12.9 add 0."""
    given: list[str] = []
    repair = ptxas_workarounds.repair

    def watched(text: str) -> str:
        given.append(text)
        return repair(text)

    monkeypatch.setattr(ptxas_workarounds, "repair", watched)
    repaired = narrowed.compile_for(target, tuple(np.zeros((4, 256), np.int32) for _ in range(2))).stage("PTX")
    assert "add.s16x2" in given[0] and "16x2" not in repaired
    assert repaired.count("add.s16 ") == given[0].count("add.s16 ") + 2 * given[0].count("add.s16x2")


def test_other_text_stays() -> None:
    text = "\tmin.s32 \t%r1, %r2, %r3;\n\tadd.s32 \t%r1, %r2, %r3;\n\tadd.f16x2 \t%r1, %r2, %r3;"
    assert ptxas_workarounds.repair(text) == text


@ct.kernel
def equal_rows(x, out, K: ct.Constant[int], SINGLE: ct.Constant[bool]):
    zeros = ct.zeros((128, 64), ct.float32 if SINGLE else ct.int32)
    tile = ct.load(x, (0, ct.bid(0)), (K, 64))
    ct.store(out, (0, ct.bid(0)), ct.mma(ct.full((128, K), 1, x.dtype), tile, zeros))


@pytest.mark.parametrize("element", [np.float16, np.float32, np.int8, ml_dtypes.float8_e4m3fn])
@pytest.mark.parametrize("depth", [16, 64])
def test_products_of_equal_rows_are_all_in_the_machine_code(element: type, depth: int, tmp_path: Path) -> None:
    """ptxas 12.8 takes the first ones of the upper and of the lower half for one."""
    single, target = element is not np.int8, parse_target("sm_90")
    out = np.zeros((128, 256), np.float32 if single else np.int32)
    arguments = np.zeros((depth, 256), element), out, depth, single
    binary = compile_for(specialization(equal_rows, arguments, "reference").function, target, {}).binary
    path = tmp_path / "kernel.cubin"
    path.write_bytes(binary.code)
    command = [str(Path(assembler(target)).with_name("nvdisasm")), "-c", str(path)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    products = binary.texts["PTX"].count("wgmma.mma_async")
    assert products > 1 and listing.count("GMMA.") == products


def test_a_fence_is_between_products_that_start_with_the_same_operands() -> None:
    def product(number: int, right: str, more: str) -> str:
        left = "{%r1,%r1,%r2,%r2}"
        return f"\twgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {{%r{number}}}, {left}, {right}, {more};"

    fence = "\twgmma.fence.sync.aligned;"
    first, same, added, other = (
        product(10, "%rd1", "0"),
        product(11, "%rd1", "0"),
        product(12, "%rd1", "%p1"),
        product(13, "%rd2", "0"),
    )
    for lines in ([first, other, added], [first, fence, same], [added, added]):
        text = "\n".join(lines)
        assert ptxas_workarounds.separate_equal_wgmmas(text) == text
    assert ptxas_workarounds.separate_equal_wgmmas(f"{first}\n{other}\n{same}\n{first}") == "\n".join(
        [first, other, fence, same, fence, first]
    )


_LABEL, _WAIT, _END = "$L__BB0_1:", "\twgmma.wait_group.sync.aligned", "\twgmma.commit_group.sync.aligned;"


def running(text: str, before: int) -> list[int]:
    """How many groups of products run at most at the end of each other line, where so many do at every label."""
    found, now = [], before
    for line in text.split("\n"):
        if line == _END:
            now += 1
        elif line.startswith(_WAIT):
            now = min(now, int(line.split()[-1][:-1]))
        else:
            now = before if line == _LABEL else now
            found.append(now)
    return found


def test_waits_are_left_out_where_all_they_wait_for_has_ended() -> None:
    rng, fewer = random.Random(0), 0
    for _ in range(500):
        waits = [f"{_WAIT} {n};" for n in range(4)]
        text = "\n".join(rng.choice([*waits, *waits, _END, _END, _LABEL, "\tbar.sync 0;"]) for _ in range(30))
        kept = ptxas_workarounds.without_idle_waits(text)
        assert all(running(kept, before) == running(text, before) for before in range(6))
        fewer += text.count(_WAIT) - kept.count(_WAIT)
    assert fewer > 500


@pytest.mark.parametrize("bits", [32, 64])
def test_absolute_values_may_be_negative(bits: int, tmp_path: Path) -> None:
    """That of the least integer is, which ptxas forgets: it leaves out what is done then."""
    register = {32: "%r", 64: "%rd"}[bits]
    text = f"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b)
{{
\t.reg .pred %p<3>;
\t.reg .b32 %r<9>;
\t.reg .b64 %rd<9>;
\tld.param.u64 %rd1, [a];
\tld.param.u64 %rd2, [b];
\tld.global.b{bits} {register}5, [%rd1];
\tabs.s{bits} \t{register}6, {register}5;
\tsetp.lt.s{bits} %p2, {register}6, 0;
\tselp.b32 %r2, 77, 33, %p2;
\tst.global.b32 [%rd2], %r2;
\tret;
}}"""
    tools = Path(assembler(parse_target("sm_80"))).parent
    (tmp_path / "k.ptx").write_text(ptxas_workarounds.repair(text))
    subprocess.run([tools / "ptxas", "-arch=sm_80", "k.ptx", "-o", "k.cubin"], cwd=tmp_path, check=True)
    listing = subprocess.run(
        [tools / "nvdisasm", "-c", "k.cubin"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert "0x4d" in listing.stdout  # 77


@ct.kernel
def magnitudes(x, out):
    v = ct.load(x, (0,), (128,))
    ct.store(out, (0, 0), abs(v).reshape((1, 128)))
    ct.store(out, (1, 0), ct.maximum(v, -v).reshape((1, 128)))
    ct.store(out, (2, 0), ct.where(v < 0, -v, v).reshape((1, 128)))


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_no_absolute_value_is_given_to_ptxas(dtype: type) -> None:
    made = magnitudes.compile_for("sm_90", (np.zeros(128, dtype), np.zeros((3, 128), dtype)))
    assert "abs.s" not in made.stage("PTX") and "neg.s16" not in made.stage("PTX")


@ct.kernel
def extremes(x, y, out):
    a, b = ct.load(x, (0,), (1024,)), ct.load(y, (0,), (1024,))
    found = ct.minimum(a, b), ct.maximum(a, 5), ct.minimum(a, 0), ct.where(a > b, a, b)
    for i in ct.static_iter(range(4)):
        ct.store(out, (i, 0), ct.where(found[i] == (0 if i == 2 else 5), 1, found[i]).reshape((1, 1024)))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
def test_no_instruction_on_pairs_finds_an_extreme(dtype: type, target: str, tmp_path: Path) -> None:
    """Where the greatest or least is compared with a number, ptxas takes the predicate of the wrong pair."""
    arguments = np.zeros(1024, dtype), np.zeros(1024, dtype), np.zeros((4, 1024), dtype)
    path = tmp_path / "kernel.cubin"
    found = compile_for(specialization(extremes, arguments, "reference").function, parse_target(target), {}).binary
    path.write_bytes(found.code)
    command = [str(Path(assembler(parse_target(target))).with_name("nvdisasm")), "-c", str(path)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "ST" in listing and "16x2" not in listing
