"""Kernels of every front end: from arguments to a launch plan."""

from __future__ import annotations

import html
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from tilewright.analysis.argument_effects import argument_effects
from tilewright.analysis.manager import AnalysisManager
from tilewright.backends.base import Backend, Work
from tilewright.backends.registry import classes_of
from tilewright.frontend.signature import PointerSpec, Signature
from tilewright.ir.core import Function
from tilewright.ir.errors import TileUnsupportedFeatureError
from tilewright.language import suggestions
from tilewright.runtime import explain as explanation
from tilewright.runtime.arguments import BoundArguments, Region, bind_argument, describer
from tilewright.runtime.arrays import ArgumentKey, Describe, RuntimeValues
from tilewright.runtime.backend_choice import compiling_for, requested, select, taken_from
from tilewright.runtime.cached_launch import CachedLaunch
from tilewright.runtime.compiling import COMPILATION_LOCK, checked, compiled
from tilewright.runtime.explain import Compilation
from tilewright.runtime.grid import checked_grid
from tilewright.runtime.launch_plan import LaunchPlan, Repeated, argument_of
from tilewright.runtime.layout import ArgumentRef
from tilewright.runtime.rules import Rule
from tilewright.runtime.specialization import Inspection, Specialization
from tilewright.runtime.variants import MultiVersioned
from tilewright.runtime.versions import Path, noting_writes
from tilewright.system import collector
from tilewright.system.environment import check_settings, variable
from tilewright.system.stack import require_stack
from tilewright.transforms.check_insertion import NullCheckInsertion
from tilewright.transforms.pipelines import add_checks, run_passes

_MOST_ASKED = 16  # kinds of launches whether one is of that, which takes each a fraction of a microsecond
_MAX_PLANS = 4096  # launches that a kernel remembers; programs with more shapes than that start over
_Kernel = TypeVar("_Kernel", bound="Launchable")


class _Elsewhere:
    """A method that launches kernels of other languages: an AttributeError that says what to write here. A class with
    ``__getattr__`` would look up each attribute of its objects more slowly, at each launch."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, kernel: Any, owner: type) -> NoReturn:
        instead = "" if kernel is None else f"; write ct.launch(stream, grid, {kernel.name}, (...))"
        raise AttributeError(
            f"{owner.__name__!r} object has no attribute {self._name!r}{instead}", name=self._name, obj=kernel
        )


class Launchable:
    """A kernel. Front ends derive from it and say what its parameters are and how to trace it."""

    is_tile_kernel = True
    name: str
    hints: Mapping[str, Any] = MappingProxyType({})  # of the language, for the compiler
    defaults: Mapping[str, Any] = MappingProxyType({})  # what the source gives parameters that a launch leaves out
    _parameters: Sequence[tuple[ArgumentRef, Rule]]
    variable = "kernel"  # what it is in messages that show how programs use it
    own_parameters: int | None = None  # how many of the parameters launches give, where not all
    backend: str | None = None  # the name of that for launches that ask for none
    if not TYPE_CHECKING:
        launch, run = _Elsewhere(), _Elsewhere()

    def __init__(self) -> None:
        self.plans: dict[Any, LaunchPlan] = {}
        self._repeated: dict[Any, Repeated] = {}  # by what the keys of plans have in common
        self.last: LaunchPlan | None = None  # the plan of the latest launch
        self._describers: dict[tuple[type, ...], list[Describe]] = {}  # by the types of the arguments
        self.cached_launch: CachedLaunch | None = (
            None  # what makes launches like that one, if they were repeated before
        )
        self._specializations: dict[tuple[str, str, bool, Signature], Specialization] = {}
        self._taken: dict[tuple[str, str, Signature], tuple[str, str] | None] = {}  # see ``_taking``
        self._traced: tuple[Signature, Function] | None = None  # to find that out, and not compiled yet
        self.variants: dict[Any, Any] = {}  # hints -> the same kernel with them, and what its source named then
        self.options: dict[str, dict[str, Any]] = {}  # backend -> its options, such as the number of threads

    def __copy__(self: _Kernel) -> _Kernel:
        return self

    def __deepcopy__(self: _Kernel, memo: Any) -> _Kernel:
        """This kernel itself, as of functions: what it knows is what it has compiled."""
        return self

    @property
    def parameters(self) -> Sequence[tuple[ArgumentRef, Rule]]:
        """The parameters, in order, with what the source says of each."""
        return self._parameters

    def completed(self, args: Any, keywords: Mapping[str, Any]) -> Any:
        """``args`` with the arguments that are given by name, and those that have defaults.

        RuntimeError for other names, as in the original; TypeError where a parameter gets no argument, or two. Source:
        names are an extension of ours; the original refuses all.
        """
        if not keywords and (not isinstance(args, tuple) or len(args) >= len(self.parameters)):
            return args
        names = [ref.argument for ref, _ in self.parameters]
        unknown = next((name for name in keywords if name not in names), None)
        if unknown is not None:
            known = "programmatic_dependent_launch, backend, check_overlap and the names of the kernel's parameters"
            meant = suggestions.instead_of(unknown, names)
            raise RuntimeError(f"ct.launch() has no keyword {unknown!r}{meant}; it has {known}")
        if not isinstance(args, tuple):
            return args
        twice = next((name for name in names[: len(args)] if name in keywords), None)
        if twice is not None:
            raise TypeError(f"{self.name}() gets its argument {twice!r} twice: in the tuple, and by name")
        found, defaults = list(args), self.defaults
        for name in names[len(args) :]:
            if name in keywords:
                found.append(keywords[name])
            elif name in defaults:
                found.append(defaults[name])
            else:
                raise TypeError(_wrong_arguments(self, (*args, *keywords.values())))
        return tuple(found)

    def with_defaults(self, names: Iterable[str]) -> list[str]:
        """Parameters as the source has them: ``["x", "factor=2.0"]``."""
        return [f"{name}={self.defaults[name]!r}" if name in self.defaults else name for name in names]

    def trace(self, signature: Signature) -> Function:
        """The IR of the kernel for arguments that ``signature`` describes."""
        raise NotImplementedError

    def trace_checked(self, signature: Signature) -> Function:
        """The IR that also states what the language leaves undefined where ``trace`` may drop it."""
        return self.trace(signature)

    def bind(
        self,
        grid: tuple[int, ...],
        kernel_args: tuple[Any, ...],
        /,
        *,
        stream: Any = None,
        backend: str | None = None,
        check_overlap: bool = False,
    ) -> Callable[[], None]:
        """A launch of this kernel with everything checked and compiled once: calling it runs the grid.

        Takes what ``ct.launch`` takes, and raises what it raises. On a GPU each call queues the grid on ``stream``.
        Arrays are bound by address, which must not change (as ``ndarray.resize`` would change it); numbers keep the
        values that they have now.
        """
        runtime = RuntimeValues()
        blocks = checked_grid(grid)
        plan = self.plan_for(kernel_args, backend, runtime)
        run = noting_writes(plan.bind(blocks, runtime, stream, check=check_overlap), kernel_args, plan.written)
        vars(run)["owners"] = kernel_args, runtime.owners  # so that the memory lives as long
        return run

    def work(self, grid: tuple[int, ...], kernel_args: tuple[Any, ...], backend: str | None = None) -> Work:
        """What a launch would compute and move. ValueError where the backend, or the kernel, does not tell that."""
        runtime = RuntimeValues()
        blocks = checked_grid(grid)
        return self.plan_for(kernel_args, backend, runtime).work(blocks, runtime)

    def plan_for(self, args: Any, backend: str | None, runtime: RuntimeValues) -> LaunchPlan:
        """The launch with the arguments ``args``, whose run-time numbers go to ``runtime``."""
        if self.defaults:
            args = self.completed(args, {})
        name, keys = requested(backend) or self.backend, self._argument_keys(args, runtime)
        key = name, variable("TILEWRIGHT_CHECK"), *keys
        last = plan = self.last
        if last is None or key != last.key:  # cheaper than hashing it
            plan = self.plans.get(key)
        if plan is None:
            plan = self.make_plan(name, keys)
            self.remember(key, plan)
        self.note(plan)
        return plan

    def note(self, plan: LaunchPlan) -> None:
        """Let ``plan`` be that of the latest launch."""
        if self.last is not None and self.last.repeated is not plan.repeated:
            self.last.repeated.following = plan
        self.last, self.cached_launch = plan, plan.cached

    def repeats(self, stream: Any, grid: tuple[int, ...], args: Any, backend: str | None, *, asked: bool) -> bool:
        """Make a launch like an earlier one by machine code; False, and nothing has happened, where there is none. With
        ``asked`` those of the latest launches, and the ones that follow, have been asked on this very ``stream``."""
        last = self.last
        before = (
            () if last is None or not asked else (last.repeated, getattr(last.repeated.following, "repeated", None))
        )
        for like in itertools.islice(self._repeated.values(), _MOST_ASKED):
            cached, plan = like.cached, like.plan
            if cached is None or plan is None:
                continue
            used = plan.stream_for(stream)
            if not (used is stream and like in before) and cached(used, grid, args, backend):
                self.note(plan)
                return True
        return False

    def record(self, plan: LaunchPlan, args: Any, backend: str | None, runtime: RuntimeValues) -> None:
        """Note a launch of ``plan`` with ``args``: after some, those like it are made without this path."""
        if plan.is_repeated():
            plan.cache(backend, [rule for _, rule in self.parameters], args, runtime)
            self.cached_launch = plan.cached

    def described(self, args: Any, backend: str | None) -> tuple[Signature, Backend]:
        """What a launch with these arguments is keyed on, and the backend that would run it. Nothing is compiled."""
        keys = self._argument_keys(args, RuntimeValues())
        signature, chosen, _ = self._bound(requested(backend) or self.backend, keys)
        self._traced = None  # what the source names may be something else when it is compiled
        return signature, chosen

    def regions(self, args: Any) -> tuple[Signature, list[Region]]:
        """What a launch with these arguments is keyed on, and all arrays among them."""
        signature, bound = self._signature(self._argument_keys(args, RuntimeValues()))
        return signature, bound.regions

    def _argument_keys(self, args: Any, runtime: RuntimeValues) -> list[ArgumentKey]:
        if not isinstance(args, tuple):
            raise TypeError(_wrong_arguments(self, args))
        types = tuple(map(type, args))
        describers = self._describers.get(types)
        if describers is None:
            if len(args) < len(self.parameters):
                return self._argument_keys(self.completed(args, {}), runtime)
            if len(args) > len(self.parameters):
                raise TypeError(_wrong_arguments(self, args))
            describers = [describer(rule, argument) for (_, rule), argument in zip(self.parameters, args)]
            if not any(isinstance(argument, type) for argument in args):  # of other types all have the same describers
                self._describers[types] = describers
        return [describe(argument, runtime) for describe, argument in zip(describers, args)]

    def replace_options(self: _Kernel, backend: str, /, **options: Any) -> _Kernel:
        """This kernel, with a cache of its own, compiled by ``backend`` with these ``options``.

        The backend says what its options are, and ValueError about others, when it compiles. No option changes what a
        kernel computes.
        """
        changed: _Kernel = object.__new__(type(self))
        changed.__dict__.update(self.__dict__)
        Launchable.__init__(changed)
        changed.options = {**self.options, backend: options}
        return changed

    def with_options(self: _Kernel, options: Mapping[str, Mapping[str, Any]]) -> _Kernel:
        """This kernel with the options of several backends: see ``replace_options``."""
        found = self
        for backend, chosen in options.items():
            found = found.replace_options(backend, **chosen)
        return found

    def __getitem__(self, grid: Any) -> Any:
        """What Triton writes for a launch: a TypeError that says what to write here."""
        shown = "grid" if callable(grid) else repr(grid)
        raise TypeError(
            f"{self.name}[{shown}](...) is Triton's way to launch a kernel; here it is "
            f"ct.launch(stream, {shown}, {self.name}, (...))"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """TypeError, which says how a kernel is launched."""
        names = [ref.argument for ref, _ in self.parameters[: self.own_parameters]]
        raise TypeError(
            f"{self.name} is a kernel and cannot be called; launch it: "
            f"ct.launch(stream, grid, {self.variable}, ({', '.join(names)}{',' * (len(names) == 1)}))"
        )

    def inspect(self) -> Inspection:
        """What has been compiled so far: the key of each specialization, why it was made, and all its stages."""
        return Inspection(self.name, self.hints, self.options, tuple(self._specializations.values()))

    def _repr_html_(self) -> str:
        """What notebooks show: the signature, and what has been compiled, with every stage folded."""
        return f"<p><code>{html.escape(repr(self))}</code></p>{self.inspect()._repr_html_()}"

    def compile_for(self, target: str | None, kernel_args: tuple[Any, ...], /) -> Specialization:
        """The kernel compiled for the GPU architecture ``target`` (``"sm_90"``, ``"gfx942"``), to be looked at.

        It is what a launch with such arguments would run there; the arrays may be in any memory. No GPU is needed,
        but for None, which stands for the GPU of this machine. ValueError for an unknown architecture; RuntimeError
        where the compiler is not installed; TileError when the kernel is wrong.
        """
        signature, _ = self.regions(kernel_args)
        backend = default = compiling_for(target)
        if requested() is None:
            backend = self._taking(signature, backend, lambda name: compiling_for(target, name))
        with COMPILATION_LOCK:
            try:
                return self._compile(signature, backend)
            except TileUnsupportedFeatureError:
                if backend is default:
                    raise
                return self._compile(signature, default)

    def _signature(self, keys: Sequence[ArgumentKey]) -> tuple[Signature, BoundArguments]:
        bound = BoundArguments([], [], [])
        entries = zip(self.parameters, keys)
        signature = Signature(tuple([bind_argument(rule, ref, key, bound) for (ref, rule), key in entries]))
        bound.specs = signature.arguments
        return signature, bound

    def _bound(self, requested: str | None, keys: Sequence[ArgumentKey]) -> tuple[Signature, Backend, BoundArguments]:
        signature, bound = self._signature(keys)
        backend = select(requested, self.name, bound.regions)
        if requested is None:
            backend = self._taking(signature, backend, lambda name: select(name, self.name, bound.regions))
        return signature, backend, bound

    def _taking(self, signature: Signature, backend: Backend, find: Callable[[str], Backend]) -> Backend:
        """The backend that takes the kernel in place of the default one ``backend``, or that one. One of these that the
        kernel has options for has it. ``find`` gives a backend by its name."""
        if not classes_of(backend.name) or self.options.get(backend.name):
            return backend
        for kernels in classes_of(backend.name):
            if self.options.get(kernels.backend):
                return find(kernels.backend)
        key = backend.name, backend.target(), signature
        if key not in self._taken:
            with COMPILATION_LOCK:
                self._taken[key] = taken_from(backend, lambda: self._function(signature), find)
        found = self._taken[key]
        return backend if found is None else find(found[0])

    def _give_back(self, signature: Signature, backend: Backend) -> bool:
        """Whether ``backend``, which cannot compile the kernel, took it from another, which keeps it now."""
        taken = [k for k, found in self._taken.items() if k[2] == signature and found and found[0] == backend.name]
        self._taken.update(dict.fromkeys(taken))
        return bool(taken)

    def _function(self, signature: Signature) -> Function:
        """What ``trace`` gives; kept until it is compiled."""
        if self._traced is None or self._traced[0] != signature:
            require_stack()
            with collector.paused():
                self._traced = signature, self.trace(signature)
        return self._traced[1]

    def make_plan(self, requested: str | None, keys: Sequence[ArgumentKey]) -> LaunchPlan:
        """Everything about a launch that does not change with addresses and numbers: checked, compiled, remembered."""
        check_settings()
        signature, backend, bound = self._bound(requested, keys)
        try:
            specialization = self.specialize(signature, backend)
        except TileUnsupportedFeatureError:
            if requested is not None or not self._give_back(signature, backend):
                raise
            return self.make_plan(requested, keys)
        for region in bound.regions:
            if not region.layout.writable and argument_of(region, bound.tables) in specialization.written:
                ref = ArgumentRef(self.name, region.name)
                if region.layout.inference:
                    raise RuntimeError(
                        f"{ref} was made in inference mode, outside of which it cannot be changed in place; pass "
                        "x.clone()"
                    )
                raise ValueError(f"{ref} is read-only, but the kernel stores to it; pass a copy")
        if checked(backend):
            extents = {r.name: r.layout.extent() for r in bound.regions}
            bound.values += [limit for name in self._pointers(signature) for limit in extents.get(name, (0, 0))]
            bound.specs = tuple([None if isinstance(spec, PointerSpec) else spec for spec in bound.specs])
        entries = zip(self.parameters, keys)
        paths = ((i, ref, key) for i, ((ref, _), key) in enumerate(entries))
        found = [w for i, ref, key in paths for w in _written_tensors(ref, key, specialization, (i,))]
        return LaunchPlan(self.name, specialization, bound, backend.capabilities, tuple(found))

    def _pointers(self, signature: Signature) -> tuple[str, ...]:
        """The arguments that the kernel knows by their address only."""
        arguments = zip(self.parameters, signature.arguments)
        return tuple(ref.argument for (ref, _), spec in arguments if isinstance(spec, PointerSpec))

    def specialize(self, signature: Signature, backend: Backend) -> Specialization:
        """The kernel compiled for ``signature``, at most once. TileError when the kernel is wrong."""
        key = backend.name, backend.target(), checked(backend), signature
        found = self._specializations.get(key)
        if found is None:
            with COMPILATION_LOCK:
                found = self._specializations.get(key)
                if found is None:
                    found = self._compile(signature, backend)
                    self._specializations[key] = found
        return found

    def to_compile(self, signature: Signature, backend: Backend) -> Function:
        """What ``backend`` compiles for ``signature``. TileError when the kernel is wrong."""
        with COMPILATION_LOCK:
            function, self._traced = self._function(signature), None
            return self._with_checks(function, signature, backend)

    def _with_checks(self, function: Function, signature: Signature, backend: Backend) -> Function:
        if checked(backend):
            return run_passes(function, add_checks(self._pointers(signature)))
        given = zip(function.params, signature.arguments)
        null = frozenset(p.argument for p, spec in given if isinstance(spec, PointerSpec) and spec.null)
        if not null or backend.device != "cpu" or backend.capabilities.finds_undefined_behavior:
            return function
        return run_passes(function, (NullCheckInsertion(null),))

    def _compile(self, signature: Signature, backend: Backend) -> Specialization:
        require_stack()
        start = time.perf_counter()
        able = backend.capabilities
        function = self.trace_checked(signature) if able.finds_undefined_behavior else self._function(signature)
        self._traced = None
        wanted = self._with_checks(function, signature, backend)
        options = self.options.get(backend.name, {})
        executable: Any
        executable, origin = compiled(wanted, backend, options)
        launcher = MultiVersioned(executable, wanted, backend, options) if able.variants else executable
        seconds = time.perf_counter() - start
        facts = explanation.facts([ref.argument for ref, _ in self.parameters], signature)
        earlier = [s.compilation for s in self._specializations.values()]
        name = f"{backend.name} with checks" if checked(backend) else backend.name
        reasons = explanation.reasons(self.name, function.loc, name, facts, earlier)
        taken = next((as_what for (_, _, s), as_what in self._taken.items() if s == signature), None)
        why = f"{taken[0]} takes {taken[1]}" if taken is not None and taken[0] == backend.name else ""
        compilation = Compilation(name, origin, seconds, facts, tuple(reasons), why)
        explanation.show_ir(function)
        if explanation.wanted():
            explanation.show(self.name, len(earlier) + 1, compilation)
        written = AnalysisManager(function).get(argument_effects).written
        for made in (function, wanted):  # which live as long as the kernel
            AnalysisManager(made).keep(())
        return Specialization(function, executable, launcher, written, compilation)

    def remember(self, key: Any, plan: LaunchPlan) -> None:
        """Keep ``plan`` for launches with the same ``key``."""
        if len(self.plans) >= _MAX_PLANS:
            self.plans.clear()
            self._repeated.clear()
        self.plans[key], plan.key = plan, key
        plan.repeated = self._repeated.setdefault(plan.key_without_extents(), plan.repeated)


def _wrong_arguments(kernel: Launchable, args: Any) -> str:
    names = kernel.with_defaults(ref.argument for ref, _ in kernel.parameters)
    if type(args) is not tuple:
        one = "; for one argument write (x,)" if len(names) == 1 else ""
        return f"the arguments of {kernel.name}() must be a tuple, not {type(args).__name__}{one}"
    return (
        f"{kernel.name}() takes {len(names)} argument{'s' * (len(names) != 1)} ({', '.join(names)}), but {len(args)} "
        f"{'was' if len(args) == 1 else 'were'} given"
    )


def _written_tensors(ref: ArgumentRef, key: ArgumentKey, compiled: Specialization, path: Path) -> Iterator[Path]:
    """Where an argument, or the entries of a tuple, are tensors of PyTorch, or lists, that ``compiled`` stores to."""
    if key[0] == "tuple":
        for i, entry in enumerate(key[1:]):
            yield from _written_tensors(ref.item(i), entry, compiled, (*path, i))
    elif key[0] in ("torch", "list") and ref.argument in compiled.written:
        yield path
