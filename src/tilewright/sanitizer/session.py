"""``with ct.sanitize() as report:``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field, replace
from typing import Any

from tilewright.backends.schedule import Schedule
from tilewright.ir.errors import TileUndefinedError
from tilewright.records import dataclass
from tilewright.runtime.backend_choice import force_backend
from tilewright.sanitizer.categories import CATEGORIES, category
from tilewright.sanitizer.events import EventSink
from tilewright.sanitizer.report import Report, UndefinedBehaviorError, Violation
from tilewright.sanitizer.uninitialized import marked_memory

DEFAULT = frozenset(c.name for c in CATEGORIES.values() if c.default)


@dataclass(frozen=True)
class Session:
    """Where sanitized launches report to, and how they run."""

    report: Report
    categories: frozenset[str]
    stop: bool
    schedule: Schedule
    sinks: Sequence[EventSink]
    known_operators: set[Any] = field(default_factory=set)  # what has been computed in parts, to check the declaration
    known_launches: set[Any] = field(default_factory=set)  # which would find nothing again (``repetition``)

    def add(self, violation: Violation) -> None:
        """Report ``violation`` unless its category is off. UndefinedBehaviorError when the session stops there."""
        if violation.category.name not in self.categories or not self.report.add(violation):
            return
        for sink in self.sinks:
            sink.violation(violation)
        if self.stop:
            raise UndefinedBehaviorError(violation)


SESSIONS: list[Session] = []  # the innermost last


def current_session() -> Session:
    """The innermost session; outside of any, one that stops at the first violation."""
    return SESSIONS[-1] if SESSIONS else Session(Report(), DEFAULT, True, Schedule(), ())


@contextmanager
def watched(sink: EventSink) -> Iterator[None]:
    """A context in which ``sink``, too, receives what launches do."""
    session = current_session()
    with _innermost(replace(session, sinks=(*session.sinks, sink))):
        yield


@contextmanager
def apart() -> Iterator[None]:
    """A context in which nobody is told of violations: these were before, or are of launches that nobody asked for."""
    with _innermost(Session(Report(), frozenset(), False, Schedule(), ())):
        yield


@contextmanager
def _innermost(session: Session) -> Iterator[None]:
    SESSIONS.append(session)
    try:
        yield
    finally:
        SESSIONS.pop()


@contextmanager
def sanitize(
    *,
    stop: bool = False,
    disable: Iterable[str] = (),
    enable: Iterable[str] = (),
    schedule: str = "in-order",
    seed: int = 0,
    sinks: Sequence[EventSink] = (),
) -> Iterator[Report]:
    """A context in which every launch of the process runs under the sanitizer, which fills the returned report.

    Kernels run block by block on the reference backend, and everything that the documents leave undefined is reported:
    ``report.violations``, ``report.render()``. With ``stop`` the first violation raises UndefinedBehaviorError.
    ``disable`` and ``enable`` name categories to turn off and on (``CATEGORIES`` lists them). ``schedule`` is
    ``"in-order"``, ``"reverse"``, ``"interleave"`` or ``"random"``, the last one by ``seed``. ``sinks`` receive every
    memory access. ValueError for an unknown category or schedule.

    >>> @ct.kernel
    ... def total(x, out):
    ...     old = ct.load(out, (0,), (1,))  # every block changes out[0]
    ...     ct.store(out, (0,), old + ct.sum(ct.load(x, (ct.bid(0),), (4,)), keepdims=True))
    >>> with ct.sanitize() as report:
    ...     ct.launch(None, (2,), total, (np.ones(8), np.zeros(1)))
    >>> report.clean, sorted({v.category.name for v in report.violations})
    (False, ['data-race'])
    """
    categories = DEFAULT.union(category(c).name for c in enable).difference(category(c).name for c in disable)
    session = Session(Report(), categories, stop, Schedule(schedule, seed), tuple(sinks))
    with ExitStack() as stack:
        stack.enter_context(force_backend("sanitizer"))
        stack.enter_context(marked_memory())
        stack.enter_context(_innermost(session))
        try:
            yield session.report
        except TileUndefinedError as e:  # the compiler found it, so there is nothing to run
            assert e.loc is not None
            session.add(Violation(category(e.category), e.message, e.loc.function, e.loc))
