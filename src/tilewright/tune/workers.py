"""Processes that compile for a search without an executor of its own: forks of one that loads the compiler once.

They import this package only: neither the program's ``__main__`` nor the frameworks that it uses are loaded again.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import IO, Any

from tilewright.runtime.backend_choice import compiling_for
from tilewright.system.forks import load

AVAILABLE = hasattr(os, "fork") and bool(sys.executable)
_LOOK = 0.1  # seconds until the first process notices that another one has ended


class Workers(Executor):
    """At most ``count`` processes, each started when there is work for it. ``close`` ends them, whatever they do.

    ``loaded`` is a target and the backend whose compiler they begin with.
    """

    def __init__(self, count: int, loaded: tuple[str, str] | None = None) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="tilewright workers")
        requests, answers = ([os.pipe() for _ in range(count)] for _ in range(2))
        theirs = [read for read, _ in requests], [write for _, write in answers]
        self._idle = [(os.fdopen(w, "wb"), os.fdopen(r, "rb")) for (_, w), (r, _) in zip(requests, answers)]
        self._pipes = list(self._idle)
        path = os.pathsep.join(filter(None, sys.path))
        self._first = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import main; main({theirs[0]}, {theirs[1]}, {loaded})"],
            stdin=subprocess.DEVNULL,
            pass_fds=theirs[0] + theirs[1],
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # so that all end at once, and do not get the interrupts of a terminal
        )
        for fd in theirs[0] + theirs[1]:
            os.close(fd)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The future of ``function(*args, **kwargs)``, where ``function`` is at the top of one of our modules."""
        return self._threads.submit(self._run, pickle.dumps((function, args, kwargs)))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._first.poll() is None:
            os.killpg(self._first.pid, signal.SIGKILL)
        self._first.wait()
        self._threads.shutdown()
        for pipes in self._pipes:
            for pipe in pipes:
                pipe.close()

    def _run(self, request: bytes) -> Any:
        requests, answers = self._idle.pop()
        try:
            requests.write(request)
            requests.flush()
            works, found = pickle.load(answers)
        except (OSError, EOFError, pickle.UnpicklingError) as e:
            raise RuntimeError("the processes that compile have ended") from e
        if works is None:
            raise RuntimeError(found)
        self._idle.append((requests, answers))
        if not works:
            raise found
        return found


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


def main(requests: Sequence[int], answers: Sequence[int], loaded: tuple[str, str] | None) -> None:
    """What the first process does: it forks one for each pipe on which there is a request, and says which have died."""
    os.dup2(2, 1)  # what a compiler prints is no answer
    if loaded is not None:
        compiler = f"{type(compiling_for(*loaded)).__module__.rpartition('.')[0]}.compiler"
        if importlib.util.find_spec(compiler) is not None:
            load(compiler)
    waiting, children = dict(zip(requests, answers)), dict[int, int]()  # pipes; process -> where it answers
    while waiting or children:
        for request in select.select(list(waiting), [], [], _LOOK if children else None)[0]:
            answer = waiting.pop(request)
            process = os.fork()
            if not process:
                for pipe in (*waiting, *waiting.values(), *children.values()):
                    os.close(pipe)
                serve(os.fdopen(request, "rb"), os.fdopen(answer, "wb"))
                os._exit(0)
            os.close(request)
            children[process] = answer
        while children and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            answer = children.pop(ended[0])
            if ended[1]:
                status = os.waitstatus_to_exitcode(ended[1])
                os.write(answer, pickle.dumps((None, f"a process that compiled has ended, with status {status}")))
            os.close(answer)
