"""The context manager and its report."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.sanitizer import UndefinedBehaviorError


@ct.kernel
def halves(x: Any, out: Any, T: ct.Constant[int]) -> None:
    i = ct.bid(0)
    values = ct.load(x, (i,), (T,))
    ct.store(out, (i,), 100 // values)  # the line of the division


LINE = halves.function.__code__.co_firstlineno + 4


def launch(x: np.ndarray) -> np.ndarray:
    out = np.zeros_like(x)
    ct.launch(None, (2,), halves, (x, out, 4))
    return out


def test_a_report_names_everything() -> None:
    x = np.array([1, 2, 3, 4, 5, 0, 7, 0], np.int32)
    with ct.sanitize() as report:
        out = launch(x)
        launch(x)
    (violation,) = report.violations
    assert violation.category.name == "division-by-zero"
    assert violation.section == "Tile C++ 2.2.6, annex 3.1 item 6"
    assert (violation.loc.file, violation.line) == (__file__, LINE)
    assert violation.block == (1, 0, 0) and violation.element == (1,)
    assert violation.operands == {"lhs": 100, "rhs": 0}
    assert (violation.count, violation.elements) == (2, 4)
    assert report.launches == 2 and not report.clean
    assert out[0] == 100  # the rest of the launch ran
    text = report.render()
    for part in (f"{__file__}:{LINE}:", "100 // values", "^^^", "block: (1, 0, 0)", "lhs: 100", "2 times, 4 elements"):
        assert part in text


def test_outside_of_the_context_nothing_is_checked() -> None:
    with ct.sanitize() as report:
        launch(np.ones(8, np.int32))
    launch(np.zeros(8, np.int32))
    assert report.clean and report.launches == 1
    assert report.summary() == "1 launch checked: no violation"


def test_stop_at_the_first_violation() -> None:
    with pytest.raises(UndefinedBehaviorError) as caught, ct.sanitize(stop=True):
        launch(np.zeros(8, np.int32))
    assert caught.value.violation.block == (0, 0, 0)
    assert "division-by-zero" in str(caught.value) and "^^^" in str(caught.value)


def test_categories_can_be_turned_off() -> None:
    with ct.sanitize(disable=["division-by-zero"]) as report:
        launch(np.zeros(8, np.int32))
    assert report.clean
    with pytest.raises(ValueError, match="unknown category 'nonsense'"), ct.sanitize(disable=["nonsense"]):
        pass
    with pytest.raises(ValueError, match="'data-rac'; did you mean data-race"), ct.sanitize(enable=["data-rac"]):
        pass
    with pytest.raises(ValueError, match="unknown schedule 'nonsense'"), ct.sanitize(schedule="nonsense"):
        pass


@ct.kernel
def silenced(x: Any, out: Any) -> None:
    a = ct.load(x, (0,), (4,)) // 0 * 0 if ct.static_eval(False) else ct.load(x, (0,), (4,))
    b = 1 // a  # tile-check: ignore[division-by-zero, add-overflow]
    # tile-check: ignore
    c = 1 % a
    d = 2 // a  # tile-check: ignore[data-race]
    ct.store(out, (0,), b + c + d)


def test_comments_silence_what_they_name() -> None:
    with ct.sanitize() as report:
        ct.launch(None, (1,), silenced, (np.zeros(4, np.int32), np.zeros(4, np.int32)))
    (left,) = report.violations
    assert left.line == silenced.function.__code__.co_firstlineno + 6
    assert report.suppressed == 2 and "2 suppressed" in report.summary()
