"""Barriers that order nothing are left out of PTX, and those that order something stay."""

from __future__ import annotations

import math
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as ct

pytest.importorskip("triton", reason="the package triton is not installed")

from tilewright.backends.triton import barrier_elimination, ptx
from tilewright.backends.triton.requirements import version

# -- what comes after what without a barrier between, found line by line

_FORMS = {
    "barrier": r"bar\.sync",
    "init": r"mbarrier\.init",
    "end": r"mbarrier\.inval",
    "expect": r"mbarrier\.arrive\.expect_tx",
    "load": r"cp\.async\.bulk\.tensor\.\dd\.shared::(cta|cluster)\.global\.mbarrier::complete_tx::bytes(\.multicast::cluster)? \[",
    "meeting": r"barrier\.cluster\.|fence\.mbarrier_init\.release\.cluster",
    "wait": r"mbarrier\.try_wait",
    "read": r"wgmma\.|ldmatrix|ld\.shared|\.global\.shared::cta\.bulk_group",
    "write": r"stmatrix|st\.shared",
    "end of reads": r"cp\.async\.bulk\.(commit|wait)_group",
    "fence": r"fence\.proxy\.async\.shared::cta",
    "other": r"\[|mbarrier|cp\.async|barrier\.|fence|atom|red\.|call|membar|griddepcontrol",
}
# Orders that need no barrier: counts change in any order, each thread waits for what it uses, and makes what it uses.
_READS = {"read", "end of reads"}
_STARTED, _USED = {"expect", "load"}, {"wait", "write", "fence", *_READS}
_HARMLESS = (
    {(a, b) for a in _STARTED for b in _STARTED | _USED}
    | {("wait", b) for b in _USED}
    | {(a, b) for a in _READS for b in _READS | {"wait"}}
    | {("init", "init"), ("end", "end")}
    | {pair for kind in _FORMS for pair in ((kind, "meeting"), ("meeting", kind))}
)


def kind_of(line: str) -> str | None:
    line = line.split("//")[0]
    if re.search(r"\b(ld|mov)\.param|^\s*[.)]", line):
        return None
    return next((kind for kind, form in _FORMS.items() if re.search(form, line)), None)


def unordered(text: str) -> set[tuple[tuple[int, str], tuple[int, str]]]:
    """The numbers, without barriers counted, and kinds of any two lines of which the second may follow the first on a
    way without a barrier."""
    lines = text.split("\n")
    kinds = [kind_of(line) for line in lines]
    labels = {m[1]: at for at, line in enumerate(lines) if (m := re.match(r"(\$L\w+):", line))}
    number, count = [], 0
    for kind in kinds:
        number.append(count)
        count += kind != "barrier"

    def after(at: int) -> list[int]:
        branch = re.match(r"\s*(@\S+)?\s*bra(?:\.uni)?\s+(\$\w+);", lines[at])
        falls = at + 1 < len(lines) and lines[at].strip() != "ret;" and (branch is None or branch[1] is not None)
        return [at + 1] * falls + ([labels[branch[2]]] if branch is not None else [])

    found = set()
    for first, kind in enumerate(kinds):
        if kind in (None, "barrier"):
            continue
        seen, todo = set[int](), after(first)
        while todo:
            at = todo.pop()
            if at not in seen and kinds[at] != "barrier":
                seen.add(at)
                todo += after(at)
        found |= {((number[first], str(kind)), (number[at], str(kinds[at]))) for at in seen if kinds[at] is not None}
    return found


def check(text: str) -> tuple[int, int]:
    """How many barriers ``text`` has, and how many remain; of what they no longer order, nothing needs an order."""
    thinned = barrier_elimination.eliminate(text)
    rest = [line for line in text.split("\n") if kind_of(line) != "barrier"]
    assert [line for line in thinned.split("\n") if kind_of(line) != "barrier"] == rest
    new = {(a[1], b[1]) for a, b in unordered(thinned) - unordered(text)}
    assert new <= _HARMLESS, new - _HARMLESS
    return tuple(sum(kind_of(line) == "barrier" for line in t.split("\n")) for t in (text, thinned))  # type: ignore


# -- the PTX of kernels


def _benchmark_kernels() -> types.SimpleNamespace:
    module = types.ModuleType("gpu_kernels", "")
    vars(module).update(ct=ct, INF=math.inf)
    path = Path(__file__).parents[3] / "benchmarks" / "gpu_kernels.py"
    exec(compile(path.read_text(), path, "exec"), vars(module))
    return types.SimpleNamespace(**vars(module))


@ct.kernel
def breaks(a, b, c, limit):
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.num_tiles(a, 1, (64, 64))):
        x = ct.load(a, (0, k), (64, 64))
        total = ct.mma(x, ct.load(b, (k, 0), (64, 64)), total)
        if ct.sum(x.astype(ct.float32)) > limit:
            break
    ct.store(c, (0, 0), total)


@ct.kernel
def one_after_another(a, b, c, _):
    for row in ct.static_iter(range(2)):
        total = ct.zeros((64, 64), ct.float32)
        for k in range(ct.num_tiles(a, 1, (64, 64))):
            total = ct.mma(ct.load(a, (row, k), (64, 64)), ct.load(b, (k, row), (64, 64)), total)
        ct.store(c, (row, 0), total)


@ct.kernel
def counts(a, b, c, flags):
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.num_tiles(a, 1, (64, 64))):
        total = ct.mma(ct.load(a, (0, k), (64, 64)), ct.load(b, (k, 0), (64, 64)), total)
        ct.atomic_add(flags, 0, 1)
    ct.store(c, (0, 0), total)
    ct.atomic_xchg(flags, 0, 0, memory_order=ct.MemoryOrder.RELEASE)


@ct.kernel
def branches(a, b, c, flag):
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.num_tiles(a, 1, (64, 64))):
        x = ct.load(a, (0, k), (64, 64))
        if (k + flag) % 3 == 0:
            total = ct.mma(x, ct.load(b, (k, 0), (64, 64)), total)
        else:
            total = total + ct.transpose(x.astype(ct.float32))
    ct.store(c, (0, 0), total)


def _square(n: int, dtype: Any) -> tuple[Any, ...]:
    return (np.empty((n, n), dtype),) * 3


_K = _benchmark_kernels()
_HALF, _SINGLE = np.empty((512, 512), np.float16), np.empty((512, 512), np.float32)
_FLAGS = np.empty(4, np.int32)
_ROWS = np.empty((64, 4096), np.float16)


def _sums(rows: int, columns: int, splits: int) -> tuple[Any, Any]:
    return np.zeros((66, splits, rows, columns), np.float32), np.zeros(66, np.int32)


def _heads(depth: int) -> tuple[Any, ...]:
    return (np.empty((1, 2, 512, depth), ml_dtypes.bfloat16),) * 4


KERNELS: dict[str, tuple[Any, tuple[Any, ...], dict[str, int]]] = {
    "small": (_K.matmul, (*_square(1024, np.float16), 64, 128, 64, 8, False), {"num_warps": 4, "num_stages": 8}),
    "grid": (_K.matmul_grid, (*_square(1024, np.float16), 64, 128, 64, False), {"num_warps": 4, "num_stages": 8}),
    "tiles": (
        _K.matmul_persistent,
        (*_square(4096, ml_dtypes.bfloat16), 128, 256, 64, 8, False),
        {"num_warps": 8, "num_stages": 4},
    ),
    "pairs": (
        _K.matmul_persistent,
        (*_square(4104, np.float16), 128, 256, 64, 8, False),
        {"num_warps": 8, "num_stages": 4},
    ),
    "pairs of tiles": (
        _K.matmul,
        (*_square(4104, np.float16), 128, 256, 64, 8, False),
        {"num_warps": 8, "num_stages": 4},
    ),
    "pairs in a grid": (
        _K.matmul_grid,
        (*_square(1000, np.float16), 64, 128, 128, False),
        {"num_warps": 4, "num_stages": 4},
    ),
    "shares": (
        _K.matmul_shares,
        (*_square(5120, np.float16), *_sums(128, 64, 4), 128, 256, 64, 128, 64, 128, 4, 8, False),
        {"num_warps": 8, "num_stages": 4},
    ),
    "pairs and shares": (
        _K.matmul_shares,
        (*_square(3000, np.float16), *_sums(128, 128, 2), 128, 256, 64, 128, 128, 64, 2, 8, False),
        {"num_warps": 8, "num_stages": 4},
    ),
    "parts": (
        _K.matmul_parts,
        (*_square(3000, np.float16), 128, 64, 64, 1, 3, 8),
        {"num_warps": 4, "num_stages": 4},
    ),
    "staged": (
        _K.matmul_persistent,
        (*_square(513, ml_dtypes.bfloat16), 128, 256, 64, 8, False),
        {"num_warps": 8, "num_stages": 3},
    ),
    "tf32 tile": (_K.matmul, (*_square(4096, np.float32), 256, 128, 32, 8, True), {"num_warps": 8, "num_stages": 3}),
    "clusters": (
        _K.matmul_persistent.replace_hints(num_ctas=2),
        (*_square(512, np.float16), 128, 256, 64, 8, False),
        {},
    ),
    "attention": (_K.attention, (*_heads(128), 0.1, 2, 128, 128, 128, False), {}),
    "narrow": (_K.attention, (*_heads(64), 0.1, 2, 64, 64, 128, False), {}),
    "narrow causal": (_K.attention, (*_heads(64), 0.1, 2, 64, 128, 64, True), {"num_stages": 2}),
    "layer norm": (_K.layer_norm, (_ROWS, _ROWS[0], _ROWS[0], _ROWS, 1e-5, 4096, 4096), {"num_warps": 8}),
    "transpose": (_K.transpose, (_SINGLE, _SINGLE, 64, 64), {}),
    "break": (breaks, (_HALF, _HALF, _SINGLE, 1.0), {}),
    "two loops": (one_after_another, (_HALF, _HALF, _SINGLE, 0), {}),
    "atomics": (counts, (_HALF, _HALF, _SINGLE, _FLAGS), {}),
    "branches": (branches, (_HALF, _HALF, _SINGLE, 1), {}),
}


def compiled(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """The PTX of a kernel without and with all of its barriers."""
    kernel, args, options = KERNELS[name]
    texts = []
    thin = barrier_elimination.eliminate

    def keep(text: str) -> str:
        texts.append(text)
        return thin(text)

    monkeypatch.setattr(barrier_elimination, "eliminate", keep)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "off")
    stages = (kernel.replace_options("triton", **options) if options else kernel).compile_for("sm_90", args)
    return stages.stage("PTX"), texts[-1]


ONE_BARRIER = ("small", "grid", "pairs of tiles", "pairs in a grid")  # for each step of their product


@pytest.mark.parametrize("name", KERNELS)
def test_what_needs_an_order_keeps_its_barrier(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, text = compiled(name, monkeypatch)
    before, after = check(text)
    assert made.count("bar.sync") == after
    assert (after == before) == (name in ("layer norm", "transpose"))
    if name in ONE_BARRIER:
        steps = [re.search(r"Loop Header.*?\$L", t, re.DOTALL)[0].count("bar.sync") for t in (text, made)]  # type: ignore
        most = 2 if (3, 7) <= version() < (3, 8) else 1  # of what Triton 3.7 makes one is left
        assert steps[0] > steps[1] and steps[1] <= most


# -- forms


WAIT = "waitLoop:\nmbarrier.try_wait.parity.shared.b64 complete, [%r1], %r2;\n@!complete bra.uni waitLoop;"
START = "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 8192;"
LOAD = (
    "@%p2 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1, {%r4, %r5}], [%r1];"
)
READ, WRITE = "ld.shared.b32 %r6, [%r3];", "st.shared.b32 [%r3], %r6;"
MEETING = "barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;"
SHARED = LOAD.replace("bytes [", "bytes.multicast::cluster [").replace("[%r1];", "[%r1], %rs1;")
INIT, END = "@%p1 mbarrier.init.shared::cta.b64 [%r1], 1;", "@%p1 mbarrier.inval.shared::cta.b64 [%r1];"
BARRIER = "bar.sync 0;"


@pytest.mark.parametrize(
    ("before", "after", "stays"),
    [
        (START, LOAD, False),
        (LOAD, START, False),
        (LOAD, WAIT, False),
        (WAIT, READ, False),
        (INIT, INIT, False),
        (END, END, False),
        (READ, READ, False),
        (READ, WAIT, False),
        (READ, f"{WAIT}\n{READ}", False),
        (READ, WRITE, True),
        (READ, LOAD, True),  # it would overwrite what others still read
        (WRITE, READ, True),
        (f"{READ}\n{START}", LOAD, True),
        (WAIT, START, True),  # others may still wait
        (WAIT, END, True),
        (LOAD, END, True),
        (INIT, START, True),
        (END, INIT, True),
        (START, f"{MEETING}\n{SHARED}", False),
        (f"{LOAD}\n{MEETING}\n{SHARED}", WAIT, False),
        (READ, f"{MEETING}\n{SHARED}", True),
        (f"{WAIT}\n{MEETING}", START, True),
        (INIT, f"{MEETING}\n{SHARED}", True),
        (START, "atom.global.gpu.release.exch.b32 %r7, [%rd1], %r8;", True),
        (START, "made.up.b32 %r7, %r8;", True),
        ("made.up.b32 %r7, %r8;", LOAD, True),
        (f"{READ}\n$L1:", f"{LOAD}\n@%p3 bra $L1;", True),
        (f"$L1:\n{START}", f"{WAIT}\n{READ}\n@%p3 bra $L1;", True),  # the next start comes after the read
        (f"$L1:\n{BARRIER}\n{START}", f"{WAIT}\n{READ}\n@%p3 bra $L1;", False),
        (f"@%p3 bra $L1;\n{READ}\n$L1:", LOAD, True),
    ],
)
def test_what_follows_without_a_barrier(before: str, after: str, stays: bool) -> None:
    text = f"{BARRIER}\n{WAIT}\n{BARRIER}\n{WRITE}\n{BARRIER}\n{before}\nbar.sync\t0; // here\n{after}\n{BARRIER}\nret;"
    check(text)
    assert ("// here" in barrier_elimination.eliminate(text)) == stays


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("@!complete bra.uni", "@!complete bra"),
        lambda text: text.replace("mbarrier.try_wait", "@%p1 mbarrier.try_wait"),
        lambda text: text.replace("waitLoop:", "@%p1 bra $L9;\nwaitLoop:") + "\n$L9:\nret;",  # not all threads wait
        lambda text: text.replace(BARRIER, "@%p1 bar.sync 0;", 1),
        lambda text: text.replace(BARRIER, "bar.sync 1, 64;", 1),
        lambda text: text.replace("ret;", "barrier.cluster.arrive.aligned;\nret;"),
        lambda text: text.replace("ret;", "@%p1 barrier.cluster.wait.aligned;\nret;"),
        lambda text: text.replace("ret;", "brx.idx %r1, $L9;"),
        lambda text: text.replace("ret;", "bra $L8;"),
        lambda text: text + "\n.func f() {}",
        lambda text: ".explicitcluster\n" + text,
    ],
)
def test_unknown_forms_keep_all_barriers(change: Callable[[str], str]) -> None:
    text = f"{INIT}\n{BARRIER}\n{START}\n{BARRIER}\n{LOAD}\n{WAIT}\n{READ}\nret;"
    assert barrier_elimination.eliminate(text) != text
    assert barrier_elimination.eliminate(change(text)) == change(text)


def test_tensor_maps_are_fetched_first(monkeypatch: pytest.MonkeyPatch) -> None:
    made, text = compiled("small", monkeypatch)
    maps = re.findall(r"\.b8 (\w+)\[128\]", text)
    assert len(maps) == 3
    start = made[: made.index("mbarrier")]
    assert [f"mov.b64 map, {name};" in start for name in maps] == [True] * 3
    assert start.count("prefetch.tensormap") == 3
    assert ptx.fetch_maps("ret;") == "ret;"
