"""Launches that ``support.recording`` recorded on a CPU give the same on a GPU."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.gpu import BACKEND
from support.recording import Recorded, load, replay

from tilewright.backends.triton.resources import check_length
from tilewright.ir.errors import TileError
from tilewright.ir.parser import parse_function

FILE = os.environ.get("TILEWRIGHT_RECORDED_LAUNCHES")
LAUNCHES = load(Path(FILE)) if FILE else []


@pytest.mark.skipif(not FILE, reason="TILEWRIGHT_RECORDED_LAUNCHES names no file of recorded launches")
@pytest.mark.parametrize("recorded", LAUNCHES, ids=[str(i) for i in range(len(LAUNCHES))])
def test_recorded_launch(recorded: Recorded) -> None:
    try:
        check_length(parse_function(recorded.ir))
    except TileError as e:
        pytest.skip(e.message)
    replay(recorded, BACKEND)
