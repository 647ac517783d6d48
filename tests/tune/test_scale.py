"""Tuning at scale: compiling in executors, shared stores, and the decorator."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.backends.base import Machine
from tilewright.runtime.ahead import CompileRequest, compile_request
from tilewright.runtime.cache import disk_cache
from tilewright.runtime.traced_kernel import TracedKernel
from tilewright.tune import Config, DirectoryStore, Tuner, exhaustive_search
from tilewright.tune.compiling import Compilations
from tilewright.tune.devices import Packed
from tilewright.tune.workers import Workers


@ct.kernel
def tripled(x, out, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (TILE,)) * 3)


@ct.kernel
def shifted(x, by, out, TILE: ct.Constant[int], TWICE: ct.Constant[bool]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (TILE,)) + (2 * by if TWICE else by))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


TILES = [64, 128, 256, 100]  # the last one is no power of two: it fails
SEARCH: Any = {
    "grid_fn": lambda tile: (ct.cdiv(500, tile),),
    "args_fn": lambda tile: (np.ones(500), np.zeros(500), tile),
    "quiet": True,
}


def test_other_processes_compile(folder: Path) -> None:
    """Their results are those that this process launches."""
    kernel = tripled.replace_hints()
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        result = exhaustive_search(TILES, None, kernel=kernel, executor=executor, **SEARCH)
    assert {m.config for m in result.successes} == {64, 128, 256}
    assert [config for config, *_ in result.failures] == [100]
    shown = result._repr_html_()
    assert shown.count("<tr>") == 4 and "<summary>1 failed</summary>" in shown
    origins = [s.compilation.origin for s in kernel.inspect().specializations]
    assert origins == ["disk cache"] * 3


def test_processes_of_our_own_compile_any_kernel(capfd: pytest.CaptureFixture[str]) -> None:
    """One in a function, too; they load nothing of the program and print nothing. What a compiler refuses it says."""

    @ct.kernel
    def local(x, out, TILE: ct.Constant[int]):
        ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,)) + 1)

    workers = Workers(2)
    try:
        result = exhaustive_search(TILES[:3], None, kernel=local, executor=workers, **SEARCH)
        modules = workers.submit(eval, "list(__import__('sys').modules)").result()
        with pytest.raises(ValueError, match="base 10: 'x'"):
            workers.submit(int, "x").result()
        with pytest.raises(RuntimeError, match="a process that compiled has ended, with status 3"):
            workers.submit(os._exit, 3).result()
        assert workers.submit(int, "4").result() == 4
    finally:
        workers.close()
    assert len(result.successes) == 3 and not capfd.readouterr().err
    assert [s.compilation.origin for s in local.inspect().specializations] == ["disk cache"] * 3
    assert "tilewright" in modules and "pytest" not in modules
    with pytest.raises(RuntimeError, match="cannot schedule new futures"):
        workers.submit(int)


def test_a_search_for_a_gpu_starts_processes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins with the first configuration, which this process compiles; what has not begun it compiles, too.
    The largest tiles, which take longest, are compiled first."""
    sent = list[CompileRequest]()

    def for_a_gpu(*given: Any) -> Any:
        found = compile_request(*given)
        return found and found._replace(backend="gpu", machine=Machine("sm_90", 132))

    monkeypatch.setattr("tilewright.tune.compiling.compile_request", for_a_gpu)
    monkeypatch.setattr("tilewright.tune.compiling.available_processors", lambda: 2)
    submit = Workers.submit
    monkeypatch.setattr(Workers, "submit", lambda *given: sent.append(given[2]) or submit(*given))
    begun, go_on, run = threading.Semaphore(0), threading.Event(), Workers._run

    def waits(workers: Workers, request: bytes) -> Any:
        begun.release()
        go_on.wait(300)
        return run(workers, request)

    monkeypatch.setattr(Workers, "_run", waits)
    configs, cache = [{"TILE": tile} for tile in (64, 128, 256, 512)], disk_cache()
    x = np.ones(512, np.float32)
    assert cache is not None
    compilations = Compilations(None, configs, lambda c: (tripled.replace_hints(), (x, x.copy(), c["TILE"]), (1,)))
    try:
        assert [request.elements for request in sent] == sorted((r.elements for r in sent), reverse=True)
        assert len({request.elements for request in sent}) == 3
        assert compilations.first(configs) == 0
        compilations.finish(configs[0])
        assert not list(cache.entries())
        assert begun.acquire(timeout=300) and begun.acquire(timeout=300)
        go_on.set()
        left = configs[1:]
        while left:  # two have begun; what nobody has begun with is left to this process meanwhile
            compilations.finish(left.pop(compilations.first(left)))
        assert any(b"sm_90" in entry.path.read_bytes() for entry in cache.entries())
    finally:
        go_on.set()
        compilations.close()
    on_a_cpu = Compilations(None, configs, lambda c: (tripled, (x, x.copy(), 100), (1,)))
    assert on_a_cpu.first(configs) == 0


class Elsewhere(ThreadPoolExecutor):
    """An executor on another machine, whose disk cache is not ours: results come as they are returned."""

    def submit(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        cache, answer = disk_cache(), Future[Any]()
        answer.set_result(function(*args, **kwargs))
        assert cache is not None
        cache.clear()
        return answer


def test_results_of_other_machines_are_kept_here() -> None:
    kernel = tripled.replace_hints()
    tuner = Tuner(
        kernel,
        [64, 128],
        lambda tile, x, out: (ct.cdiv(x.size, tile),),
        lambda tile, x, out: (x, out, tile),
        executor=Elsewhere(1),
        quiet=True,
    )
    x, out = np.ones(500), np.zeros(500)
    tuner.launch(None, x, out)
    np.testing.assert_array_equal(out, x * 3)
    cache = disk_cache()
    assert cache is not None
    labels = (cache.label_of(entry) for entry in cache.entries())
    kept = sorted(label for label in labels if "tripled" in label)  # beside machine code of launches
    assert kept == ["the tuning of tripled", *["tripled of test_scale.py for cpu"] * 2]


def test_executors_that_cannot_work(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match="executor is 3; pass one of concurrent.futures"):
        exhaustive_search(TILES, None, kernel=tripled, executor=3, **SEARCH)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "off")
    with ThreadPoolExecutor(1) as executor, pytest.raises(ValueError, match="needs the disk cache"):
        exhaustive_search(TILES, None, kernel=tripled, executor=executor, **SEARCH)


def test_several_devices_measure_at_once(folder: Path) -> None:
    """Each is an executor with one worker; what they find is one result, in one store."""
    store = DirectoryStore(folder / "store")
    spawn = multiprocessing.get_context("spawn")
    x, out = np.ones(500), np.zeros(500)
    with ProcessPoolExecutor(1, mp_context=spawn) as one, ProcessPoolExecutor(1, mp_context=spawn) as other:
        result = exhaustive_search(TILES, None, kernel=tripled.replace_hints(), devices=[one, other], **SEARCH)
        tuner = Tuner(
            tripled,
            TILES[:3],
            lambda tile, x, out: (ct.cdiv(x.size, tile),),
            lambda tile, x, out: (x, out, tile),
            options_fn=lambda tile: {"threads": 1},
            devices=[one, other],
            store=store,
            quiet=True,
        )
        tuner.launch(None, x, out)
    np.testing.assert_array_equal(out, x * 3)
    assert {m.config for m in result.successes} == {64, 128, 256} and result.best in result.successes
    ((failed, kind, message),) = result.failures
    assert (failed, kind) == (100, ct.TileTypeError) and "power of two" in message
    assert all(m.num_samples >= 5 and m.mean_us > 0 for m in (*result.successes, *tuner.search(x, out).successes))
    assert len(store) == 1


class Scheduler:
    """An executor of a library whose futures are not those of ``concurrent.futures``."""

    class Promise:
        def __init__(self, future: Future[Any]) -> None:
            self.result, self.cancel = future.result, future.cancel

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)

    def submit(self, function: Any, *args: Any) -> Any:
        return self.Promise(self._pool.submit(function, *args))


def test_executors_with_futures_of_their_own() -> None:
    scheduler: Any = Scheduler()
    result = exhaustive_search(TILES, None, kernel=tripled, executor=scheduler, devices=[scheduler], **SEARCH)
    assert {m.config for m in result.successes} == {64, 128, 256}


class Pickling(ThreadPoolExecutor):
    """An executor on another machine: what it is given, returns and raises is pickled, and may name none of ours."""

    def submit(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        request, answer = pickle.dumps((function, args, kwargs)), Future[Any]()
        assert __name__.encode() not in request
        again, given, named = pickle.loads(request)
        try:
            answer.set_result(pickle.loads(pickle.dumps(again(*given, **named))))
        except Exception as e:  # noqa: BLE001 - it is raised where the result is asked for
            answer.set_exception(pickle.loads(pickle.dumps(e)))
        return answer


@pytest.mark.parametrize("ours", [True, False])
def test_what_is_sent_needs_no_module_of_the_program(ours: bool) -> None:
    """A kernel in a function, whose source names a variable there, and one at the top of a module."""
    factor = 3

    @ct.kernel(occupancy=2)
    def local(x, out, TILE: ct.Constant[int]):
        i = ct.bid(0)
        ct.store(out, (i,), ct.load(x, (i,), (TILE,)) * factor)

    x = np.ones(501)[1:]  # not aligned as all is that NumPy allocates
    search: Any = {**SEARCH, "args_fn": lambda tile: (x, np.zeros(500), tile)}
    kernel = local if ours else tripled
    with Pickling(1) as executor, Pickling(1) as device:
        result = exhaustive_search(TILES, None, kernel=kernel, executor=executor, devices=[device], **search)
    assert {m.config for m in result.successes} == {64, 128, 256}
    ((failed, kind, _),) = result.failures
    assert (failed, kind) == (100, ct.TileTypeError)


def test_traced_kernels_are_for_what_they_were_traced_for() -> None:
    x, out = np.arange(500.0), np.zeros(500)
    kernel = pickle.loads(pickle.dumps(TracedKernel.of(tripled, (x, out, 64))))
    ct.launch(None, (8,), kernel, (x, out, 64))
    np.testing.assert_array_equal(out, x * 3)
    with pytest.raises(ValueError, match=r"tripled\(\) was traced for Signature"):
        ct.launch(None, (4,), kernel, (x, out, 128))


def test_devices_that_cannot_measure() -> None:
    with pytest.raises(TypeError, match="devices has 'cuda:0'; pass an executor with one worker for each device"):
        exhaustive_search(TILES, None, kernel=tripled, devices=["cuda:0"], **SEARCH)  # type: ignore[list-item]

    class Wrapper:
        def __init__(self) -> None:
            self.array = np.ones(500)
            self.__array_interface__ = self.array.__array_interface__

    search = {**SEARCH, "args_fn": lambda tile: (Wrapper(), np.zeros(500), tile)}
    with ThreadPoolExecutor(1) as device, pytest.raises(ValueError, match="type Wrapper cannot be sent to another"):
        exhaustive_search([64], None, kernel=tripled, devices=[device], **search)


def test_arrays_reach_other_devices_as_they_are() -> None:
    x = np.arange(24.0).reshape(4, 6)
    views = (
        x,
        x.T,
        x[::-1, ::2],
        np.broadcast_to(x[:, :1], (4, 6)),
        x[:0],
        np.array(3.0),
        x.astype(ct.bfloat16.storage),
        np.arange(9.0, dtype=np.float32)[::-1][1:],
        np.arange(9, dtype=np.int8)[3:],
    )
    for view in views:
        found = Packed.of(view).unpacked()
        np.testing.assert_array_equal(found, view)
        assert (found.strides, found.dtype) == (view.strides, view.dtype)
        assert found.ctypes.data % 16 == view.ctypes.data % 16


def test_tensors_reach_other_devices_as_they_are() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(24.0).reshape(4, 6)
    for view in (
        x,
        x.T,
        x[::2, 1:],
        x[:, :1].expand(4, 6),
        x[:0],
        x[0, 0],
        x.bfloat16(),
        x > 3,
        x.to(torch.float8_e5m2),
    ):
        found = Packed.of(view).unpacked()
        assert torch.equal(found.float(), view.float())
        assert (found.stride(), found.dtype, found.device) == (view.stride(), view.dtype, view.device)
        assert found.data_ptr() % 16 == view.data_ptr() % 16


def _write(folder: str, text: bytes) -> None:
    store = DirectoryStore(folder)
    for _ in range(200):
        store["shared"] = text
        found = store["shared"]
        assert found in (b"a" * 10_000, b"b" * 10_000)


def test_stores_are_safe_under_concurrent_writers(folder: Path) -> None:
    with ProcessPoolExecutor(2) as executor:
        list(executor.map(_write, [str(folder / "store")] * 2, [b"a" * 10_000, b"b" * 10_000]))
    store = DirectoryStore(folder / "store")
    assert list(store) == ["shared"] and len(store) == 1
    assert [p.name for p in (folder / "store").iterdir()] == ["shared.tuned"]
    del store["shared"]
    with pytest.raises(KeyError):
        store["shared"]
    with pytest.raises(KeyError):
        del store["shared"]
    with pytest.raises(ValueError, match="cannot name an entry"):
        store["../outside"] = b""


def test_an_entry_that_another_process_takes_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is gone between the look and the removal."""
    store = DirectoryStore(folder / "store")
    store["k"] = b"1"
    read = Path.read_bytes

    def read_and_lose(path: Path) -> bytes:
        found = read(path)
        path.unlink()
        return found

    monkeypatch.setattr(Path, "read_bytes", read_and_lose)
    assert store.pop("k", b"none") == b"none"
    store["k"] = b"1"
    with pytest.raises(KeyError, match="k"):
        store.pop("k")


def test_autotune() -> None:
    shared: dict[str, bytes] = {}
    configs = [Config({"TILE": 64, "TWICE": False}, num_ctas=1), {"TILE": 256, "TWICE": False}]
    kernel = ct.autotune(configs, key=["x"], store=shared)(shifted)
    out = np.zeros(500)
    kernel[lambda a: (ct.cdiv(a["x"].size, a["TILE"]),)](np.ones(500), 4, out)
    np.testing.assert_array_equal(out, 5)
    ct.launch(None, lambda a: (ct.cdiv(a["x"].size, a["TILE"]),), kernel, (np.ones(500), 6, out))  # type: ignore[arg-type]
    np.testing.assert_array_equal(out, 7)
    kernel[lambda a: (ct.cdiv(a["x"].size, a["TILE"]),)](np.ones(500), out=out, by=1)
    np.testing.assert_array_equal(out, 2)
    assert kernel._repr_html_().count("<table>") == 1
    assert len(kernel.results) == len(shared) == 1  # other numbers are no reason to search again
    kernel[(8,)](np.ones(400), 4, np.zeros(400))
    assert len(kernel.results) == len(shared) == 2
    again = ct.autotune(configs, key=["x"], store=shared)(shifted)
    again[(8,)](np.ones(400), 4, out[:400])
    assert len(shared) == 2


def test_wrong_uses_of_autotune() -> None:
    with pytest.raises(ValueError, match="configs is empty"):
        ct.autotune([])
    with pytest.raises(TypeError, match="marks a kernel"):
        ct.autotune([{"TILE": 1}])(print)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"names 'TIL', which is no parameter of tripled\(x, out, TILE\)"):
        ct.autotune([{"TIL": 1}])(tripled)
    with pytest.raises(ValueError, match="names other parameters"):
        ct.autotune([{"TILE": 64, "TWICE": True}, {"TILE": 64}])(shifted)
    with pytest.raises(ValueError, match="key names 'TILE', which is no argument of tripled: x, out"):
        ct.autotune([{"TILE": 64}], key=["TILE"])(tripled)
    launched = ct.autotune([{"TILE": 64}])(tripled)[(1,)]
    for names, wrong in (
        ({"TILE": 64}, "'TILE' is tuned"),
        ({"x": 1}, "'x' is given twice"),
        ({"y": 1}, "'y' is no param"),
    ):
        with pytest.raises(TypeError, match=wrong):
            launched(np.ones(3), **names)
    with pytest.raises(TypeError, match=r"tripled\(\) takes 2 arguments \(x, out\) besides"):
        ct.autotune([{"TILE": 64}])(tripled)[(1,)](np.ones(3))
