"""Control flow, scheduling of blocks that wait for each other, output, and the interface of the backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from support.irbuild import KernelBuilder, launch_arguments, run

from tilewright.backends.reference import BACKEND, ReferenceExecutable, scheduler
from tilewright.backends.registry import get_backend
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.dtypes import bool_, float16, float32, int32
from tilewright.ir.enums import AtomicKind, CmpPredicate, MemoryOrder, MemoryScope, RoundingMode
from tilewright.ir.errors import TileError
from tilewright.ir.location import Loc
from tilewright.ir.ops import arith, linear, memory, shape
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Yield
from tilewright.ir.types import I32

ACQUIRE = {"memory_order": MemoryOrder.ACQUIRE, "memory_scope": MemoryScope.DEVICE}
RELEASE = {"memory_order": MemoryOrder.RELEASE, "memory_scope": MemoryScope.DEVICE}
ACQ_REL = {"memory_order": MemoryOrder.ACQ_REL, "memory_scope": MemoryScope.DEVICE}


def compare(k: KernelBuilder, a: Value, predicate: CmpPredicate, b: int) -> Value:
    return k.emit(arith.Cmp, a, k.constant(b), predicate=predicate)


def test_for_and_if() -> None:
    """Sums the even numbers below n, with a step that does not hit the end."""
    k = KernelBuilder()
    n, out = k.scalar("n", int32), k.array("out", int32, 0)
    with k.region(I32, I32) as body:
        i, total = body.args
        even = compare(k, k.emit(arith.And, i, k.constant(1)), CmpPredicate.EQ, 0)
        with k.region() as then:
            k.b.emit_op(Yield, [k.emit(arith.Add, total, i)])
        with k.region() as orelse:
            k.b.emit_op(Yield, [total])
        total = k.emit(If, even, types=(I32,), then=then, orelse=orelse)
        k.b.emit_op(Continue, [total])
    result = k.emit(For, k.constant(0), n, k.constant(3), [k.constant(0)], body=body)
    k.store_tile(out, result, [])
    for limit in (0, 1, 10, 25):
        target = np.array(-1, np.int32)
        run(BACKEND, k.function(), n=limit, out=target)
        assert target == sum(i for i in range(0, limit, 3) if i % 2 == 0)


def leave(k: KernelBuilder, condition: Value, terminator: type[Op], values: list[Value]) -> None:
    """``if condition: terminator``."""
    with k.region() as then:
        k.b.emit_op(terminator, values)
    with k.region() as orelse:
        k.b.emit_op(Yield, [])
    k.b.emit_op(If, condition, types=(), then=then, orelse=orelse)


def test_break_and_continue_in_nested_ifs() -> None:
    """for i in 0, 1, ...: if i > 3: { if i > 6: break }; if i is odd: continue; total += i."""
    k = KernelBuilder()
    out = k.array("out", int32, 1)
    one = k.constant(1)
    with k.region(I32, I32) as body:
        i, total = body.args
        following = k.emit(arith.Add, i, one)
        with k.region() as then:
            leave(k, compare(k, i, CmpPredicate.GT, 6), Break, [i, total])
            k.b.emit_op(Yield, [])
        with k.region() as orelse:
            k.b.emit_op(Yield, [])
        k.b.emit_op(If, compare(k, i, CmpPredicate.GT, 3), types=(), then=then, orelse=orelse)
        leave(k, compare(k, k.emit(arith.And, i, one), CmpPredicate.EQ, 1), Continue, [following, total])
        k.b.emit_op(Continue, [following, k.emit(arith.Add, total, i)])
    loop = k.b.emit_op(Loop, [k.constant(0), k.constant(100)], types=(I32, I32), body=body)
    for place, value in enumerate(loop.results):
        k.store_tile(out, k.emit(shape.Reshape, value, shape=(1,)), [k.constant(place)])
    target = np.zeros(2, np.int32)
    run(BACKEND, k.function(), out=target)
    np.testing.assert_array_equal(target, [7, 100 + 0 + 2 + 4 + 6])


def test_step_must_be_positive() -> None:
    k = KernelBuilder()
    with k.region(I32) as body:
        k.b.emit_op(Continue, [])
    k.b.emit_op(For, k.constant(0), k.constant(4), k.constant(0), [], body=body)
    with pytest.raises(TileError, match="the step of this loop is 0; it must be positive"):
        run(BACKEND, k.function())


def test_grid() -> None:
    k = KernelBuilder()
    out = k.array("out", int32, 4)
    ids = [k.bid(a) for a in range(3)]
    counts = [k.emit(memory.NumBlocks, axis=a) for a in range(3)]
    code = k.constant(0)
    for value in (*ids, *counts):
        code = k.emit(arith.Add, k.emit(arith.Mul, code, k.constant(10)), value)
    k.store_tile(out, k.emit(shape.Reshape, code, shape=(1, 1, 1, 1)), [*ids, k.constant(0)])
    target = np.zeros((2, 3, 4, 1), np.int32)
    run(BACKEND, k.function(), (2, 3, 4), out=target)
    for x, y, z in np.ndindex(2, 3, 4):
        assert target[x, y, z, 0] == int(f"{x}{y}{z}234")


def spin_until(k: KernelBuilder, done: Callable[[], Value]) -> None:
    with k.region() as body:
        leave(k, done(), Break, [])
        k.b.emit_op(Continue, [])
    k.b.emit_op(Loop, [], types=(), body=body)


def flag_is(k: KernelBuilder, pointer: Value, wanted: Value) -> Value:
    flag = k.emit(memory.Load, pointer, None, None, **ACQUIRE)
    return k.emit(arith.Cmp, flag, wanted, predicate=CmpPredicate.EQ)


def chain_kernel() -> KernelBuilder:
    """Block b waits until the flag is the number of blocks after it, doubles the value, and raises the flag."""
    k = KernelBuilder()
    flag, value = k.array("flag", int32, 0), k.array("value", int32, 0)
    after = k.emit(arith.Sub, k.emit(memory.NumBlocks, axis=0), k.emit(arith.Add, k.bid(0), k.constant(1)))
    k.b.loc = Loc("chain.py", 20)
    spin_until(k, lambda: flag_is(k, flag.base, after))
    x = k.load_tile(value, (), [])
    k.store_tile(value, k.emit(arith.Add, x, k.emit(arith.Add, x, k.bid(0))), [])
    k.b.emit_op(memory.Store, flag.base, k.emit(arith.Add, after, k.constant(1)), None, **RELEASE)
    return k


def test_blocks_that_wait_for_later_ones() -> None:
    flag, value = np.zeros((), np.int32), np.ones((), np.int32)
    run(BACKEND, chain_kernel().function(), (20,), flag=flag, value=value)
    expected = 1
    for block in reversed(range(20)):
        expected = 2 * expected + block
    assert (flag, value) == (20, np.int64(expected).astype(np.int32))


def test_lock() -> None:
    """Every block adds to a counter many times under one lock, with strong operations enough to lose its turn."""
    k = KernelBuilder()
    lock, counter = k.array("lock", int32, 0), k.array("counter", int32, 0)
    zero, one = k.constant(0), k.constant(1)
    with k.region(I32) as body:

        def taken() -> Value:
            before = k.emit(memory.AtomicCas, lock.base, zero, one, None, **ACQ_REL)
            return k.emit(arith.Cmp, before, zero, predicate=CmpPredicate.EQ)

        spin_until(k, taken)
        k.store_tile(counter, k.emit(arith.Add, k.load_tile(counter, (), []), one), [])
        k.emit(memory.AtomicRmw, lock.base, zero, None, kind=AtomicKind.XCHG, **ACQ_REL)
        k.b.emit_op(Continue, [])
    k.b.emit_op(For, zero, k.constant(41), one, [], body=body)
    held, total = np.zeros((), np.int32), np.zeros((), np.int32)
    run(BACKEND, k.function(), (6,), lock=held, counter=total)
    assert (held, total) == (0, 6 * 41)


def test_deadlock_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "STUCK_TURNS", 20)
    flag, value = np.full((), 99, np.int32), np.ones((), np.int32)
    with pytest.raises(TileError, match="deadlock") as caught:
        run(BACKEND, chain_kernel().function(), (2,), flag=flag, value=value)
    assert "block (0, 0, 0) at chain.py:20:1 (load); block (1, 0, 0) at chain.py:20:1 (load)" in caught.value.message
    assert caught.value.loc == Loc("chain.py", 20)


def test_a_loop_that_changes_nothing_is_an_error() -> None:
    """A weak load does not wait for another block. Loops that count, or change memory, go on."""
    k = KernelBuilder()
    flag = k.array("flag", int32, 0)
    k.b.loc = Loc("spin.py", 7)
    loaded = lambda: k.emit(memory.Load, flag.base, None, None)
    limit = k.constant(3000)

    def counted() -> Value:
        more = k.emit(arith.Add, loaded(), k.constant(1))
        k.b.emit_op(memory.Store, flag.base, more, None)
        return k.emit(arith.Cmp, more, limit, predicate=CmpPredicate.EQ)

    spin_until(k, counted)
    spin_until(k, lambda: k.emit(arith.Cmp, loaded(), k.constant(-1), predicate=CmpPredicate.EQ))
    value = np.zeros((), np.int32)
    with pytest.raises(TileError, match="this loop does not end: 1000 iterations") as caught:
        run(BACKEND, k.function(), (1,), flag=value)
    assert value == 3000 and caught.value.loc == Loc("spin.py", 7)


def test_print(capsys: pytest.CaptureFixture[str]) -> None:
    k = KernelBuilder()
    halves = k.constant(0.5, float32, (2,))
    parts = ("block ", None, ": ", None, " ", None, "\n")
    k.b.emit_op(memory.Print, [k.bid(0), halves, k.constant(True, bool_)], parts=parts, formats=("%03d", "", ""))
    run(BACKEND, k.function(), (2,))
    assert capsys.readouterr().out == "".join(f"block 00{i}: [0.500000, 0.500000] 1\n" for i in range(2))


def test_assert() -> None:
    k = KernelBuilder()
    n = k.scalar("n", int32)
    k.b.loc = Loc("kernel.py", 5)
    below = k.emit(arith.Cmp, k.iota(4), k.fill(n, (4,)), predicate=CmpPredicate.LT)
    k.b.emit_op(memory.Assert, below, [], message="too many")
    run(BACKEND, k.function(), n=4)
    with pytest.raises(TileError, match=r"assertion failed: too many, in block \(0, 0, 0\)") as caught:
        run(BACKEND, k.function(), n=3)
    assert caught.value.loc == Loc("kernel.py", 5)


class Recorder:
    def __init__(self) -> None:
        self.seen: list[tuple[str, tuple[int, int, int], list[Any]]] = []

    def before(self, op: Op, block: tuple[int, int, int], operands: Sequence[Any]) -> None:
        self.seen.append((op.name, block, list(operands)))


def test_observer_sees_ops_before_they_take_effect() -> None:
    k = KernelBuilder()
    out = k.array("out", int32, 0)
    k.b.emit_op(memory.Store, out.base, k.bid(0), None)
    function = k.function()
    recorder = Recorder()
    target = np.zeros((), np.int32)
    ReferenceExecutable(function).launch((2, 1, 1), launch_arguments(function, {"out": target}), recorder)
    stores = [(block, int(operands[1])) for name, block, operands in recorder.seen if name == "store"]
    assert stores == [((0, 0, 0), 0), ((1, 0, 0), 1)]
    assert [name for name, *_ in recorder.seen] == ["bid", "store", "return"] * 2


@pytest.mark.parametrize("reverse", [False, True])
def test_combiners_without_an_observer(reverse: bool) -> None:
    """A combiner of pairs that nobody looks into is one function, and gives what its ops give one by one."""
    k = KernelBuilder()
    a, b = (k.array(name, float16, 2) for name in "ab")
    scale, low = k.scalar("scale", float16), k.constant(0.25, float16)

    def recurrence(a: Value, x: Value, b: Value, y: Value) -> list[Value]:
        later = k.emit(arith.Add, k.emit(arith.Mul, x, b, rounding=RoundingMode.RP), k.emit(arith.Mul, y, scale))
        least = k.emit(arith.Cmp, a, b, predicate=CmpPredicate.LT)
        return [k.emit(arith.Max, k.emit(arith.Select, least, a, b), low), later]

    tiles = [k.load_tile(x, (4, 64), [k.constant(0)] * 2) for x in (a, b)]
    body = k.combiner([float16, float16], recurrence)
    scanned = k.b.emit_op(linear.Scan, tiles, axis=1, identities=(0.0, 0.0), reverse=reverse, body=body).results
    for array, value in zip((a, b), scanned):
        k.store_tile(array, value, [k.constant(0)] * 2)
    function = k.function()
    found = []
    for observer in (None, Recorder()):
        rng = np.random.default_rng(0)
        values = {name: rng.uniform(0, 1.2, (4, 64)).astype(np.float16) for name in "ab"}
        arguments = launch_arguments(function, {**values, "scale": 0.5})
        ReferenceExecutable(function).launch((1, 1, 1), arguments, observer)
        found.append([values[name].tobytes() for name in "ab"])
    assert isinstance(observer, Recorder) and len([name for name, *_ in observer.seen if name == "select"]) == 63
    assert found[0] == found[1]


def test_observer_of_waiting_blocks() -> None:
    """A strong load is observed when it happens, after the other blocks had their turn."""
    flag = np.zeros((), np.int32)
    at_load: dict[tuple[int, int, int], int] = {}
    compared: list[bool] = []

    class Watcher:
        def before(self, op: Op, block: tuple[int, int, int], operands: Sequence[Any]) -> None:
            if op.name == "load":
                at_load[block] = int(flag)
            if op.name == "cmp":
                compared.append(at_load[block] == operands[0])

    function = chain_kernel().function()
    values = {"flag": flag, "value": np.ones((), np.int32)}
    ReferenceExecutable(function).launch((3, 1, 1), launch_arguments(function, values), Watcher())
    assert len(compared) > scheduler.TURN and all(compared)


def test_launches_from_several_threads() -> None:
    function = chain_kernel().function()
    executable = BACKEND.compile(function, {})

    def launch(start: int) -> int:
        flag, value = np.zeros((), np.int32), np.array(start, np.int32)
        executable.launch((4, 1, 1), launch_arguments(function, {"flag": flag, "value": value}))
        return int(value)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(launch, range(8))) == [launch(i) for i in range(8)]


def test_interface() -> None:
    assert get_backend("reference") is BACKEND
    assert (BACKEND.name, BACKEND.device, BACKEND.unavailable()) == ("reference", "cpu", None)
    function = chain_kernel().function()
    executable = BACKEND.compile(function, {})
    assert executable.stages()["Tile IR"].startswith("func @kernel(")
    assert BACKEND.capabilities.serialization is None
    assert isinstance(function.body, Block)
