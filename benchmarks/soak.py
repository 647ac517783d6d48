"""What a process survives: ``python benchmarks/soak.py [--scale 0.01] [phase ...]``.

Every phase runs in a process of its own, checks each result, and prints a row of a table. ``--scale`` makes all counts
smaller. The exit status is 1 when a phase fails.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as ct
from tilewright.runtime.cache import cache_key, disk_cache

N = 64
_PATIENCE = 3600  # seconds for a phase


@ct.kernel
def scale(x, out, by):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (16,)) * by)


def make() -> Any:
    """A kernel that was not compiled before in this process."""

    @ct.kernel
    def kernel(x, out, by: ct.Constant[int]):
        i = ct.bid(0)
        ct.store(out, (i,), ct.load(x, (i,), (16,)) * by + by)

    return kernel


def run_new(by: int) -> None:
    x, out = np.arange(N, dtype=np.float32), np.zeros(N, np.float32)
    ct.launch(None, (N // 16,), make(), (x, out, by), backend="cpu")
    assert (out == x * np.float32(by) + np.float32(by)).all(), by


def run_known(by: int, out: np.ndarray[Any, Any]) -> None:
    x = np.arange(N, dtype=np.float32)
    ct.launch(None, (N // 16,), scale, (x, out, by), backend="cpu")
    assert (out == x * by).all(), by


def memory() -> float:
    """The MB that this process holds now."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def launches(count: int) -> str:
    out = np.zeros(N, np.float32)
    for i in range(2000):
        run_known(i % 100, out)
    before = memory()
    for i in range(count):
        run_known(i % 100, out)
    return f"{count} launches: {memory() - before:+.1f} MB"


def kernels(count: int) -> str:
    warm = min(100, count)
    for i in range(warm):
        run_new(i)
    before = memory()
    for i in range(warm, count):
        run_new(i)
    return f"{count} kernels compiled and dropped: {memory() - before:+.1f} MB over the level after {warm}"


def threads(count: int) -> str:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        chosen, out = random.Random(seed), np.zeros(N, np.float32)
        try:
            for _ in range(count):
                if chosen.random() < 0.01:
                    run_new(chosen.randrange(1000))
                run_known(chosen.randrange(100), out)
        except BaseException as e:  # noqa: BLE001 - it is said below
            failures.append(e)

    started = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert not failures, failures[0]
    return f"16 threads, {count} launches each: no wrong result"


def forks(count: int) -> str:
    """Children that are forked while two threads compile, and as many that are started anew, a tenth of the count."""
    done = threading.Event()

    def work() -> None:
        by = 0
        while not done.is_set():
            by += 1
            run_new(by)

    started = [threading.Thread(target=work) for _ in range(2)]
    for thread in started:
        thread.start()
    try:
        for i in range(count):
            child = os.fork()
            if not child:
                signal.alarm(60)
                run_new(i)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0, f"child {i}"
    finally:
        done.set()
        for thread in started:
            thread.join()
    spawned = max(1, count // 10)
    for i in range(spawned):
        child_process(f"soak.run_new({i})")
    return f"{count} forked beside compiling threads and {spawned} spawned children: all right"


def child_process(code: str, **environment: str) -> str:
    """Run ``code`` in a new process with this module; returns what it wrote to the standard error."""
    command = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import soak; {code}"
    done = subprocess.run(
        [sys.executable, "-c", command],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def kills(count: int) -> str:
    """Processes that do nothing but write large entries are killed; what is left are whole entries or none."""
    chosen, folder = random.Random(1), Path(os.environ["TILEWRIGHT_CACHE_DIR"])
    hits = 0
    for i in range(count):
        writer = os.fork()
        if not writer:
            write_forever()
        time.sleep(chosen.random() * 0.1)
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
        unfinished = [path for path in folder.iterdir() if path.name.startswith("tmp")]
        hits += bool(unfinished)
        for path in unfinished:
            path.unlink()
        cache = disk_cache()
        assert cache is not None
        for number in range(_ENTRIES):
            data = cache.get(cache_key("soak", str(number)))
            assert data is None or (len(data), data.count(data[:1])) == (_ENTRY_BYTES, _ENTRY_BYTES), f"kill {i}"
    for by in range(50):
        run_new(by)
    return f"{count} writers of the cache killed, {hits} of them within a write: every entry whole or absent"


_ENTRIES, _ENTRY_BYTES = 4, 4 << 20


def write_forever() -> None:
    cache, number = disk_cache(), 0
    assert cache is not None
    while True:
        number += 1
        cache.put(cache_key("soak", str(number % _ENTRIES)), bytes([number % 251]) * _ENTRY_BYTES)


def disk_full(count: int) -> str:
    """No file may get larger than 100 bytes, as on a disk without room."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); "
    said = child_process(f"{limit}[soak.run_new(i) for i in range({count})]")
    assert said.count("is not used: it cannot be written") == said.count("\n") == 1, said
    return f"{count} kernels without room on the disk: all right, said once"


def no_home(count: int) -> str:
    code = f"[soak.run_new(i) for i in range({count})]"
    environment = {"HOME": "/proc", "XDG_CACHE_HOME": "/proc/none"}
    said = child_process(f"import os; del os.environ['TILEWRIGHT_CACHE_DIR']; {code}", **environment)
    assert said.count("is not used") == said.count("\n") == 1, said
    return f"{count} kernels with a home that cannot be written: all right, said once"


def hostile(count: int) -> str:
    chosen, folder = random.Random(2), Path(os.environ["TILEWRIGHT_CACHE_DIR"])
    for i in range(count):
        run_new(i % 20)
        entry = chosen.choice(sorted(folder.glob("*.kernel")))
        data = entry.read_bytes() if entry.is_file() else b""
        entry.unlink()
        _DAMAGE[i % len(_DAMAGE)](entry, data, chosen)
        run_new(i % 20)
        for by in range(20):
            run_new(by)
        for path in folder.iterdir():
            if path.is_dir():
                path.rmdir()
    return f"{count} damaged or hostile entries: no wrong result"


_DAMAGE: tuple[Callable[[Path, bytes, random.Random], Any], ...] = (
    lambda path, data, chosen: path.write_bytes(data[: chosen.randrange(len(data) + 1)]),
    lambda path, data, chosen: path.write_bytes(chosen.randbytes(chosen.randrange(5000))),
    lambda path, data, chosen: path.write_bytes(b""),
    lambda path, data, chosen: os.mkfifo(path),
    lambda path, data, chosen: path.symlink_to("/dev/zero"),
    lambda path, data, chosen: path.symlink_to("nowhere"),
)


@ct.kernel
def endless(x, out, steps):
    total = ct.zeros((16,), ct.float32)
    for _ in range(steps):
        total = total * 0.5 + ct.load(x, (0,), (16,))
    ct.store(out, (ct.bid(0),), total + 1)


@ct.kernel
def waiting(flag, out):
    while ct.atomic_add(flag, 0, 0) == 0:
        pass
    ct.store(out, (ct.bid(0),), ct.full((16,), 1, ct.float32))


def processor_waits() -> dict[str, float]:
    """The seconds that each thread of this process was ready and had no processor, as Linux counts them."""
    found = {}
    for thread in os.listdir("/proc/self/task") if os.path.isdir("/proc/self/task") else ():
        with contextlib.suppress(OSError):  # the thread has ended
            found[thread] = int(Path(f"/proc/self/task/{thread}/schedstat").read_text().split()[1]) * 1e-9
    return found


def interrupts(count: int) -> str:
    """SIGINT at random moments of short launches and compilations, of launches that take minutes, and of blocks that
    wait for what never comes: each becomes KeyboardInterrupt, writes nothing afterwards, and the next launch is right.
    On a busy machine most of the time goes by until a thread gets a processor: it is told apart.
    """
    chosen, out, flag = random.Random(3), np.zeros(N, np.float32), np.zeros(1, np.int32)
    x, sent, late, own = np.zeros(16, np.float32), [0.0], [], []
    waits: dict[str, float] = {}
    ct.launch(None, (1,), endless, (x, out, 1), backend="cpu")
    # Python loses what is raised while an object is destroyed.
    sys.unraisablehook = lambda lost: threading.Timer(0.01, interrupt).start()

    def interrupt() -> None:
        waits.update(processor_waits())
        sent[0] = time.perf_counter()
        signal.raise_signal(signal.SIGINT)

    def short(by: int) -> None:
        run_known(by % 100, out)
        if by % 50 == 0:
            run_new(by)

    def long(by: int) -> None:
        ct.launch(None, (1 + by % 3,), endless, (x, out, 2**31 - 1), backend="cpu")

    def wait(by: int) -> None:
        ct.launch(None, (1 + by % 70,), waiting, (flag, out), backend="cpu")

    while len(late) < count:
        work, by, caught = (short, long, wait)[len(late) % 3], len(late), False
        out[:] = 0
        timer = threading.Timer(chosen.random() * 0.02, interrupt)
        try:
            timer.start()
            while True:
                work(by)
                by += 1
        except KeyboardInterrupt:
            late.append(time.perf_counter() - sent[0])
            waited = max((now - waits.get(thread, 0.0) for thread, now in processor_waits().items()), default=0.0)
            own.append(max(0.0, late[-1] - waited))
            caught = True
        timer.join()
        assert caught
        assert work is short or not out.any()
        run_known(7, out)
    run_new(1)
    return (
        f"{count} interrupts at random moments of launches, compilations and waits: every next result right; raised "
        f"after {_spread(late)}; without what a thread waited for a processor {_spread(own)}"
    )


def _spread(seconds: list[float]) -> str:
    ms = sorted(1e3 * s for s in seconds)
    return f"{ms[len(ms) // 2]:.0f} ms (median), {ms[len(ms) * 99 // 100]:.0f} ms (99 %), {ms[-1]:.0f} ms (longest)"


_PHASES: dict[str, tuple[Callable[[int], str], int]] = {
    "launches": (launches, 1_000_000),
    "kernels": (kernels, 5000),
    "threads": (threads, 5000),
    "forks": (forks, 200),
    "kills": (kills, 200),
    "disk_full": (disk_full, 20),
    "no_home": (no_home, 20),
    "hostile": (hostile, 200),
    "interrupts": (interrupts, 500),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("phases", nargs="*", metavar="phase", help=", ".join(_PHASES))
    parser.add_argument("--scale", type=float, default=1.0, help="of all counts")
    parser.add_argument("--run", nargs=2, metavar=("PHASE", "COUNT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(_PHASES[options.run[0]][0](int(options.run[1]))))
        return 0
    if unknown := set(options.phases) - _PHASES.keys():
        parser.error(f"unknown phase {sorted(unknown)[0]!r}; there are {', '.join(_PHASES)}")
    failed = 0
    for name in options.phases or _PHASES:
        count = max(1, round(_PHASES[name][1] * options.scale))
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, "--run", name, str(count)]
            environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": folder}
            try:
                done = subprocess.run(
                    command, env=environment, capture_output=True, text=True, timeout=_PATIENCE, check=False
                )
                fine = done.returncode == 0
                found = json.loads(done.stdout) if fine else f"FAILED ({done.returncode})\n{done.stderr}"
            except subprocess.TimeoutExpired:
                fine, found = False, "FAILED: it did not end"
        failed += not fine
        print(f"| {name} | {found} | {time.perf_counter() - start:.0f} s |", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
