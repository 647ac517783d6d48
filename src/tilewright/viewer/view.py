"""``ct.view``: what launches do to memory, recorded from Python."""

from __future__ import annotations

import html
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from tilewright.sanitizer import Report, sanitize
from tilewright.viewer.page import render
from tilewright.viewer.progress import RecordingProgress
from tilewright.viewer.recorder import Recorder, Recording

_HEIGHT = 720  # pixels of the frame in a notebook


class View:
    """A recording of launches. See ``view``.

    ``report`` is what the sanitizer found in them. Notebooks show the page; elsewhere ``save`` writes it to a file.
    """

    def __init__(self, title: str, output: Path | None, limit: int, schedule: str, seed: int) -> None:
        self.title, self.report = title, Report()
        self._output, self._settings = output, {"schedule": schedule, "seed": seed}
        self._recorder = Recorder(limit)
        self._stack = ExitStack()

    def __enter__(self) -> View:
        progress = RecordingProgress()
        self._stack.callback(progress.close)
        sinks = [self._recorder, progress]
        self.report = self._stack.enter_context(sanitize(sinks=sinks, **self._settings))  # type: ignore[arg-type]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> bool | None:
        handled = self._stack.__exit__(kind, error, tb)
        if self._output is not None and self.recordings:
            self.save(self._output)
        return handled

    @property
    def recordings(self) -> list[Recording]:
        """The launches so far."""
        return self._recorder.finish()

    def page(self) -> str:
        """The page, as HTML that loads nothing from anywhere. ValueError where nothing was launched."""
        if not self.recordings:
            raise ValueError("no kernel was launched, so there is nothing to view")
        return render(self.title, self.recordings)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to the file ``path``. ValueError where nothing was launched, OSError where it cannot be."""
        file = Path(path)
        file.write_text(self.page(), encoding="utf-8")
        return file

    def summary(self) -> str:
        """One line: launches, accesses, and what the sanitizer found."""
        count = len(self.recordings)
        accesses = sum(recording.event_count for recording in self.recordings)
        return f"{count} launch{'es' * (count != 1)}, {accesses} accesses; {self.report.summary()}"

    def __repr__(self) -> str:
        return f"<view of {self.summary()}>"

    def _repr_html_(self) -> str:
        """What notebooks show: the page, in a frame of its own."""
        if not self.recordings:
            return f"<pre>{html.escape(repr(self))}</pre>"
        frame = f'width="100%" height="{_HEIGHT}" style="border: 1px solid #ccc"'
        return f'<iframe title="{html.escape(self.title)}" {frame} srcdoc="{html.escape(self.page())}"></iframe>'


def view(
    run: Callable[[], object] | None = None,
    /,
    *,
    output: str | os.PathLike[str] | None = None,
    title: str = "kernels",
    limit: int = 4_000_000,
    schedule: str = "in-order",
    seed: int = 0,
) -> View:
    """Record what launches do to memory: those of the call ``run()``, or of a ``with`` block.

    Launches run block by block on the reference backend, under the sanitizer, as those of ``tilewright view`` do. The
    result shows itself in a notebook, where it is the last value of a cell; ``save`` writes it as a page, and so does
    ``output`` when the recording ends, also by an exception. After ``limit`` accesses no more are recorded.
    ``schedule`` and ``seed`` are those of ``ct.sanitize``. TypeError for a ``run`` that cannot be called; ValueError
    for an unknown schedule, and for a ``limit`` below 1. Source: an extension of ours.

    >>> @ct.kernel
    ... def double(x):
    ...     ct.store(x, (ct.bid(0),), ct.load(x, (ct.bid(0),), (4,)) * 2)
    >>> with ct.view() as seen:
    ...     ct.launch(None, (2,), double, (np.ones(8),))
    >>> seen
    <view of 1 launch, 4 accesses; 1 launch checked: no violation>
    >>> ct.view(lambda: ct.launch(None, (2,), double, (np.ones(8),))).report.clean
    True
    """
    if run is not None and not callable(run):
        raise TypeError(f"ct.view records the launches of a function without parameters, not {run!r}; pass a lambda")
    if limit < 1:
        raise ValueError(f"limit is {limit}; it must be 1 or more")
    found = View(title, None if output is None else Path(output), limit, schedule, seed)
    if run is not None:
        with found:
            run()
    return found
