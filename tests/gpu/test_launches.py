"""Launches in machine code, as most are, do what the first one did: for every kind of array, stream and thread."""

from __future__ import annotations

import ctypes
import threading
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tilewright as ct
from tilewright.gpu_runtime import driver

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
cupy = pytest.importorskip("cupy", reason="CuPy is not installed")

SIZE, TILE = 4096, 1024


@ct.kernel
def add(a, b, out, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(a, (i,), (T,)) + ct.load(b, (i,), (T,)))


@ct.kernel
def product(a, b, out, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((TM, TN), ct.float32)
    for k in range(ct.num_tiles(a, 1, (TM, TK))):
        x = ct.load(a, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, (k, j), (TK, TN), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, y, total)
    ct.store(out, (i, j), total.astype(out.dtype))


@ct.kernel
def product_of_rows(a, b, out, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    """``a`` times the transpose of ``b``."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((TM, TN), ct.float32)
    for k in range(ct.num_tiles(a, 1, (TM, TK))):
        x = ct.load(a, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, (j, k), (TN, TK), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, ct.transpose(y), total)
    ct.store(out, (i, j), total.astype(out.dtype))


class Interface:
    def __init__(self, tensor: Any) -> None:
        self.tensor, self.__cuda_array_interface__ = tensor, tensor.__cuda_array_interface__


class Exported:
    def __init__(self, tensor: Any) -> None:
        self.__dlpack__, self.__dlpack_device__ = tensor.__dlpack__, tensor.__dlpack_device__


def in_machine_code(kernel: Any) -> bool:
    return isinstance(kernel.cached_launch, types.BuiltinFunctionType)


def fresh(kernel: Any) -> Any:
    return kernel.replace_options("triton")


@pytest.mark.parametrize(
    "kind", [lambda t: t, cupy.from_dlpack, Interface, Exported], ids=["torch", "cupy", "CAI", "DLPack"]
)
def test_arrays_of_every_kind(kind: Callable[[Any], Any]) -> None:
    kernel = fresh(add)
    for i in range(40):
        a, b = (torch.randn(SIZE, device="cuda") for _ in range(2))
        out = torch.zeros(SIZE, device="cuda")
        ct.launch(torch.cuda.current_stream(), (SIZE // TILE,), kernel, (*map(kind, (a, b, out)), TILE))
        torch.cuda.synchronize()
        assert torch.equal(out, a + b), i
    several = torch.cuda.device_count() > 1  # the address decides on which one an array without a device is
    assert in_machine_code(kernel) or (kind is Interface and several)


@pytest.mark.parametrize("num_ctas", [1, 2])
def test_tiles_of_the_copy_engine(num_ctas: int) -> None:
    kernel = product.replace_hints(num_ctas=num_ctas)
    memory = torch.randn(512, 256, device="cuda", dtype=torch.float16)
    for i in range(40):
        a, b = memory[4 * i : 4 * i + 200, :192], torch.randn(192, 136, device="cuda", dtype=torch.float16)
        out = torch.empty(200, 136, device="cuda", dtype=torch.float16)
        ct.launch(None, (2, 2), kernel, (a, b, out, 128, 128, 64))
        torch.testing.assert_close(out, a @ b, rtol=1e-2, atol=1e-2)
    assert in_machine_code(kernel)


def test_threads_that_have_not_called_the_driver() -> None:
    pairs = [[torch.randn(256, 256, device="cuda", dtype=torch.float16) for _ in range(2)] for _ in range(4)]
    results = [torch.empty_like(a) for a, _ in pairs]

    def work(i: int) -> None:
        for _ in range(8):
            ct.launch(None, (2, 2), product, (*pairs[i], results[i], 128, 128, 64))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for (a, b), found in zip(pairs, results):
        torch.testing.assert_close(found, a @ b, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(("shape", "num_ctas"), [((128, 512, 64), 4), ((256, 256, 64), 2), ((256, 256, 32), 4)])
def test_transposed_tiles_of_clusters(shape: tuple[int, int, int], num_ctas: int) -> None:
    a, b = (torch.randn(n, 192, device="cuda", dtype=torch.float16) for n in (1000, 1160))
    out = torch.empty(1000, 1160, device="cuda", dtype=torch.float16)
    grid = (-(-1000 // shape[0]), -(-1160 // shape[1]))
    ct.launch(None, grid, product_of_rows.replace_hints(num_ctas=num_ctas), (a, b, out, *shape))
    torch.testing.assert_close(out, a @ b.T, rtol=1e-2, atol=1e-2)


def test_streams_and_graphs() -> None:
    a, total = torch.ones(SIZE, device="cuda"), torch.zeros(SIZE, device="cuda")
    torch.cuda.synchronize()
    stream, of_cupy = torch.cuda.Stream(), cupy.cuda.Stream(non_blocking=True)
    for given in (stream, of_cupy, stream.cuda_stream):
        for _ in range(20):
            ct.launch(given, (SIZE // TILE,), add, (a, total, total, TILE))
        torch.cuda.synchronize()
    assert (total == 60).all() and in_machine_code(add)
    graph = torch.cuda.CUDAGraph()
    elsewhere = add.bind((SIZE // TILE,), (a, total, total, TILE), stream=stream)
    with torch.cuda.graph(graph):
        current = torch.cuda.current_stream()
        run = add.bind((SIZE // TILE,), (a, total, total, TILE), stream=current)
        del elsewhere
        for _ in range(5):
            ct.launch(current, (SIZE // TILE,), add, (a, total, total, TILE))
            run()
    total.zero_()
    graph.replay()
    graph.replay()
    torch.cuda.synchronize()
    assert (total == 20).all()


def test_threads() -> None:
    totals: dict[int, Any] = {}

    def work(number: int) -> None:
        stream, a = torch.cuda.Stream(), torch.full((SIZE,), float(number), device="cuda")
        total = torch.zeros_like(a)
        stream.wait_stream(torch.cuda.current_stream())
        run = add.bind((SIZE // TILE,), (a, total, total, TILE), stream=stream)
        for _ in range(300):
            ct.launch(stream, (SIZE // TILE,), add, (a, total, total, TILE))
            run()
        stream.synchronize()
        totals[number] = total

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((totals[n] == 600 * n).all() for n in range(1, 5))


def test_one_bound_launch_in_threads() -> None:
    """A graph is not for two threads at once."""
    a, total = torch.ones(SIZE, device="cuda"), torch.zeros(SIZE, device="cuda")
    run = add.bind((SIZE // TILE,), (a, total, total, TILE))
    torch.cuda.synchronize()
    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(lambda: [run() for _ in range(500)]) for _ in range(4)]:
            future.result()
    torch.cuda.synchronize()
    assert (total == 2000).all()


def test_bound_launches_that_are_gone_before_they_run() -> None:
    a, total = torch.ones(SIZE, device="cuda"), torch.zeros(SIZE, device="cuda")
    large = torch.randn(4096, 4096, device="cuda")
    for _ in range(20):
        large @ large
        for _ in range(5):
            add.bind((SIZE // TILE,), (a, total, total, TILE))()
    torch.cuda.synchronize()
    assert (total == 100).all()


@pytest.mark.parametrize("num_ctas", [1, 2])
@pytest.mark.parametrize("columns", [256, 264])  # 2-CTA clusters share loads of the latter
def test_bound_products(num_ctas: int, columns: int) -> None:
    a = torch.randn(512, 512, device="cuda", dtype=torch.float16)
    b = torch.randn(512, columns, device="cuda", dtype=torch.float16)
    out = torch.empty(512, columns, device="cuda", dtype=torch.float16)
    kernel, stream = product.replace_hints(num_ctas=num_ctas), torch.cuda.Stream()
    run = kernel.bind((4, -(-columns // 128)), (a, b, out, 128, 128, 64), stream=stream)
    for _ in range(3):
        out.fill_(0)
        torch.cuda.synchronize()
        run()
        stream.synchronize()
        torch.testing.assert_close(out, a @ b, rtol=1e-2, atol=1e-2)


def odd_product(seed: int) -> tuple[Any, ...]:
    """Arrays whose rows the TMA unit cannot read where they are."""
    generator = torch.Generator("cuda").manual_seed(seed)
    a, b = (torch.randn(s, generator=generator, device="cuda").half() for s in ((300, 451), (451, 133)))
    return a, b, torch.empty(300, 133, device="cuda", dtype=torch.float16)


@pytest.mark.parametrize("how", ["launched", "bound"])
def test_graphs_copy_what_the_arrays_hold_when_they_run(how: str) -> None:
    a, b, out = odd_product(0)
    args = a, b, out, 128, 128, 64
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # JAX's threads go on after its tests
        current = torch.cuda.current_stream()
        if how == "bound":
            product.bind((3, 2), args, stream=current)()
        else:
            ct.launch(current, (3, 2), product, args)
    for _ in range(3):
        a.mul_(-2)
        out.zero_()
        graph.replay()
        torch.cuda.synchronize()
        torch.testing.assert_close(out, a @ b, rtol=1e-2, atol=1e-1)


def test_copies_of_several_streams() -> None:
    work = [(odd_product(seed), torch.cuda.Stream()) for seed in range(4)]
    torch.cuda.synchronize()

    def run(i: int) -> None:
        arrays, stream = work[i]
        for _ in range(50):
            ct.launch(stream, (3, 2), product, (*arrays, 128, 128, 64))

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(run, i) for i in range(4)]:
            future.result()
    for i in range(200):  # of one thread, in turns
        arrays, stream = work[i % 4]
        ct.launch(stream, (3, 2), product, (*arrays, 128, 128, 64))
    torch.cuda.synchronize()
    for (a, b, out), _ in work:
        torch.testing.assert_close(out, a @ b, rtol=1e-2, atol=1e-1)


def test_a_thread_without_a_context() -> None:
    a, total = torch.ones(SIZE, device="cuda"), torch.zeros(SIZE, device="cuda")
    args = a, total, total, TILE
    for _ in range(20):
        ct.launch(None, (SIZE // TILE,), add, args)
    run = add.bind((SIZE // TILE,), args)
    torch.cuda.synchronize()
    done = []

    def work() -> None:
        for launch in (run, lambda: ct.launch(None, (SIZE // TILE,), add, args)):
            driver.call("cuCtxSetCurrent", ctypes.c_void_p())
            launch()
            launch()
        done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert done and (total == 24).all()
