"""The commands that compare backends and damage files work, and find nothing in a few cases."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
from support import cutile_oracle, tile_ir_mutations, tile_ir_oracle

import tilewright as ct

ROOT = Path(__file__).parents[2]


@pytest.mark.usefixtures("clean_imports")  # the file of an example has our cuda.tile
@pytest.mark.parametrize(
    "arguments",
    [
        [f"{ROOT}/examples/vector_add.py::vector_add", "--grid", "4", *["--arg", "f32[4096]"] * 3, "--arg", "1024"],
        [f"{Path(__file__).parent}/data/cutile/vector_add_13.3.tilebc", "--grid", "4", *["--arg", "f32[64]"] * 3],
    ],
    ids=("python", "bytecode"),
)
def test_all_sides_agree(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert tile_ir_oracle.main(arguments) == 0
    said = capsys.readouterr().out
    assert said.count("agrees") >= 4 and "cpu through Tile IR" in said


def test_a_side_that_differs_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert tile_ir_oracle.main(["kernels:3"]) == 0
    right = tile_ir_oracle.tile_ir_round_trip.outcome
    monkeypatch.setattr(
        tile_ir_oracle.tile_ir_round_trip, "outcome", lambda *of: {n: np.zeros_like(a) for n, a in right(*of).items()}
    )
    capsys.readouterr()
    assert tile_ir_oracle.main(["kernels:3"]) == 1
    said = dict(
        line.split(maxsplit=1) for line in capsys.readouterr().out.replace(" through Tile IR", "*").splitlines()
    )
    assert said["cpu"] == "agrees" and "elements differ" in said["cpu*"]


def test_a_fault_names_its_mutation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tile_ir_mutations, "corpus", lambda: (b"sound",))
    found = tile_ir_mutations.Found()
    found.one(7)
    assert found.counts == {"read": 0, "refused": 1} and not found.faults
    monkeypatch.setattr(tile_ir_mutations, "outcome", lambda data: data[100])
    found.one(8)
    assert found.faults == [(8, "IndexError: index out of range")]


CASTS = (lambda x, to=ct.float16: x.astype(to) * ct.float16(2), lambda x: x.astype(ct.int32))


@ct.kernel
def cast(x, out, which: ct.Constant[int], shape: ct.Constant):
    ct.store(out, (0,), CASTS[which](ct.load(x, (0,), shape)))


@pytest.mark.parametrize("which", (0, 1))
def test_what_a_kernel_names_is_translated_for_cutile(which: int) -> None:
    """Lambdas in tables, dtypes as defaults, and tuples as constants."""
    pytest.importorskip("cuda.tile._ir2bytecode", reason="cuTile Python is not installed")  # nor what stands in for it
    values = np.arange(8, dtype=np.float32), np.zeros(8, (np.float16, np.int32)[which]), which, (8,)
    outcomes = cutile_oracle.Outcomes()
    outcomes.one("cast", cast, (1,), values, functools.partial(ct.launch, None, (1,), cast, values))
    assert outcomes.counts == {"equal": 1}, outcomes
