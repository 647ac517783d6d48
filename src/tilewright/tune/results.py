"""What a search found."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
_MESSAGE = 60  # characters of the message of a failure in a summary


@dataclass(frozen=True, kw_only=True)
class Measurement(Generic[T]):
    """The time of a configuration: the mean of ``num_samples`` runs, without the fastest and the slowest fifth.

    ``error_margin_us`` is half the width of its 95 % confidence interval. Both are in microseconds.
    """

    config: T
    mean_us: float
    num_samples: int
    error_margin_us: float


@dataclass(frozen=True, kw_only=True)
class TuningResult(Generic[T]):
    """The outcome of a search: the ``best`` of the ``successes``, and the ``failures``.

    A failure is the configuration, the class of the exception that it raised, and the message.
    """

    best: Measurement[T]
    successes: Sequence[Measurement[T]]
    failures: Sequence[tuple[T, type[BaseException], str]]

    def summary(self, *, top_k: int = 10, bottom_k: int = 2) -> str:
        """A table of the ``top_k`` fastest and the ``bottom_k`` slowest configurations, and of the first failures."""
        ranked = sorted(self.successes, key=lambda m: m.mean_us)
        hidden = range(top_k, len(ranked) - bottom_k)
        lines = [f"{len(self.successes)} succeeded, {len(self.failures)} failed"]
        width = max((len(str(m.config)) for m in ranked), default=0)
        for rank, m in enumerate(ranked):
            if rank in hidden and len(hidden) > 1:
                if rank == hidden[0]:
                    lines.append(f"  ... {len(hidden)} more ...")
                continue
            mark = "*" if m == self.best else " "
            times = f"{m.mean_us:>10.1f} us +- {m.error_margin_us:<8.1f} {m.num_samples:>5} runs"
            lines.append(f"{mark} {m.config!s:<{width}}  {times}")
        for config, error, message in self.failures[:top_k]:
            first = message.split("\n", 1)[0]
            if len(first) > _MESSAGE:
                first = first[: _MESSAGE - 3] + "..."
            lines.append(f"! {config!s:<{width}}  {error.__name__}: {first}")
        if len(self.failures) > top_k:
            lines.append(f"! ... {len(self.failures) - top_k} more failed ...")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        """What notebooks show: a row for each configuration, the fastest first, then the failures, folded."""
        ranked = sorted(self.successes, key=lambda m: m.mean_us)
        head = "".join(f"<th>{title}</th>" for title in ("configuration", "time (us)", "margin (us)", "runs"))
        rows = [
            f"<tr><td>{html.escape(str(m.config))}</td><td>{m.mean_us:.1f}</td><td>{m.error_margin_us:.1f}</td>"
            f"<td>{m.num_samples}</td></tr>"
            for m in ranked
        ]
        table = f"<table><tr>{head}</tr>{''.join(rows)}</table>"
        if not self.failures:
            return table
        failed = "\n".join(f"{config}: {error.__name__}: {message}" for config, error, message in self.failures)
        summary = f"<summary>{len(self.failures)} failed</summary>"
        return f"{table}<details>{summary}<pre>{html.escape(failed)}</pre></details>"


def no_success(failures: Sequence[tuple[T, type[BaseException], str]]) -> ValueError:
    """The error for a search in which every configuration failed."""
    config, error, message = failures[0]
    said = f"raised {error.__name__}: {message}"
    if len(failures) == 1:
        return ValueError(f"the only configuration, {config}, does not work: it {said}")
    return ValueError(f"none of the {len(failures)} configurations works; the first, {config}, {said}")
