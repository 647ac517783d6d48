"""Processes that compile for a search without an executor of its own.

They import this package only: neither the program's ``__main__`` nor the frameworks that it uses are loaded again.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import IO, Any


class Workers(Executor):
    """At most ``count`` processes, each started when there is work for it. ``close`` ends them, whatever they do."""

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="tilewright workers")
        self._idle: list[subprocess.Popen[bytes]] = []
        self._started: list[subprocess.Popen[bytes]] = []
        self._closed = False

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The future of ``function(*args, **kwargs)``, where ``function`` is at the top of one of our modules."""
        return self._threads.submit(self._run, pickle.dumps((function, args, kwargs)))

    def close(self) -> None:
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._started:
            worker.kill()
        self._threads.shutdown()
        for worker in self._started:
            worker.communicate()

    def _run(self, request: bytes) -> Any:
        worker = self._idle.pop() if self._idle else self._start()
        assert worker.stdin is not None and worker.stdout is not None
        try:
            worker.stdin.write(request)
            worker.stdin.flush()
            works, found = pickle.load(worker.stdout)
        except (OSError, EOFError) as e:
            raise RuntimeError(f"a process that compiled has ended, with status {worker.wait()}") from e
        self._idle.append(worker)
        if not works:
            raise found
        return found

    def _start(self) -> subprocess.Popen[bytes]:
        if self._closed:
            raise RuntimeError("the search has ended")
        path = os.pathsep.join(filter(None, sys.path))
        command = [sys.executable, "-c", f"from {__name__} import main; main()"]
        worker = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}
        )
        self._started.append(worker)
        return worker


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer until there are no more requests."""
    while requests.peek(1):  # type: ignore[attr-defined]
        try:
            function, args, kwargs = pickle.load(requests)
            answer = True, function(*args, **kwargs)
        except Exception as e:  # noqa: BLE001 - it is raised where the result is asked for
            answer = False, e
        pickle.dump(answer, answers)
        answers.flush()


def main() -> None:
    """What a process does: requests come on its standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the search gets it, too, and ends its processes
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a compiler prints is no answer
    serve(sys.stdin.buffer, out)
