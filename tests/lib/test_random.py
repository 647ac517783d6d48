"""Random numbers against the published algorithm, and their distribution."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.elementwise import apply

from tilewright import lib
from tilewright.compat.program import run_program

MASK = (1 << 32) - 1


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox 4x32 with 10 rounds in Python's integers."""
    c, k = list(counter), list(key)
    for _ in range(10):
        p, q = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(q >> 32) ^ c[1] ^ k[0], q & MASK, (p >> 32) ^ c[3] ^ k[1], p & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def test_the_model_gives_the_published_vectors() -> None:
    """The known answers that the authors publish with their implementation."""
    assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox([MASK] * 4, [MASK] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


def test_philox(backend: str) -> None:
    words = np.random.default_rng(1).integers(0, 1 << 32, (6, 64), np.uint32)
    formulas = [lambda a, b, c, d, k, m, i=i: lib.philox((a, b, c, d), (k, m))[i] for i in range(4)]
    got = apply(backend, formulas, list(words), [np.uint32] * 4)
    want = np.array([philox(row[:4], row[4:]) for row in words.T.tolist()], np.uint32)
    np.testing.assert_array_equal(np.stack(got, 1), want)


def test_numbers_depend_on_seed_and_index_only(backend: str) -> None:
    index = np.array([0, 1, 2, 5, 1 << 40], np.int64)
    seed = 0x123456789ABCDEF
    (got,) = apply(backend, [lambda i: lib.random_bits(seed, i)], [index], [np.uint32])
    key = [seed & MASK, seed >> 32]
    assert got.tolist() == [philox([i & MASK, i >> 32, 0, 0], key)[0] for i in index.tolist()]


def test_distributions(backend: str) -> None:
    index = np.arange(1 << 14, dtype=np.int32)
    uniform, normal = apply(
        backend, [lambda i: lib.uniform(3, i), lambda i: lib.normal(3, i)], [index], [np.float32, np.float32]
    )
    assert uniform.min() >= 0 and uniform.max() < 1
    counts = np.histogram(uniform, 16, (0, 1))[0]
    assert ((counts - 1024) ** 2 / 1024).sum() < 40  # chi square with 15 degrees of freedom: 1 in 2,000 is above
    assert abs(normal.mean()) < 0.03 and abs(normal.std() - 1) < 0.03
    assert np.isfinite(normal).all() and abs((normal**4).mean() - 3) < 0.3


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16], ids=lambda t: t.__name__)
@pytest.mark.parametrize("probability", [0.0, 0.25, 1.0])
def test_dropout(backend: str, probability: float, dtype: Any) -> None:
    index, x = np.arange(4096, dtype=np.int32), np.full(4096, 3, dtype)
    (narrow,) = apply(backend, [lambda t, i: lib.dropout(t, probability, 9, i)], [x, index], [dtype])
    got = narrow.astype(np.float32)
    kept = got != 0
    assert abs(kept.mean() - (1 - probability)) < 0.03
    np.testing.assert_allclose(got[kept], 3 / (1 - probability) if probability < 1 else 0, rtol=2.0**-20)
    (bits,) = apply(backend, [lambda i: lib.uniform(9, i)], [index], [np.float32])
    np.testing.assert_array_equal(kept, bits >= probability)


PROGRAM = """
import numpy as np
import cuda.tile as ct
from tilewright import lib

@ct.kernel
def k(x, out):
    i = ct.bid(0)
    t = ct.load(x, (i,), (16,), padding_mode=ct.PaddingMode.ZERO)
    kept = lib.dropout(lib.gelu(lib.sort(t)), 0.0, 1, ct.arange(16, dtype=ct.int32))
    ct.store(out, (i,), kept + lib.clamp(lib.softmax(t), 0.0, 0.0))

x, out = np.linspace(1, -1, 40, dtype=np.float32), np.zeros(40, np.float32)
ct.launch(None, (3,), k, (x, out))
assert abs(out[15] - 0.8413447) < 1e-5, out
"""


def test_programs_for_the_original_use_it(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    run_program(str(tmp_path / "program.py"), [])
