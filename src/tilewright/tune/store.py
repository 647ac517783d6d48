"""Results of a search as bytes."""

from __future__ import annotations

import builtins
import json
from collections.abc import Sequence
from typing import Any, TypeVar

from tilewright.ir import errors
from tilewright.tune.gate import Refused
from tilewright.tune.results import Measurement, TuningResult

T = TypeVar("T")

_EXCEPTIONS: dict[str, type[BaseException]] = {
    name: value
    for module in (builtins, errors)
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}
_EXCEPTIONS["Refused"] = Refused


def encode(result: TuningResult[T], configs: Sequence[T]) -> bytes:
    """``result``, whose configurations are among ``configs``."""
    indices = {id(config): i for i, config in enumerate(configs)}
    found = {
        "successes": [
            [indices[id(m.config)], m.mean_us, m.num_samples, m.error_margin_us]
            for m in (result.best, *(m for m in result.successes if m is not result.best))
        ],
        "failures": [[indices[id(config)], error.__name__, message] for config, error, message in result.failures],
    }
    return json.dumps(found).encode()


def decode(data: bytes, configs: Sequence[T]) -> TuningResult[T]:
    """The result that ``encode`` wrote, the best configuration first. Exceptions of other packages are Exception."""
    found: dict[str, list[Any]] = json.loads(data)
    successes = tuple(
        Measurement(config=configs[i], mean_us=mean, num_samples=samples, error_margin_us=margin)
        for i, mean, samples, margin in found["successes"]
    )
    failures = tuple((configs[i], _EXCEPTIONS.get(name, Exception), text) for i, name, text in found["failures"])
    return TuningResult(best=successes[0], successes=successes, failures=failures)
