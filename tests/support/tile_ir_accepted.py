"""Whether NVIDIA's assembler takes every kernel that tests compile: each is compiled by the backend beside its run.

    python -m pytest -p support.tile_ir_accepted tests/conformance tests/test_examples.py

``TARGETS=sm_90,sm_100`` names the architectures, ``TARGETS=`` none: kernels are exported only. Each kernel is assembled
once.
"""

from __future__ import annotations

import collections
import hashlib
import os
import tempfile
from collections.abc import Mapping
from typing import Any

from tilewright.backends import cpu
from tilewright.backends.tileir.backend import TileIRBackend
from tilewright.ir.core import Function
from tilewright.ir.errors import TileError
from tilewright.tileir.errors import TileIRError
from tilewright.tileir.export import Kernel, export

TARGETS = [target for target in os.environ.get("TARGETS", "sm_90,sm_100").split(",") if target]
_COUNTS: collections.Counter[str] = collections.Counter()
_SAID: dict[str, str] = {}
_SEEN: set[bytes] = set()
_FOLDER = tempfile.TemporaryDirectory(prefix="tilewright-")  # an empty cache, so that every kernel is compiled


def _tried(function: Function) -> None:
    try:
        data = export([Kernel(function)])
    except TileIRError as error:
        _COUNTS["not exported"] += 1
        _SAID[f"{os.environ.get('PYTEST_CURRENT_TEST')}: {error}"] = "not exported"
        return
    known = hashlib.sha256(data).digest()
    if known in _SEEN:
        return
    _SEEN.add(known)
    for target in TARGETS:
        try:
            fallback = TileIRBackend(target).compile(function, {}).artifact.fallback
            _COUNTS[f"accepted for {target}"] += 1
            if fallback:
                _COUNTS[f"with less freedom for {target}"] += 1
                _SAID[f"{os.environ.get('PYTEST_CURRENT_TEST')}: {target} {', '.join(fallback)}"] = "less freedom"
        except TileError as error:
            _COUNTS[f"refused for {target}"] += 1
            _SAID[f"{os.environ.get('PYTEST_CURRENT_TEST')}: {error}{dict(function.hints) or ''}"] = "refused"


def pytest_configure() -> None:
    os.environ["TILEWRIGHT_CACHE_DIR"] = _FOLDER.name
    compile_for_cpu = cpu.BACKEND.compile

    def compiled(function: Function, options: Mapping[str, Any], *variant: Any) -> Any:
        _tried(function)
        return compile_for_cpu(function, options, *variant)

    cpu.BACKEND.compile = compiled  # type: ignore[method-assign]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for said in _SAID:
        terminalreporter.write_line(said.splitlines()[0])
    terminalreporter.write_line(", ".join(f"{n} {what}" for what, n in _COUNTS.items()))
