"""``pytest --tile-check``: every kernel that a test suite launches runs under the sanitizer.

A test whose launches violate something fails with the report, whatever it asserts. The marker
``@pytest.mark.tile_check(False)`` exempts a test, ``@pytest.mark.tile_check(disable=["data-race"])`` turns categories
off for it, and ``--tile-check-disable=data-race,nan-generated`` for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tilewright.sanitizer import sanitize
from tilewright.sanitizer.categories import category

_MARKER = "tile_check(enabled=True, *, disable=()): whether, and for what, kernels of this test are sanitized"
_COUNTS = "tile check"  # what a process of pytest-xdist calls its launches and failed tests


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tilewright")
    group.addoption("--tile-check", action="store_true", help="run all kernels under the sanitizer; violations fail")
    group.addoption(
        "--tile-check-disable",
        default="",
        metavar="CATEGORIES",
        help="with --tile-check: categories that are not reported, separated by commas",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    if not config.getoption("--tile-check"):
        return
    disabled = _names(config.getoption("--tile-check-disable").split(","), "--tile-check-disable")
    config.pluginmanager.register(_Checker(disabled), "tilewright checker")


def _names(categories: Iterable[str], where: str) -> frozenset[str]:
    try:
        return frozenset(category(name.strip()).name for name in categories if name.strip())
    except ValueError as e:
        raise pytest.UsageError(f"{where}: {e}") from None


@dataclass(eq=False)  # pytest keeps its plugins in sets
class _Checker:
    """Sanitizes each phase of a test: what a fixture launches fails the setup of the test that asked for it."""

    disabled: frozenset[str]
    launches: int = 0
    failed: int = 0

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        yield from self._phase(item, "setup")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        yield from self._phase(item, "call")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        yield from self._phase(item, "teardown")

    def _phase(self, item: pytest.Item, when: str) -> Iterator[None]:
        enabled, disabled = self._wanted(item)
        if not enabled:
            yield
            return
        with sanitize(disable=disabled) as report:
            outcome: Any = yield
        self.launches += report.launches
        if report.clean:
            return
        self.failed += 1
        if outcome.excinfo is None:
            outcome.force_exception(pytest.fail.Exception(report.render(), pytrace=False))
        else:
            item.add_report_section(when, "tile check", report.render())

    def _wanted(self, item: pytest.Item) -> tuple[bool, frozenset[str]]:
        enabled, disabled = True, self.disabled
        for mark in item.iter_markers("tile_check"):
            where = f"the marker tile_check of {item.nodeid}"
            for value in (*mark.args, mark.kwargs.get("enabled", True)):
                if not isinstance(value, bool):
                    raise pytest.UsageError(f"{where}: write True or False, not {value!r}")
                enabled = enabled and value
            disabled |= _names(mark.kwargs.get("disable", ()), where)
        return enabled, disabled

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A process of pytest-xdist hands its counts to the one that reports them."""
        output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_COUNTS] = (self.launches, self.failed)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        launches, failed = getattr(node, "workeroutput", {}).get(_COUNTS, (0, 0))  # a crashed process has none
        self.launches += launches
        self.failed += failed

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        text = f"tile check: {self.launches} launch{'es' * (self.launches != 1)}"
        terminalreporter.write_sep("-", f"{text}, violations in {self.failed} test{'s' * (self.failed != 1)}")
