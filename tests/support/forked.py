"""The program ``tilewright`` in new processes that need not import it: they are forked from one that has.

A process of its own imports for longer than most C++ programs of the tests take to compile and run. ``run`` stands for
``subprocess.run``, and leaves to that what it does not know: other programs, other settings of Python, other streams.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

_KNOWN = {"capture_output", "text", "env", "cwd", "input", "timeout", "check"}
_PACKAGES = ("cpp", "cpp.host", "frontend.cpp", "backends.cpu", "backends.cpu.codegen", "backends.cpu.loops", "cli")
_LENGTH = 8  # bytes of the length of a request


class Server:
    """A process that has imported ``tilewright``, and forks at each request."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair()
        with other:
            # Not by ``-m``: only pytest's own process need have the folder of the tests on its path.
            words = [sys.executable, "-c", f"import runpy; runpy.run_path({__file__!r}, run_name='__main__')"]
            words.append(str(other.fileno()))
            self._process = subprocess.Popen(words, pass_fds=[other.fileno()], cwd="/")
        self._python = _of_python(os.environ)
        self._lock = threading.Lock()

    def run(self, command: Any, **options: Any) -> subprocess.CompletedProcess[Any]:
        """``subprocess.run``."""
        words, env = list(map(str, command)) if isinstance(command, (list, tuple)) else [], options.get("env")
        ours = words[:3] == [sys.executable, "-m", "tilewright"] and options.keys() <= _KNOWN
        if not ours or _of_python(os.environ if env is None else env) != self._python:
            return _subprocess_run(command, **options)
        with self._lock, contextlib.ExitStack() as files:
            return self._run(words, files, **options)

    def _run(
        self,
        words: Sequence[str],
        files: contextlib.ExitStack,
        *,
        capture_output: bool = False,
        text: bool = False,
        env: Mapping[str, str] | None = None,
        cwd: Any = None,
        input: Any = None,
        timeout: float | None = None,
        check: bool = False,
    ) -> subprocess.CompletedProcess[Any]:
        streams: list[IO[bytes]] = []
        if input is not None:
            streams.append(files.enter_context(tempfile.TemporaryFile()))  # noqa: SIM115 - the stack closes it
            streams[0].write(input.encode() if text else input)
            streams[0].seek(0)
        opened = (tempfile.TemporaryFile() for _ in range(2 * capture_output))  # noqa: SIM115
        said = [files.enter_context(file) for file in opened]
        folder, environment = os.path.abspath(cwd or os.curdir), dict(os.environ if env is None else env)
        request = json.dumps([words[3:], environment, folder]).encode()
        handles = [streams[0].fileno() if streams else 0, *((f.fileno() for f in said) if said else (1, 2))]
        socket.send_fds(self._socket, [len(request).to_bytes(_LENGTH, "little")], handles)
        self._socket.sendall(request)
        child = int.from_bytes(_received(self._socket, _LENGTH), "little")
        self._socket.settimeout(timeout)
        try:
            ended = _received(self._socket, _LENGTH)
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            _received(self._socket, _LENGTH)
            raise subprocess.TimeoutExpired(words, timeout or 0) from None
        finally:
            self._socket.settimeout(None)
        status = os.waitstatus_to_exitcode(int.from_bytes(ended, "little"))
        found: list[Any] = [None, None]
        for i, file in enumerate(said):
            file.seek(0)
            content = file.read()
            found[i] = content.decode().replace("\r\n", "\n").replace("\r", "\n") if text else content
        if check and status:
            raise subprocess.CalledProcessError(status, words, *found)
        return subprocess.CompletedProcess(words, status, *found)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


_subprocess_run = subprocess.run


@contextlib.contextmanager
def server() -> Iterator[Server]:
    """A server, until the end."""
    made = Server()
    try:
        yield made
    finally:
        made.close()


def _of_python(environment: Mapping[str, str]) -> dict[str, str]:
    """What Python reads when it starts, and libraries when they are loaded."""
    words = ("PYTHON", "LD_", "OMP_", "OPENBLAS_", "LC_", "LANG")
    return {name: value for name, value in environment.items() if name.startswith(words)}


def _received(connection: socket.socket, count: int) -> bytes:
    """The next ``count`` bytes. EOFError where there are no more."""
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def _serve(connection: socket.socket) -> int | None:
    """Fork at each request. In the parent, None at the end; in a child, the exit status of the program."""
    while True:
        head, handles, _, _ = socket.recv_fds(connection, _LENGTH, 3)
        if not head:
            return None
        head += _received(connection, _LENGTH - len(head)) if len(head) < _LENGTH else b""
        words, environment, folder = json.loads(_received(connection, int.from_bytes(head, "little")))
        child = os.fork()
        if child == 0:
            connection.close()
            for number, handle in enumerate(handles):
                os.dup2(handle, number)
                os.close(handle)
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(folder)
            sys.path[0] = folder
            cli = importlib.import_module("tilewright.cli")
            sys.argv = [str(cli.__file__).replace("cli/__init__", "__main__"), *words]
            return cli.main()
        for handle in handles:
            os.close(handle)
        connection.sendall(child.to_bytes(_LENGTH, "little"))
        connection.sendall(os.waitpid(child, 0)[1].to_bytes(_LENGTH, "little"))


def _import_all() -> None:
    """What the commands import, now or when they need it."""
    for package in _PACKAGES:
        path = importlib.import_module(f"tilewright.{package}").__path__
        for module in pkgutil.iter_modules(path, f"tilewright.{package}."):
            importlib.import_module(module.name)


if __name__ == "__main__":
    _import_all()
    gc.collect()
    gc.freeze()
    sys.exit(_serve(socket.socket(fileno=int(sys.argv[1]))))
