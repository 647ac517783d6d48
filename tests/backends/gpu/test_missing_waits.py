"""The interpreter of PTX finds each kind of wait that is missing: asynchronous work is done as late as waits allow."""

from __future__ import annotations

import re

import pytest
from support.gpu_products import BF16, Product
from support.ptx import backend as ptx
from support.ptx.backend import ptx_backend

LOADED = re.compile(r"before it is written, or what is in flight has arrived")
STORED = re.compile(r"written while it is read in flight|in flight when all threads end")


def run_without(monkeypatch: pytest.MonkeyPatch, wait: str, target: str, product: Product) -> None:
    """Run ``product`` from its PTX, of which the instructions are left out that match ``wait``."""
    real, removed = ptx.parse, []

    def parse(text: str) -> object:
        text, count = re.subn(wait, "", text)
        removed.append(count)
        return real(text)

    monkeypatch.setattr(ptx, "parse", parse)
    with ptx_backend(4, target) as backend:
        product.run(backend)
    assert not wait or removed[0]


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_no_wait_is_missing(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    run_without(monkeypatch, "", target, Product((128, 64, 256), (64, 64, 32), BF16, BF16))


@pytest.mark.parametrize(
    "target, wait, message",
    [
        ("sm_80", r"cp\.async\.wait_group \d+;", LOADED),
        ("sm_90", r"wgmma\.wait_group\.sync\.aligned \d+;", STORED),
        ("sm_90", r"cp\.async\.bulk\.wait_group\.read \d+;", STORED),
    ],
)
def test_a_wait_that_is_missing_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, target: str, wait: str, message: re.Pattern[str]
) -> None:
    with pytest.raises(ptx.Fault, match=message.pattern):
        run_without(monkeypatch, wait, target, Product((128, 64, 256), (64, 64, 32), BF16, BF16))
