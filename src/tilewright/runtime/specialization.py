"""A kernel compiled for one signature, and what ``kernel.inspect()`` tells of all of them."""

from __future__ import annotations

import functools
import html
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.analysis.argument_effects import argument_effects
from tilewright.analysis.manager import AnalysisManager
from tilewright.backends.base import Executable
from tilewright.ir.core import Function
from tilewright.ir.errors import TileError
from tilewright.ir.printer import print_function
from tilewright.records import dataclass
from tilewright.runtime.explain import Compilation

_SOURCE_STAGE = "Tile IR"
_DECISIONS = "compile decisions"

RENAMED_STAGES = {"choices": _DECISIONS}


@dataclass(frozen=True)
class Specialization:
    """A kernel compiled for one signature. ``function`` is its IR before any pass."""

    function: Function
    executable: Executable
    launcher: Executable  # ``executable``, or what runs the variant of it that a launch needs
    written: frozenset[str]  # the arguments that it stores to
    compilation: Compilation

    def stage_names(self) -> list[str]:
        """What can be shown of the compilation, in order."""
        return list(dict.fromkeys((_SOURCE_STAGE, *self.executable.stages())))

    def stage(self, name: str) -> str:
        """The text of a stage. A name that it had before works for one release, with a warning."""
        if name in RENAMED_STAGES:
            warnings.warn(f"the stage {name!r} is called {RENAMED_STAGES[name]!r} now", FutureWarning, stacklevel=2)
            name = RENAMED_STAGES[name]
        if name == _SOURCE_STAGE:
            return print_function(self.function)
        text = self.executable.stages()[name]
        return f"{self.compilation.taken}\n{text}" if name == _DECISIONS and self.compilation.taken else text

    def _repr_html_(self) -> str:
        """What notebooks show: why it was compiled, and every stage, folded."""
        return f"<pre>{html.escape(chr(10).join(self.compilation.lines()))}</pre>{self.folded_stages()}"

    def folded_stages(self, mark: str = "") -> str:
        """Every stage in HTML, folded; ``mark`` precedes the names."""
        return "".join(
            f"<details><summary>{mark}{html.escape(name)}</summary><pre>{html.escape(self.stage(name))}</pre></details>"
            for name in self.stage_names()
        )


@dataclass(frozen=True)
class Inspection:
    """What ``kernel.inspect()`` tells. Printing it shows the key of every specialization, and why each was made."""

    name: str
    hints: Mapping[str, Any]
    options: Mapping[str, Mapping[str, Any]]
    specializations: tuple[Specialization, ...]

    def __str__(self) -> str:
        count = len(self.specializations)
        lines = [f"kernel {self.name}: {count} specialization{'s' * (count != 1)}"]
        if self.hints:
            lines.append("hints: " + ", ".join(f"{name} = {value!r}" for name, value in self.hints.items()))
        for backend, options in self.options.items():
            lines.append(
                f"options of {backend}: " + ", ".join(f"{name} = {value!r}" for name, value in options.items())
            )
        for number, found in enumerate(self.specializations, 1):
            head, *rest = found.compilation.lines()
            lines += [f"{number}. {head}", *(f" {line}" for line in rest)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """What notebooks show: the text, then every stage of each specialization, folded."""
        stages = (found.folded_stages(f"{number}. ") for number, found in enumerate(self.specializations, 1))
        return f"<pre>{html.escape(str(self))}</pre>{''.join(stages)}"


class SourceSpecialization(Specialization):
    """A kernel that runs from its source, which may hold what only Python can run, such as ``breakpoint()``."""

    def __init__(self, trace: Callable[[], Function], executable: Executable, compilation: Compilation) -> None:
        vars(self).update(_trace=trace, executable=executable, launcher=executable, compilation=compilation)

    @functools.cached_property
    def function(self) -> Function:
        """The IR. TileError when the source cannot be compiled."""
        found: Function = vars(self)["_trace"]()
        return found

    @functools.cached_property
    def written(self) -> frozenset[str]:
        """Nothing where the IR cannot be made: then the backend checks each store as it happens."""
        try:
            return AnalysisManager(self.function).get(argument_effects).written
        except TileError:
            return frozenset()

    def stage_names(self) -> list[str]:
        return list(self.executable.stages())
