"""Accesses in the order that the language asks for."""

from __future__ import annotations

import re

import numpy as np
import pytest
from backends.triton.compiled_kernels import compiled, handshake

import tilewright as ct

pytest.importorskip("triton", reason="the package triton is not installed")


@ct.kernel
def order(flags, data):
    while ct.atomic_cas(flags, 0, 0, 1, memory_order=ct.MemoryOrder.ACQUIRE) != 0:
        pass
    tile = ct.load(data, (0,), (128,))
    ct.store(data, (0,), tile + 1)
    ct.atomic_xchg(flags, 0, 0, memory_order=ct.MemoryOrder.RELEASE)


def test_order_of_memory_operations() -> None:
    """A barrier follows the acquire, one parts the load from the store, and one goes before the release."""
    artifact = compiled(order, (np.zeros(1, np.int32), np.zeros(128, np.float32)), "sm_90")
    lines = artifact.binary.texts["TTIR"].splitlines()
    pattern = re.compile(r"(atomic_cas|gpu\.barrier|tt\.load|tt\.store|atomic_rmw)")
    kinds = [found.group(1) for line in lines if (found := pattern.search(line))]
    assert kinds == ["atomic_cas", "gpu.barrier", "tt.load", "gpu.barrier", "tt.store", "gpu.barrier", "atomic_rmw"]
    ptx = artifact.binary.texts["PTX"]
    assert re.search(r"atom\S*acquire\S*cas", ptx)
    assert re.search(r"atom\S*release\S*exch", ptx)


def test_accesses_with_a_memory_order() -> None:
    """A load says its order; a store is an exchange, of the word around it where it is small."""
    wide, narrow = np.zeros(128, np.float32), np.zeros(128, np.int8)
    ptx = compiled(handshake, (wide, wide, 64), "sm_90").binary.texts["PTX"]
    assert "ld.acquire.gpu.global.b32" in ptx
    assert "atom.global.sys.release.exch.b32" in ptx
    for args in ((narrow, narrow, 64), (narrow, narrow, 1)):
        ptx = compiled(handshake, args, "sm_90").binary.texts["PTX"]
        assert "ld.acquire.gpu.global.b8" in ptx
        assert "atom.global.release.sys.cas.b32" in ptx
    assert "global_atomic_cmpswap" in compiled(handshake, (narrow, narrow, 64), "gfx942").binary.texts["assembly"]


@ct.kernel
def waiting(flags, out):
    while ct.load(flags, (0,), (1,), memory_order=ct.MemoryOrder.ACQUIRE, memory_scope=ct.MemoryScope.SYS).item() < 4:
        pass
    ct.store(out, (0,), ct.ones((64,), ct.float32))


def test_all_threads_find_the_same_value() -> None:
    """One loads it and tells the others: if each did, some would leave the loop before others, in which all meet."""
    ptx = compiled(waiting, (np.zeros(1, np.int32), np.zeros(64, np.float32)), "sm_90").binary.texts["PTX"]
    loop = ptx[ptx.index("ld.acquire.sys") :]
    loop = loop[: loop.index("bra")]
    assert loop.index("redux.sync.max.u32") < loop.index("st.shared") < loop.index("bar.sync") < loop.index("ld.shared")
