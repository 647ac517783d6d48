"""The ``kernel`` decorator."""

from __future__ import annotations
import __future__

import functools
import os
import pickle
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union, overload

from tilewright.backends.base import Backend
from tilewright.frontend.python.compile import parameter_names, trace
from tilewright.frontend.python.source import source_of
from tilewright.frontend.signature import Signature
from tilewright.ir.core import Function
from tilewright.ir.hints import UNSPECIFIED, ByTarget
from tilewright.language.suggestions import explains_arguments, instead_of_keyword
from tilewright.runtime import explain as explanation
from tilewright.runtime.captures import Captures
from tilewright.runtime.explain import Compilation
from tilewright.runtime.launchable import Launchable
from tilewright.runtime.layout import ArgumentRef
from tilewright.runtime.rules import Rule, resolve, rule_of
from tilewright.runtime.specialization import SourceSpecialization, Specialization

# name -> (default, allowed values, their description)
_HINTS: dict[str, tuple[Any, frozenset[int], str]] = {
    "num_ctas": (None, frozenset((1, 2, 4, 8, 16)), "a power of two from 1 to 16"),
    "occupancy": (None, frozenset(range(1, 33)), "from 1 to 32"),
    "opt_level": (3, frozenset(range(4)), "from 0 to 3"),
    "num_worker_warps": (None, frozenset((1, 2, 4, 8, 16, 32)), "1, 2, 4, 8, 16 or 32"),
}


def checked_hints(hints: Mapping[str, Any]) -> dict[str, Any]:
    """``hints`` without those that say what holds anyway. TypeError for unknown names and for what is no number."""
    found: dict[str, Any] = {}
    for name, value in hints.items():
        if name not in _HINTS:
            meant = instead_of_keyword(name, _HINTS)
            raise TypeError(f"unknown kernel hint {name!r}{meant}; the hints are {', '.join(_HINTS)}")
        default, allowed, description = _HINTS[name]
        values = [value]
        if isinstance(value, ByTarget):
            values = [*value.values.values(), *([] if value.default is UNSPECIFIED else [value.default])]
        for v in values:
            if v is not None and (isinstance(v, bool) or not isinstance(v, int) or v not in allowed):
                error = ValueError if isinstance(v, (int, float)) else TypeError
                raise error(f"{name} is {v!r}; it must be {description}")
        if value is not None and value != default:
            found[name] = value
    return found


Hint = Union[int, ByTarget, None]
_MOST_VARIANTS = 64  # with other hints that a kernel remembers: the one asked for least recently is forgotten first


@explains_arguments
class kernel(Launchable):
    """Marks a function as a tile kernel, which ``launch`` runs once per block of a grid.

    Bare (``@kernel``) or with hints (``@kernel(num_ctas=2)``), each a value or a ``ByTarget``: ``num_ctas``
    (a power of two up to 16), ``occupancy`` (1 to 32), ``opt_level`` (0 to 3), ``num_worker_warps`` (a power of two up
    to 32). ValueError for values outside, TypeError for anything but a Python function and for direct calls.

    >>> @ct.kernel(occupancy=2)
    ... def double(x, TILE: ct.Constant[int]):
    ...     i = ct.bid(0)
    ...     ct.store(x, (i,), 2 * ct.load(x, (i,), (TILE,)))
    >>> x = np.arange(6)
    >>> ct.launch(None, (2,), double, (x, 4))
    >>> x
    array([ 0,  2,  4,  6,  8, 10])
    """

    @overload
    def __new__(
        cls,
        function: Callable[..., Any],
        /,
        *,
        num_ctas: Hint = None,
        occupancy: Hint = None,
        opt_level: Hint = 3,
        num_worker_warps: Hint = None,
    ) -> kernel: ...
    @overload
    def __new__(  # type: ignore[misc]  # without a function it makes a decorator
        cls,
        function: None = None,
        /,
        *,
        num_ctas: Hint = None,
        occupancy: Hint = None,
        opt_level: Hint = 3,
        num_worker_warps: Hint = None,
    ) -> Callable[[Callable[..., Any]], kernel]: ...
    def __new__(
        cls,
        function: Any = None,
        /,
        *,
        num_ctas: Hint = None,
        occupancy: Hint = None,
        opt_level: Hint = 3,
        num_worker_warps: Hint = None,
    ) -> Any:
        hints = checked_hints(
            {"num_ctas": num_ctas, "occupancy": occupancy, "opt_level": opt_level, "num_worker_warps": num_worker_warps}
        )
        if function is None:
            return functools.partial(cls, **hints)
        if not isinstance(function, types.FunctionType):
            raise TypeError(f"@ct.kernel marks a Python function, not {function!r}")
        # With ``from __future__ import annotations`` the names in them may be local to where it is defined.
        postponed = function.__code__.co_flags & __future__.annotations.compiler_flag
        annotations = resolve(function, sys._getframe(2).f_locals) if postponed else None
        return super().__new__(cls)._define(function, hints, annotations)

    def __init__(self, *_: Any, **__: Any) -> None:
        """The object is complete: ``__new__`` decides whether to make a kernel or a decorator."""

    def _define(
        self, function: types.FunctionType, hints: Mapping[str, Any], annotations: dict[str, Any] | None
    ) -> kernel:
        super().__init__()
        self.function = function
        self.name = self.variable = function.__name__
        self.hints = hints
        self._annotations = annotations
        self._found: Sequence[tuple[ArgumentRef, Rule]] | None = None
        last = function.__defaults__ or ()
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        self.defaults = {**dict(zip(names[len(names) - len(last) :], last)), **(function.__kwdefaults__ or {})}
        functools.update_wrapper(self, function)
        return self

    @property
    def parameters(self) -> Sequence[tuple[ArgumentRef, Rule]]:
        """The parameters with the rules of their annotations."""
        if self._found is None:  # functools.cached_property has a lock, which a fork may copy locked
            self._found = self._found_parameters()
        return self._found

    def _found_parameters(self) -> Sequence[tuple[ArgumentRef, Rule]]:
        function = self.function
        names = parameter_names(source_of(function.__code__))
        annotations = resolve(function, {}) if self._annotations is None else self._annotations
        refs = [ArgumentRef(self.name, name) for name in names]
        return [(p, rule_of(annotations.get(p.argument), str(p), function.__globals__)) for p in refs]

    def __reduce__(self) -> str | tuple[Any, ...]:
        """As functions are pickled: the module and the name there; of a variant, also its hints and options."""
        found: Any = sys.modules.get(self.function.__module__)
        for name in self.function.__qualname__.split("."):
            found = getattr(found, name, None)
        if found is self:
            return self.function.__qualname__
        if isinstance(found, kernel) and found.function is self.function:
            return _variant, (found, dict(self.hints), self.options)
        raise pickle.PicklingError(
            f"the kernel {self.function.__qualname__} cannot be pickled, as it is not found under this name in the "
            f"module {self.function.__module__}; define it at the top of the module"
        )

    def trace(self, signature: Signature) -> Function:
        return trace(self.function, signature, self.hints, self.name)

    def _compile(self, signature: Signature, backend: Backend) -> Specialization:
        run_source = backend.capabilities.run_source
        if run_source is None:
            return super()._compile(signature, backend)
        facts = explanation.facts([ref.argument for ref, _ in self.parameters], signature)
        made = Compilation(backend.name, "compiled", 0.0, facts, ("this backend runs the source",))
        return SourceSpecialization(lambda: self.trace(signature), run_source(self.function, signature), made)

    def replace_hints(self, **hints: Any) -> kernel:
        """This kernel with other hints, and with a cache of its own. TypeError for an unknown hint.

        Programs ask for one with every launch, so the answer for hints given before is the kernel made then, unless
        something that the source names has changed since. Without hints the kernel is a new one.
        """
        if not hints:
            return self._hinted(self.hints)
        changed = checked_hints({**self.hints, **hints})
        wanted = tuple(changed.items())
        known = self.variants.pop(wanted, None)
        if known is not None and known[0].unchanged():
            self.variants[wanted] = known
            return known[1]
        made = self._hinted(changed)
        if len(self.variants) >= _MOST_VARIANTS:
            self.variants.pop(next(iter(self.variants)), None)
        self.variants[wanted] = Captures(self.function), made
        return made

    def _hinted(self, hints: Mapping[str, Any]) -> kernel:
        changed: kernel = object.__new__(kernel)
        changed._define(self.function, hints, self._annotations)
        changed.options = self.options
        return changed

    def __repr__(self) -> str:
        code, count = self.function.__code__, len(self.inspect().specializations)
        hints = "".join(f", {name}={value!r}" for name, value in self.hints.items())
        compiled = f"{count} specialization{'s' * (count != 1)}" if count else "not compiled yet"
        where = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        given = ", ".join(self.with_defaults(names))
        return f"<kernel {self.name}({given}){hints} at {where}, {compiled}>"


def _variant(base: kernel, hints: dict[str, Any], options: dict[str, dict[str, Any]]) -> kernel:
    """What ``replace_hints`` and ``replace_options`` make of ``base``."""
    return base.replace_hints(**hints).with_options(options)
