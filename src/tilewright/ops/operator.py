"""``op``: declares an operator that is computed by launches of kernels."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tilewright.ir.diagnostics import raised_on_purpose
from tilewright.ir.dtypes import ALL_DTYPES
from tilewright.ir.errors import TileTypeError
from tilewright.ir.location import Loc
from tilewright.ops.dims import Dims
from tilewright.ops.in_place import Memory, overlaps
from tilewright.runtime.launch import launch
from tilewright.runtime.launchable import Launchable
from tilewright.sanitizer.session import SESSIONS
from tilewright.system.forks import load

_NUMBERS = {int: "int", float: "float", bool: "bool"}
_TAKEN = {bool: (bool, np.bool_), int: (int, np.integer), float: (int, float, np.integer, np.floating)}
_DTYPES = {d.name.rstrip("_"): d for d in ALL_DTYPES}
_BY_NAME: dict[str, Operator] = {}
F = TypeVar("F", bound=Callable[..., Any])
NO_DEFAULT = inspect.Parameter.empty


@dataclass(frozen=True)
class Number:
    """A parameter that is a Python number of the class ``kind``."""

    name: str
    kind: type
    default: Any = NO_DEFAULT

    def value(self, operator: str, given: Any) -> Any:
        """``given`` as a number of ``kind``; TypeError where it is none, or would lose something."""
        if not isinstance(given, _TAKEN[self.kind]):
            wanted = f"it must be a number of type {self.kind.__name__}, known when traced"
            raise TypeError(f"{operator}: '{self.name}' is of type {type(given).__name__}; {wanted}")
        return self.kind(given)


@dataclass(frozen=True)
class Rule:
    """A function that gives derivatives, and its parameters, which are names of values: see ``Operator.gradient``."""

    function: Callable[..., Any]
    parameters: tuple[str, ...]

    def __call__(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        found = self.function(**{name: values[name] for name in self.parameters})
        return tuple(found) if isinstance(found, (tuple, list)) else (found,)


class KernelLauncher:
    """The launching function of one kernel. ``axes`` has, for each axis of the grid, the number of an array, an axis of
    that, and the extent of tiles."""

    def __init__(self, kernel: Launchable, axes: Sequence[tuple[int, int, int]], constants: tuple[Any, ...]) -> None:
        self.kernel, self.constants, self._axes = kernel, constants, axes
        self.__doc__ = kernel.__doc__

    def __call__(self, stream: Any, *arrays: Any) -> None:
        launch(stream, self.grid(arrays), self.kernel, arrays + self.constants)

    def grid(self, arrays: Sequence[Any]) -> tuple[int, ...]:
        """The grid for such arrays."""
        return tuple([-(-arrays[i].shape[axis] // tile) for i, axis, tile in self._axes])


class OperatorTypeError(TileTypeError, TypeError):
    """Kernels do not take arrays of these dtypes, in the classes of NumPy and JAX."""


class Operator:
    """A function of arrays that launches kernels, and runs inside of NumPy, PyTorch and JAX programs. See ``op``.

    ``torch_op`` is the operator of PyTorch. Calls with tensors go through it: compilation, export, autograd, ``vmap``,
    autocast and DTensor know it. Calls with JAX arrays bind an FFI call with the same rules.
    """

    def __init__(
        self,
        name: str,
        dims: Dims,
        function: Callable[..., Any],
        parameters: Sequence[inspect.Parameter],
        dtypes: Sequence[str],
        sharded: frozenset[str],
        summed: frozenset[str],
        mutates: frozenset[str],
        autocast: str | None,
        grid: Mapping[str, int],
        declared: Loc,
        module: str,
    ) -> None:
        count, results = len(dims.inputs), len(dims.outputs)
        names = [p.name for p in parameters]
        self.name, self.dims, self.function = name, dims, function
        self.inputs, self.outputs = tuple(names[:count]), tuple(names[count : count + results])
        self.numbers = tuple(_number(name, p) for p in parameters[count + results :])
        self.dtypes, self.sharded, self.summed = tuple(dtypes), sharded, summed
        self.mutates, self.autocast = mutates, autocast
        self.module, self.declared = module, declared
        self.grid = grid  # dimension -> extent of its tiles, for each axis of the grid
        self.backward: Rule | None = None
        self.forward: Rule | None = None
        self.overload: Any = None  # the operator of PyTorch, once it is registered
        self.held: Any = None  # the same with tensors in place of floats, where it has any
        self.traced: Any = None  # what Dynamo traces instead of a call
        self.arity = count + len(self.numbers)
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(n, kind) for n in self.inputs]
            + [inspect.Parameter(n.name, kind, default=n.default, annotation=n.kind) for n in self.numbers]
        )
        self.__name__ = name.partition("::")[2]
        self.__doc__ = function.__doc__
        self._fronts: dict[type, Callable[..., Any]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """As functions are pickled: by the module with the declaration, and the name."""
        return _declared, (self.module, self.name)

    def __repr__(self) -> str:
        return f"<operator {self.name}{self.__signature__}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs, new arrays of the framework of the inputs: one, a tuple, or None where there is none.

        TypeError for arguments that are missing, unknown or of no framework; what is wrong with arrays is an error of
        the class that the framework of the first one uses: RuntimeError in PyTorch, else ValueError and TypeError.
        """
        if kwargs or len(args) != self.arity:
            args = self.bound(args, kwargs)
        front = self._fronts.get(type(args[0]))
        return (front or self._front(args[0]))(*args)

    def bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """All arguments in order. TypeError where some are missing or unknown."""
        try:
            found = self.__signature__.bind(*args, **kwargs)
        except TypeError as e:
            raise TypeError(f"{self.name}{self.__signature__}: {e}") from None
        found.apply_defaults()
        return found.args

    def gradient(self, function: F) -> F:
        """Declares the gradient: a decorator for the backward function, which is returned unchanged.

        Its parameters say what it needs, by name: inputs, outputs, numbers, and ``grad_`` with the name of an output
        for the gradient of that. It returns the gradient of each input, a tuple where there are several, None for one
        that has none. It may call operators and functions of the framework. ValueError for other names.
        """
        self.backward = self._rule(function, "gradient", [f"grad_{n}" for n in self.outputs])
        return function

    def jvp(self, function: F) -> F:
        """Declares the derivative of forward mode: a decorator for a function, which is returned unchanged.

        Its parameters are inputs, outputs, numbers, and ``tangent_`` with the name of an input for the tangent of that,
        which is None where the input has integers. It returns the tangent of each output, a tuple where there are
        several, None for one that does not depend on the tangents, and is linear in them. ValueError for other names.
        """
        self.forward = self._rule(function, "jvp", [f"tangent_{n}" for n in self.inputs])
        return function

    def _rule(self, function: Callable[..., Any], what: str, given: Sequence[str]) -> Rule:
        if self.mutates:
            raise ValueError(
                f"{self.name} changes {min(self.mutates)!r} in place; only functional operators have a {what}"
            )
        allowed = [*self.inputs, *self.outputs, *(n.name for n in self.numbers), *given]
        names = tuple(inspect.signature(function).parameters)
        for name in names:
            if name not in allowed:
                raise ValueError(
                    f"{self.name}: the {what} has the parameter {name!r}; it can have {', '.join(allowed)}"
                )
        self._fronts.clear()
        return Rule(function, names)

    @property
    def torch_op(self) -> Any:
        """The operator of PyTorch, such as ``torch.ops.example.scale.default``; importing torch is up to the caller."""
        register_in_torch(self.name)
        return self.overload

    def input_gradients(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """What the backward function gives for each input. RuntimeError when it gives another number of them."""
        return self._derivatives(self.backward, values, "gradient", "inputs", len(self.inputs))

    def output_tangents(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """What the function of forward mode gives for each output. RuntimeError when it gives another number."""
        return self._derivatives(self.forward, values, "jvp", "outputs", len(self.outputs))

    def _derivatives(
        self, rule: Rule | None, values: Mapping[str, Any], what: str, of: str, count: int
    ) -> tuple[Any, ...]:
        assert rule is not None
        found = rule(values)
        if len(found) != count:
            raise RuntimeError(f"{self.name}: the {what} returned {len(found)} values; the {of} are {count}")
        return found

    def missing_gradient(self) -> str:
        """The message for a backward pass without a backward function."""
        if self.mutates:
            return f"{self.name} changes {min(self.mutates)!r} in place and has no gradient; declare a functional form"
        return f"{self.name} has no gradient; declare it with @{self.__name__}.gradient"

    def missing_jvp(self) -> str:
        """The message for derivatives of forward mode without a function that gives them."""
        return (
            f"{self.name} has no forward-mode derivative, which jvp, jacfwd, hessian and dual tensors ask for; "
            + (f"declare it with @{self.__name__}.jvp, or " if not self.mutates else "")
            + "use reverse mode: vjp, jacrev, or backward()"
        )

    def _front(self, array: Any) -> Callable[..., Any]:
        kind = type(array)
        torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
        if torch is not None and isinstance(array, torch.Tensor):
            found = load("tilewright.ops.torch_operator").front(self)
        elif jax is not None and isinstance(array, (jax.Array, jax.core.Tracer)):
            found = load("tilewright.ops.jax_operator").front(self)
        elif isinstance(array, np.ndarray):
            found = self._numpy
        else:
            raise TypeError(
                f"{self.name}: '{self.inputs[0]}' is of type {kind.__name__}; pass an array of NumPy, PyTorch or JAX"
            )
        self._fronts[kind] = found
        return found

    def _numpy(self, *args: Any) -> Any:
        arrays = args[: len(self.inputs)]
        for name, array in zip(self.inputs, arrays):
            if not isinstance(array, np.ndarray):
                jax = sys.modules.get("jax")
                if jax is not None and isinstance(array, (jax.Array, jax.core.Tracer)):  # it takes those of NumPy, too
                    return self._front(array)(*args)
                raise TypeError(
                    f"{self.name}: '{name}' is of type {type(array).__name__}, but '{self.inputs[0]}' is an array of "
                    "NumPy"
                )
        numbers = tuple(n.value(self.name, given) for n, given in zip(self.numbers, args[len(arrays) :]))
        extents = self.dims.extents(self.name, self.inputs, [a.shape for a in arrays])
        if self.mutates:
            memories = [Memory(a.ctypes.data, a.shape, a.strides, a.itemsize) for a in arrays]
            for message in overlaps(self.name, self.inputs, self.mutates, memories):
                raise ValueError(message)
        dtypes = [array_dtype(d, self.inputs, [a.dtype for a in arrays]) for d in self.dtypes]
        results = [np.empty(shape, dtype) for shape, dtype in zip(self.dims.results(extents), dtypes)]
        if not self.is_idle([a.shape for a in arrays], [a.shape for a in results]):
            try:
                self.compute(None, arrays, results, numbers)
            except TileTypeError as e:
                raise self.refusal(e, arrays, OperatorTypeError) from None
            except (TypeError, ValueError) as e:
                if not raised_on_purpose(e.__traceback__):
                    raise
                raise type(e)(f"{self.name}: {e}") from None
        return tuple(results) if len(results) > 1 else results[0] if results else None

    def is_idle(self, inputs: Sequence[Any], results: Sequence[Any]) -> bool:
        """Whether arrays of these shapes leave nothing to do: all that would be written is empty."""
        changed = [shape for name, shape in zip(self.inputs, inputs) if name in self.mutates]
        return all(0 in shape for shape in (*results, *changed))

    def refusal(self, error: TileTypeError, arrays: Sequence[Any], kind: type[TileTypeError]) -> TileTypeError:
        """``error``, which a kernel raised for these inputs, as one of ``kind`` that names the operator and them."""
        given = ", ".join(f"{name}: {str(a.dtype).removeprefix('torch.')}" for name, a in zip(self.inputs, arrays))
        return kind(f"{self.name}({given}): {error.message}", error.loc)

    def compute(self, stream: Any, inputs: Sequence[Any], results: Sequence[Any], numbers: Sequence[Any]) -> None:
        """Fill ``results``; under the sanitizer, compare what happens with the declaration."""
        if SESSIONS:
            load("tilewright.ops.declaration_check").checked(self, inputs, results, numbers)
        else:
            self.function(stream, *inputs, *results, *numbers)


def _declared(module: str, name: str) -> Operator:
    """The operator ``name`` of a module, which is imported. LookupError where it declares none."""
    load(module)
    found = _BY_NAME.get(name)
    if found is None:
        raise LookupError(f"{module} declares no operator {name}; declare it when the module is imported")
    return found


def array_dtype(declared: str, inputs: Sequence[str], dtypes: Sequence[Any]) -> Any:
    """The dtype of an output in NumPy's terms: that of an input, or one by name."""
    return dtypes[inputs.index(declared)] if declared in inputs else _DTYPES[declared].storage


def register_in_torch(name: str) -> None:
    """Let PyTorch know the operator ``name``, whose ``overload`` is then the operator of PyTorch."""
    load("tilewright.ops.torch_operator").register(_BY_NAME[name])


# Dynamo, which traces calls in compiled functions, calls the one and traces the other instead of ``__call__``.
register_in_torch._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _traced_call(self: Operator, *args: Any, **kwargs: Any) -> Any:
    register_in_torch(self.name)
    return self.traced(self, args, kwargs)


Operator.__call__._torchdynamo_inline = _traced_call  # type: ignore[attr-defined]


def op(
    name: str,
    dims: str,
    *,
    kernel: Launchable | None = None,
    grid: Mapping[str, int] | None = None,
    constants: Sequence[Any] = (),
    dtypes: str | Sequence[str] | None = None,
    sharded: str | Sequence[str] = "",
    summed: str | Sequence[str] = "",
    mutates: str | Sequence[str] = "",
    autocast: str | None = None,
) -> Any:
    """Declares an operator: a function of arrays, computed by launches, for NumPy, PyTorch and JAX.

    ``name`` is ``"namespace::name"``. ``dims`` names the dimensions of the input arrays and, after ``->``, of the
    outputs: ``"m k, k n -> m n"``. This is a decorator for the launching function, whose parameters are the stream,
    the inputs, the outputs, which are allocated for it, and numbers annotated ``int``, ``float`` or ``bool``. It calls
    ``ct.launch`` with that stream, and does nothing else to the arrays: to compile, it is called with arrays that have
    a shape, strides and a dtype only.

    With ``kernel`` and ``grid`` there is no such function, and the operator is returned: ``grid`` maps a dimension to
    the extent of its tiles, one for each axis of the grid, and the kernel takes the inputs, the outputs and the
    ``constants``.

    ``dtypes`` are those of the outputs, each that of an input by its name, or by its own name; without, all have that
    of the first input. ``sharded`` lists the dimensions whose parts are independent of each other (with ``grid``, its
    dimensions are): arrays may be split along them over devices, and ``vmap`` makes use of them. When inputs are split
    along one in ``summed``, the outputs are partial sums. All other dimensions stay whole. ``mutates`` lists inputs
    that are changed in place; JAX gets them as further outputs. ``autocast`` is ``"lower"`` or ``"float32"``: what
    floating inputs become where PyTorch's autocast is on.

    ValueError and TypeError for declarations that contradict themselves.

    >>> @ct.kernel
    ... def double(x, out, TILE: ct.Constant[int]):
    ...     ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,)) * 2)
    >>> doubled = ct.op("example::doubled", "n -> n", kernel=double, grid={"n": 256}, constants=(256,))
    >>> doubled(np.arange(4, dtype=np.float32))
    array([0., 2., 4., 6.], dtype=float32)
    """
    parsed, given, total = _declared_dims(name, dims, sharded, summed, autocast)
    frame = sys._getframe(1)
    declared = Loc(frame.f_code.co_filename, frame.f_lineno, function=frame.f_code.co_name)
    module = frame.f_globals.get("__name__", "__main__")

    def declare(function: Any, parameters: Sequence[inspect.Parameter], split: frozenset[str]) -> Operator:
        inputs = [p.name for p in parameters[: len(parsed.inputs)]]
        chosen = _dtypes(name, dtypes, inputs, len(parsed.outputs))
        options = chosen, split, total, _names(name, "mutates", mutates, set(inputs)), autocast, dict(grid or {})
        made = _BY_NAME[name] = Operator(name, parsed, function, parameters, *options, declared, module)
        return made

    if kernel is not None:
        parameters, function = _kernel_launcher(name, parsed, kernel, grid, tuple(constants))
        return declare(function, parameters, given | frozenset(grid or ()))
    if grid is not None or constants:
        raise ValueError(f"{name}: grid and constants describe a kernel; the launching function has its own")

    return lambda function: declare(function, _launching_parameters(name, parsed, function), given)


def _launching_parameters(name: str, dims: Dims, function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a launching function, but for the stream. TypeError where there are too few."""
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    least = 1 + len(dims.inputs) + len(dims.outputs)
    if len(parameters) < least:
        raise TypeError(
            f"{name}: {getattr(function, '__name__', function)}() has {len(parameters)} parameters, but the "
            f"stream, {len(dims.inputs)} inputs and {len(dims.outputs)} outputs are {least}"
        )
    return parameters[1:]


def _declared_dims(
    name: str, dims: str, sharded: str | Sequence[str], summed: str | Sequence[str], autocast: str | None
) -> tuple[Dims, frozenset[str], frozenset[str]]:
    """The dimensions of an operator: all, those that are sharded, and those that are summed. ValueError where they or
    the name contradict what ``op`` says."""
    if not re.fullmatch(r"[A-Za-z_]\w*::[A-Za-z_]\w*", name, re.ASCII):
        raise ValueError(f"{name!r} is no name of an operator; write 'namespace::name'")
    if autocast not in (None, "lower", "float32"):
        raise ValueError(f"{name}: autocast is {autocast!r}; it can be 'lower' or 'float32'")
    parsed = Dims.parse(dims, name)
    given = _names(name, "sharded", sharded, parsed.names())
    total = _names(name, "summed", summed, parsed.names())
    if given & total:
        raise ValueError(f"{name}: the dimension {min(given & total)!r} is both sharded and summed")
    for shape in parsed.outputs:
        if total & set(shape):
            raise ValueError(f"{name}: an output has the dimension {min(total & set(shape))!r}, which is summed")
    return parsed, given, total


def _kernel_launcher(
    name: str, dims: Dims, kernel: Launchable, grid: Mapping[str, int] | None, constants: tuple[Any, ...]
) -> tuple[list[inspect.Parameter], KernelLauncher]:
    """The launching function for ``kernel``, and its parameters but for the stream."""
    if not isinstance(kernel, Launchable):
        raise TypeError(f"{name}: kernel is {kernel!r}; decorate it with @ct.kernel")
    if not grid or len(grid) > 3:
        raise ValueError(f"{name}: grid is {grid!r}; it maps one to three dimensions to the extents of their tiles")
    arrays = len(dims.inputs) + len(dims.outputs)
    names = [ref.argument for ref, _ in kernel.parameters]
    if len(names) != arrays + len(constants):
        raise TypeError(
            f"{name}: {kernel.name}() has {len(names)} parameters, but {len(dims.inputs)} inputs, {len(dims.outputs)} "
            f"outputs and {len(constants)} constants are declared"
        )
    axes = tuple((*_axis(name, dims, dim), tile) for dim, tile in grid.items())
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [inspect.Parameter(n, kind) for n in names[:arrays]], KernelLauncher(kernel, axes, constants)


def _axis(name: str, dims: Dims, dim: str) -> tuple[int, int]:
    """An array, and its axis, that has the dimension ``dim``."""
    for i, shape in enumerate((*dims.inputs, *dims.outputs)):
        if dim in shape:
            return i, shape.index(dim)
    raise ValueError(f"{name}: no array has the dimension {dim!r} of the grid")


def _names(name: str, option: str, given: str | Sequence[str], known: set[str]) -> frozenset[str]:
    found = frozenset(given.split() if isinstance(given, str) else given)
    if found - known:
        raise ValueError(f"{name}: {option} has {min(found - known)!r}, which is none of {', '.join(sorted(known))}")
    return found


def _dtypes(name: str, given: str | Sequence[str] | None, inputs: Sequence[str], count: int) -> list[str]:
    found = [inputs[0]] * count if given is None else given.split() if isinstance(given, str) else list(given)
    if len(found) != count:
        raise ValueError(f"{name}: dtypes has {len(found)} entries for {count} outputs")
    for dtype in found:
        if dtype not in inputs and dtype not in _DTYPES:
            raise ValueError(f"{name}: {dtype!r} is neither an input nor a dtype")
    return found


def _number(name: str, parameter: inspect.Parameter) -> Number:
    if parameter.annotation not in _NUMBERS:
        raise TypeError(f"{name}: the parameter {parameter.name!r} is a number; annotate it int, float or bool")
    default, kind = parameter.default, parameter.annotation
    if default is not NO_DEFAULT and not isinstance(default, (int, float) if kind is float else kind):
        raise TypeError(f"{name}: the default of {parameter.name!r} is {default!r}, which is no {kind.__name__}")
    return Number(parameter.name, kind, default)
