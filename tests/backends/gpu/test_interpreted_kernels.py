"""Random whole kernels, lowered to the gpu stage, give in the interpreter what the reference gives, without a fault."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_stage import Fault
from support.kernel_runs import compare, generated, seeds

import tilewright as ct
from tilewright.ir.core import Block, Function
from tilewright.ir.errors import TileError
from tilewright.ir.ops.gpu.memory import Barrier
from tilewright.transforms.gpu.insert_barriers import InsertBarriers

_WARPS = (4, 1, 8, 2)


@pytest.mark.parametrize("seed", seeds(10))
def test_same_as_the_reference(seed: int) -> None:
    with interpreter_backend(_WARPS[seed % 4]) as backend:
        compare(generated(seed), backend)


def row_sums(x: ct.Array, y: ct.Array) -> None:
    for i in range(2):
        tile = ct.load(x, (i, 0), (1, 1024))
        ct.store(y, (i, 0), tile / ct.sum(tile, axis=1, keepdims=True))


def test_without_its_barriers_a_kernel_races(monkeypatch: pytest.MonkeyPatch) -> None:
    """The barriers between what warps exchange are needed: each of them."""
    x, y = np.ones((2, 1024), np.float32), np.zeros((2, 1024), np.float32)
    insert = InsertBarriers.change

    def but(dropped: int | None) -> int:
        """Launch without the barrier of that number; how many there are."""
        count = 0

        def change(self: InsertBarriers, function: Function) -> bool:
            nonlocal count
            insert(self, function)
            for op in [op for block in blocks(function) for op in block.ops if isinstance(op, Barrier)]:
                if count == dropped:
                    op.erase()
                count += 1
            return True

        monkeypatch.setattr(InsertBarriers, "change", change)
        with interpreter_backend(4) as backend:
            ct.launch(None, (1,), ct.kernel(row_sums), (x, y), backend=backend)
        return count

    number = but(None)
    assert (
        number == 2
    )  # before the partial sums of the warps are read, and before those of the next iteration are written
    assert (y == np.float32(1 / 1024)).all()
    for dropped in range(number):
        with pytest.raises(Fault, match="^<?.*race: gpu.shared_") as found:
            but(dropped)
        assert found.value.loc is not None and found.value.loc.file == __file__


def blocks(function: Function) -> list[Block]:
    return [function.body, *(r for op in function.walk() for r in op.regions)]


@ct.kernel
def quarter(x: ct.Array, y: ct.Array) -> None:
    ct.store(y, (0, 0), ct.extract(ct.load(x, (0, 0), (256, 256)), (ct.bid(0), 0), (64, 256)))


def test_too_much_shared_memory_is_named() -> None:
    x = np.zeros((256, 256), np.float64)
    with interpreter_backend(4) as backend, pytest.raises(TileError, match="needs 524288 bytes of shared memory") as e:
        ct.launch(None, (1,), quarter, (x, x.copy()), backend=backend)
    assert "of 232448 bytes that a block can have" in e.value.message


def test_addresses_that_are_computed_while_products_run() -> None:
    """They are no sums that a wait for products could hold."""
    with interpreter_backend(None, target="sm_90") as backend:
        compare(generated(740929), backend)
