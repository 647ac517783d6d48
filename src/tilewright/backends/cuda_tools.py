"""NVIDIA's command-line tools: where they are (in its wheels, in a CUDA toolkit, or on PATH), and runs of them."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_PACKAGE = "nvidia"  # the namespace of NVIDIA's wheels, which have the tools in cu13/bin
_FOLDERS = ("CUDA_HOME", "CUDA_PATH")
TIMEOUT = 600  # seconds
_WITH_PAYLOAD = 4  # the format of attributes with one


def attributes(info: bytes) -> Iterator[tuple[int, int, bytes]]:
    """What ``info``, a ``.nv.info`` section of machine code, says: attributes with their values, or with the sizes of
    their payloads and these."""
    at = 0
    while at < len(info):
        form, attribute, value = struct.unpack_from("<BBH", info, at)
        at += 4
        size = value if form == _WITH_PAYLOAD else 0
        yield attribute, value, info[at : at + size]
        at += size


@functools.cache
def tool(name: str) -> Path | None:
    """The program ``name``: of the toolkit that CUDA_HOME or CUDA_PATH names, of the wheels, or on PATH."""
    folders = [Path(os.environ[variable], "bin") for variable in _FOLDERS if os.environ.get(variable)]
    spec = importlib.util.find_spec(_PACKAGE)
    for root in (spec.submodule_search_locations or ()) if spec is not None else ():
        folders += sorted(Path(root).glob("cu*/bin"), reverse=True)
    for folder in folders:
        found = shutil.which(name, path=str(folder))
        if found is not None:
            return Path(found)
    on_path = shutil.which(name)
    return None if on_path is None else Path(on_path)


@functools.cache
def tool_version(name: str) -> str:
    """The release of the program ``name``, such as ``13.5.37``; ``none`` where it is not installed."""
    path = tool(name)
    if path is None:
        return "none"
    said = run_tool([str(path), "--version"]).stdout
    found = re.search(r"\bV?(\d+\.\d+\.\d+)\b", said) or re.search(r"(\d+\.\d+)", said)
    return found[1] if found is not None else "unknown"


def run_tool(
    command: Sequence[str], environment: Mapping[str, str] | None = None, timeout: float = TIMEOUT
) -> subprocess.CompletedProcess[str]:
    """``command`` and what it said, in this ``environment`` or that of the process. ``subprocess.TimeoutExpired`` when
    it takes longer than ``timeout`` seconds; what it has started ends with it."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, env=environment, start_new_session=True
    ) as process:
        try:
            said, errors = process.communicate(timeout=timeout)
        except BaseException:
            if sys.platform == "win32":
                process.kill()
            else:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, said, errors)


def output_of(ran: subprocess.CompletedProcess[str]) -> str:
    """All that a tool said, errors first."""
    return f"{ran.stderr}\n{ran.stdout}".strip()


def failure_reason(ran: subprocess.CompletedProcess[str], error: re.Pattern[str]) -> str:
    """Why a tool failed: the first group of ``error`` in what it said, its first line, or how it ended."""
    said = output_of(ran)
    found = error.search(said)
    if found is not None:
        return found[1].strip()
    if ran.returncode < 0:
        return f"it was ended by signal {-ran.returncode}"
    return said.splitlines()[0] if said else f"it ended with status {ran.returncode}"
