"""The backend ``python``: runs the source of a kernel as Python, block by block, for debuggers and coverage."""

from __future__ import annotations

import inspect
import itertools
import platform
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

from tilewright.backends.base import Backend, Capabilities, Executable
from tilewright.backends.launch_arguments import LaunchArguments
from tilewright.backends.reference.memory import Memory
from tilewright.eager.blocks import Body, run
from tilewright.eager.builder import Index
from tilewright.eager.objects import wrap
from tilewright.eager.rewrite import Program
from tilewright.eager.session import EagerContext, known_arguments, running
from tilewright.frontend.python.compile import argument, parameter_names, trace
from tilewright.frontend.python.joins import Joins
from tilewright.frontend.python.source import source_of
from tilewright.frontend.signature import Signature
from tilewright.ir.core import Function
from tilewright.ir.errors import TileError, TileTypeError, TileUnsupportedFeatureError


class DebugDriver:
    """Decides which blocks of a launch run, and calls the kernel in each. Debuggers derive from it."""

    def blocks(self, function: types.FunctionType, grid: Index) -> Iterable[Index]:
        """The blocks of ``grid`` to run, in order: the first axis fastest."""
        return ((x, y, z) for z, y, x in itertools.product(*map(range, reversed(grid))))

    def call(self, function: types.FunctionType, code: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Run ``code``, which is ``function`` made to run as Python."""
        return code(*arguments)


_driver: ContextVar[DebugDriver] = ContextVar("driver", default=DebugDriver())  # noqa: B039 - it has no state


@contextmanager
def debugged_by(driver: DebugDriver) -> Iterator[None]:
    """A context in which, in this thread, the backend runs kernels as ``driver`` says."""
    token = _driver.set(driver)
    try:
        yield
    finally:
        _driver.reset(token)


class PythonExecutable(Executable):
    """The source of a kernel, for arguments of one signature."""

    def __init__(self, function: types.FunctionType, signature: Signature, joins: Joins | None) -> None:
        self._function = function
        self._program = Program(joins)
        self._signature = signature
        self._names = parameter_names(source_of(function.__code__))

    def launch(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> None:
        """Run the blocks of ``grid``, the first axis fastest. TileError as on the reference backend."""
        memory, driver = Memory(arguments.buffers), _driver.get()
        blocks = driver.blocks(self._function, grid)
        run(((index, self._block(index, grid, memory, arguments, driver)) for index in blocks), memory)

    def _block(
        self, index: Index, grid: Index, memory: Memory, arguments: LaunchArguments, driver: DebugDriver
    ) -> Body:
        def body(pause: Any) -> None:
            tracer = EagerContext(index, grid, memory, pause)
            with running(tracer):
                values = self._arguments(tracer, arguments)
                the_kernel_is_called_here = self._program.kernel(self._function)  # see places.KERNEL_CALL
                try:
                    result = driver.call(self._function, the_kernel_is_called_here, values)
                    if result is not None:
                        raise TileTypeError("a kernel cannot return a value; store results with ct.store")
                except TileError as e:
                    e.message = f"{e.message}, in block {index}"
                    raise

        return body

    def _arguments(self, tracer: EagerContext, arguments: LaunchArguments) -> tuple[Any, ...]:
        memory, numbers = tracer.memory, iter(arguments.values)

        def allocation(name: str, address: int) -> int:
            return int(memory.pointer(name, address).allocation)

        found = []
        for name, spec in zip(self._names, self._signature.arguments):
            known = known_arguments(name, spec, numbers, allocation)
            found.append(wrap(argument(tracer.builder, name, spec, known)))
        return tuple(found)

    def stages(self) -> Mapping[str, str]:
        return {"Python": inspect.getsource(self._function)}


class PythonBackend(Backend):
    """Runs Python kernels without compiling them. Nothing is cached."""

    name = "python"
    device = "cpu"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(run_source=self._load)

    def target(self) -> str:
        return f"python-{platform.python_version()}"

    def _load(self, function: types.FunctionType, signature: Signature) -> PythonExecutable:
        joins: Joins | None = Joins()
        try:
            trace(function, signature, {}, joins=joins)
        except TileError:  # it cannot be compiled: Python says what it means, or what is wrong with it
            joins = None
        return PythonExecutable(function, signature, joins)

    def compile(self, function: Function, options: Mapping[str, Any], variant: Any = None) -> NoReturn:
        raise TileUnsupportedFeatureError(
            f"the backend 'python' steps through Python source, which {function.name}() does not have; use another one",
            function.loc,
        )


BACKEND: Backend = PythonBackend()
