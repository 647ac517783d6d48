"""A compiled kernel in this process, and its launch."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.backends import native
from tilewright.backends.base import Work
from tilewright.backends.cpu import on_demand, openmp, threads
from tilewright.backends.cpu.compiled import (
    BLOCK_SYMBOL,
    CALLER_SYMBOL,
    SERIAL_SYMBOL,
    SYMBOL,
    TEAM_SYMBOL,
    WATCH_SYMBOL,
    CompiledKernel,
    PollLocation,
    poll_locations,
)
from tilewright.backends.cpu.context import (
    PYTHON_FUNCTIONS,
    WORKER_BYTES,
    WORTH_A_POOL,
    WORTH_A_TEAM,
    Cancellation,
    Field,
    Python,
    Worker,
    block_index,
    blocks_alone,
    blocks_together,
    launch_record,
)
from tilewright.backends.cpu.exclusion import EXCLUSION
from tilewright.backends.cpu.options import Options
from tilewright.backends.cpu.parallel import BlockLocations, Context, ParallelLaunch
from tilewright.backends.launch_arguments import LaunchArguments, ListTable
from tilewright.backends.native import code
from tilewright.backends.native.image import Image, LoadedImage
from tilewright.ir.core import Function
from tilewright.ir.errors import TileError
from tilewright.ir.formatting import failure
from tilewright.ir.types import TileType
from tilewright.system import deadlines
from tilewright.system.environment import number_of_threads, switch
from tilewright.system.stack import require_stack

_MAX_ALONE = 1 << 20  # blocks, whatever they take
_ENTRY = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)
_CALLER = ctypes.PYFUNCTYPE(None, *[ctypes.c_void_p] * 4)  # comes with Python's lock, and may raise
_LOOK = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 2)
# Without what describes a failure, which is not used.
_CONTEXT = struct.Struct(f"={Field.FAILED_ELEMENT}q")
_PYTHON = (ctypes.c_void_p * len(Python))(
    *(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in PYTHON_FUNCTIONS), EXCLUSION
)
PYTHON = ctypes.addressof(_PYTHON)
_WORKER = ctypes.c_int64 * len(Worker)


class CpuExecutable:
    """Machine code of one kernel."""

    def __init__(
        self,
        function: Function,
        compiled: CompiledKernel,
        options: Options,
        polls: Sequence[PollLocation] | None = None,
    ) -> None:
        """``polls``: those of the code, by number, unless it comes from the disk cache."""
        self.compiled = compiled
        self._lowered: Any = None
        self._polls = polls
        self._options = Options() if compiled.may_spin else options
        self._function = function
        code = compiled.code
        self._native: Any
        if isinstance(code, Image):
            self._native = LoadedImage(code)
            if switch("TILEWRIGHT_PERF_MAP"):
                on_demand.module("perf_map").note(function, self._native)
        else:
            self._native = on_demand.module("jit").load(code, on_demand.host())
            if switch("TILEWRIGHT_PERF_MAP"):
                on_demand.module("jitdump").note(function, code, SYMBOL, self._native.address(SYMBOL))
        self._entry = self._function_at(SYMBOL, _ENTRY)
        self._caller = self._function_at(CALLER_SYMBOL, _CALLER)
        self._alone = self._function_at(SERIAL_SYMBOL, _CALLER)
        self._look = self._function_at(WATCH_SYMBOL, _LOOK) if compiled.may_spin else None
        self._team_code = self._native.address(TEAM_SYMBOL)
        self._waiting_threads = 0  # that a launch has needed whose blocks wait for each other
        self._block_seconds = 0.0  # that a block has taken lately; 0 before the first launch
        self._team_ready = ctypes.c_int64(0)  # whether machine code may have a team run a launch: see ``context.Team``
        # So many blocks are never worth a thread.
        self._blocks_alone = ctypes.c_int64(blocks_alone(compiled.block_work))
        self._pack = struct.Struct("=" + "".join(_format(a.tile) for a in function.body.args)).pack
        self._scratch_bytes = compiled.scratch_bytes
        # Whether a launch may go without a record that others see: no block prints, fails or waits.
        self._simple = not (compiled.may_print or compiled.may_fail or compiled.may_spin)
        self._print = on_demand.module("printing").printer(self.lowered().sites) if compiled.may_print else None
        self._print_address = ctypes.cast(self._print, ctypes.c_void_p).value or 0 if self._print else 0

    def lowered(self) -> Any:
        """What the machine code is made of, made again: the ``sites`` and ``polls`` that it knows by numbers."""
        if self._lowered is None:
            require_stack()
            self._lowered = on_demand.module("inspection").lowered(self._function)
        return self._lowered

    @property
    def _locations(self) -> BlockLocations:
        return BlockLocations(self._poll_locations, self._function.loc, lambda: self.lowered().axes)

    def _poll_locations(self) -> Sequence[PollLocation]:
        if self._polls is None:
            self._polls = poll_locations(self.lowered().polls)
        return self._polls

    def _function_at(self, symbol: str, kind: Callable[[int], Any]) -> Any:
        function = kind(self._native.address(symbol))
        setattr(function, "code", self._native)  # noqa: B010  what can be called keeps its machine code alive
        return function

    def line_at(self, address: int) -> int | None:
        """The line of the source, if ``address`` is of this code and it is known."""
        if not isinstance(self._native, LoadedImage):
            return None
        inside = any(start <= address < start + size for _, start, size in self._native.symbol_ranges())
        if not inside:
            return None
        offset = address - self._native.address(BLOCK_SYMBOL)
        found: int | None = on_demand.module("inspection").source_line(self._function, offset)
        return found

    def launch(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> None:
        """Run every block of ``grid``. A failed ``assert`` keeps further blocks from starting, and raises TileError;
        so do blocks that wait for each other for ever. What a signal handler raises ends all blocks, and is raised, and
        so does the time limit of the thread, with TimeoutError."""
        x, y, z = grid
        total = x * y * z
        if total == 0:
            return
        packed = self._pack(*arguments.values)
        if self._simple and total <= self._blocks_alone.value:
            self._run_alone(grid, total, packed)
        else:
            self._run(grid, total, self._thread_count(total), packed)

    def _run_alone(self, grid: tuple[int, int, int], total: int, packed: bytes) -> None:
        """Run all blocks in this thread."""
        memory, limit = threads.take_scratch(self._scratch_bytes), deadlines.deadline()
        try:
            # ``launch_record`` without a call, for short launches
            _CONTEXT.pack_into(memory.memory, memory.offset, 0, total, 1, *grid, 0, 0, 0, 0, limit, PYTHON)
            self._alone(packed, memory.context, memory.address, memory.worker)
            if limit and Context.from_address(memory.context)[Field.CANCELLED]:
                raise deadlines.LaunchTimeout
        except BaseException as e:
            self._note(e, memory.worker, 1, *grid)
            raise
        finally:
            threads.give_scratch(memory)

    def launch_stub(
        self, device: int, tables: Sequence[ListTable], variants: Mapping[Any, Any]
    ) -> native.LaunchStub | None:
        """How machine code runs the launches that are too short for several threads, or that a team takes part in; None
        where a block may print, fail or wait."""
        if not self._simple:
            return None
        stubs, teams = map(on_demand.module, ("launch_stub", "team_stub"))
        code, python = self._native.address(SERIAL_SYMBOL), PYTHON
        records = {} if self._options.threads else self._team_records(teams)
        if records:
            self._blocks_alone.value = blocks_alone(self.compiled.block_work)  # more may have been learned without it
        given = self._scratch_bytes, python, self._note, records, self._native
        made: native.LaunchStub = stubs.launch_stub(code, self._blocks_alone, *given)
        return made

    def _team_records(self, stubs: Any) -> dict[bool, Any]:
        """For launches in machine code: of our own team, and with True of that of the program, as far as there are."""
        wanted, theirs = threads.thread_count(), openmp.of_program()
        # Beside a team of the program ours is needed as soon as that sleeps; else it may be known later.
        found = {False: openmp.own_runtime(wanted, repeats=theirs is not None)}
        if theirs is not None:
            openmp.find_members(theirs, theirs.threads())
            found[True] = self._suitable((theirs, theirs.threads()), wanted, wanted)
        given = self._team_code, self._team_ready, self._scratch_bytes, PYTHON, self._options.chunk or 0
        return {k: stubs.team_record(t, *given) for k, t in found.items() if t and stubs.is_machine_code(t[0])}

    def _note(self, error: BaseException, records: int, count: int, x: int, y: int, z: int) -> None:
        """Note where a launch was that ``error`` has cancelled: the ``count`` threads whose records are there."""
        words = [_WORKER.from_address(records + k * WORKER_BYTES) for k in range(count)]
        self._locations.note(error, (x, y, z), [(w[Worker.POLL], w[Worker.BLOCK]) for w in words])

    def embedded(self, name: str, grid: tuple[int, int, int]) -> native.Embedded:
        """How machine code runs a launch without Python. ValueError for blocks that wait for each other: they need
        threads of their own."""
        if self.compiled.may_spin:
            raise ValueError("its blocks wait for each other, which needs more threads than another program may lend")
        address, compiled = self._native.address(SYMBOL), self.compiled
        given = self._scratch_bytes, compiled.block_work, self._print_address, PYTHON
        embedded = on_demand.module("embedded").embedded
        made: native.Embedded = embedded(name, address, *given, ranges=self._simple)
        sites = self.lowered().sites if compiled.may_fail else ()
        messages = tuple(f"{op.loc}: {getattr(op, 'message', '') or 'it is false'}" for op in sites)
        return made._replace(messages=messages, kept=(self,))

    def bind(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> Callable[[], None]:
        """``launch`` with everything prepared that stays the same."""
        run = functools.partial(self.launch, grid, arguments)
        if native.available():
            with contextlib.suppress(native.NotCompiled):
                stub = self.launch_stub(0, (), {})
                if stub is not None:
                    return code.bound(stub, self._pack(*arguments.values), grid, 0, run)
        return run

    def _run(self, grid: tuple[int, int, int], total: int, count: int, packed: bytes) -> None:
        """Run ``total`` blocks in ``count`` threads, or alone where a block may fail."""
        team = self._team() if count > 1 else None
        taken, worth = self._block_seconds * total, WORTH_A_TEAM if team else WORTH_A_POOL
        if self._simple and (count == 1 or 0 < taken < worth):
            before = time.perf_counter()
            self._run_alone(grid, total, packed)
            self._learn(time.perf_counter() - before, total)
            return
        if team:
            self._run_team(*team, grid, total, packed)
            return
        count = max(count, min(total, self._waiting_threads))
        chunk, limit = self._chunk(total, count), deadlines.deadline()
        context = Context(*launch_record(total, chunk, grid, 0, printer=self._print_address, python=PYTHON))
        context[Field.DEADLINE] = limit
        launch = ParallelLaunch(
            self._locations, grid, packed, context, count, self._scratch_bytes, ranges=self._simple, look=self._look
        )
        work = functools.partial(launch.work, self._entry)

        def own() -> None:
            self._learn_from(launch.work(self._caller))

        try:
            if self.compiled.may_spin or self._print:
                # Python handles signals in this thread, which must not be in the middle of a block that prints.
                threads.POOL.supervise(work, count, launch.watch if self._look else None, launch.cancel)
                self._waiting_threads = max(self._waiting_threads, len(launch.records) if self._look else 0)
            elif count == 1:
                own()
            else:
                threads.POOL.run(work, count, own, launch.cancel)
            self._check(context, grid)
        except TileError:  # which says what happened where
            raise
        except BaseException as e:
            launch.explain(e)
            raise

    def _run_team(
        self, runtime: openmp.Runtime, size: int, grid: tuple[int, int, int], total: int, packed: bytes
    ) -> None:
        """Run ``total`` blocks in the ``size`` threads of ``runtime``."""
        count, limit = min(total, size), deadlines.deadline()
        shared = on_demand.module("team").TeamMemory.of(count, self._scratch_bytes, self._simple)
        memory = shared.take()
        try:
            chunk = self._chunk(total, count)
            _CONTEXT.pack_into(memory.memory, memory.offset, 0, total, chunk, *grid, 0, 0, 0, 0, limit, PYTHON)
            before = time.monotonic_ns()
            shared.run(memory, runtime, self._team_code, packed)
            taken = time.monotonic_ns() - before
            own, blocks = self._learn_from(_WORKER.from_address(memory.worker))
            self._team_ready.value = 1
            openmp.note_use(runtime, own, taken * 1e-9 - own - own * chunk / max(blocks, 1))
            self._check(Context.from_address(memory.context), grid)
        except TileError:  # which says what happened where
            raise
        except BaseException as e:
            self._note(e, memory.worker, count, *grid)
            raise
        finally:
            threads.give_scratch(memory)

    def _team(self) -> tuple[openmp.Runtime, int] | None:
        """A runtime whose threads may share the blocks, and their number: that which the user wants, or at least half
        as many as there are cores, but no more than affinity and the limit of a container allow."""
        limit, most = self._options.threads, threads.thread_count()
        wanted = min(most, limit or most)
        found = None if self.compiled.may_spin or self._print else openmp.runtime(wanted)
        return self._suitable(found, wanted, most)

    def _suitable(
        self, found: tuple[openmp.Runtime, int] | None, wanted: int, most: int
    ) -> tuple[openmp.Runtime, int] | None:
        """``found`` where its number of threads will do for a launch by ``wanted``, of at ``most`` so many."""
        if found is None or found[1] == wanted:
            return found
        free = self._options.threads is None and number_of_threads() is None
        return found if free and 1 < found[1] <= most <= 2 * found[1] else None

    def _chunk(self, total: int, count: int) -> int:
        """How many blocks a thread takes at a time."""
        return self._options.chunk or (1 if self.compiled.may_spin else blocks_together(total, count))

    def _learn_from(self, words: ctypes.Array[ctypes.c_int64]) -> tuple[float, int]:
        """``_learn`` from the record of the launching thread; the seconds of its blocks, and their number."""
        own, blocks = (words[Worker.LEFT] - words[Worker.BEGAN]) * 1e-9, words[Worker.BLOCKS]
        self._learn(own, blocks)
        return own, blocks

    def _learn(self, seconds: float, blocks: int) -> None:
        """Note what ``blocks`` have taken. More than before may be the noise of the system, and counts for less."""
        if blocks:
            change = seconds / blocks - self._block_seconds
            self._block_seconds += change if change < 0 or not self._block_seconds else change / 4
            if self.compiled.block_work is not None and self._block_seconds > 0:  # all blocks do the same, always
                worth = WORTH_A_TEAM if openmp.expected() else WORTH_A_POOL
                blocks = min(int(worth / self._block_seconds), _MAX_ALONE)
                self._blocks_alone.value = max(self._blocks_alone.value, blocks)

    def _thread_count(self, blocks: int) -> int:
        if blocks <= self._blocks_alone.value:
            return 1
        wanted = threads.thread_count()
        return min(blocks, wanted, self._options.threads or wanted)

    def _check(self, context: ctypes.Array[ctypes.c_int64], grid: tuple[int, int, int]) -> None:
        """Raise what ended a launch before its end."""
        if context[Field.FAILED]:
            raise self._failure(context, grid)
        if context[Field.CANCELLED] == Cancellation.TIMED_OUT:
            raise deadlines.LaunchTimeout

    def _failure(self, context: ctypes.Array[ctypes.c_int64], grid: tuple[int, int, int]) -> TileError:
        op, block = self.lowered().sites[context[Field.FAILED] - 1], context[Field.FAILED_BLOCK]
        index = block_index(block, grid, self.lowered().axes)
        types = [value.tile for value in op.values]
        words = context[Field.FAILED_VALUE : Field.FAILED_VALUE + len(types)]
        values = [w if t.element.is_signed or w >= 0 else w + (1 << 64) for w, t in zip(words, types)]
        text = failure(op.message, op.condition.tile.shape, context[Field.FAILED_ELEMENT], values)
        return TileError(f"{text}, in block {index}", op.loc)

    def work(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> Work:
        """From the loop nests and how often they run. ValueError when that is not known before."""
        found: Work = on_demand.module("inspection").work(self._function, grid, arguments.values)
        return found

    def stages(self) -> Mapping[str, str]:
        """Tile IR after the passes, its loop nests, LLVM IR as generated and as optimized, assembly, and sizes."""
        texts: Mapping[str, str] = on_demand.module("inspection").stages(self._function, self.compiled)
        return texts


def _format(t: TileType) -> str:
    """The struct code of one argument: 8 bytes each."""
    if t.is_pointer:
        return "Q"
    if t.element.is_floating:
        return "d"
    return "q" if t.element.is_signed else "Q"
