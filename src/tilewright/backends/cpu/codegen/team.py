"""A launch by the team of threads of another runtime: what each of them calls."""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.cpu.codegen import records
from tilewright.backends.cpu.codegen.lanes import POINTER
from tilewright.backends.cpu.compiled import CALLER_SYMBOL, SYMBOL, TEAM_SYMBOL
from tilewright.backends.cpu.context import WORKER_BYTES, Team
from tilewright.backends.vector.types import I32, I64


def emit(module: ir.Module) -> None:
    """``kernel_team(record)``, which each thread of the team calls, with a record as ``context.Team`` describes.

    Thread 0 is the launching one, and has Python's lock.
    """
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER]), TEAM_SYMBOL)
    builder = ir.IRBuilder(function.append_basic_block("entry"))

    def field(which: Team) -> ir.Value:
        return records.load(builder, function.args[0], which)

    def pointer(address: ir.Value) -> ir.Value:
        return builder.inttoptr(address, POINTER)

    number_of = builder.inttoptr(field(Team.NUMBER), ir.PointerType(ir.FunctionType(I32, [])))
    number = builder.sext(builder.call(number_of, []), I64)
    worker = builder.add(field(Team.RECORDS), builder.mul(number, ir.Constant(I64, WORKER_BYTES)))
    scratch = builder.add(field(Team.SCRATCH), builder.mul(number, field(Team.STRIDE)))
    arguments = [*map(pointer, (field(Team.VALUES), field(Team.CONTEXT), scratch, worker))]
    caller, helper, work, done = map(builder.append_basic_block, ("caller", "helper", "work", "done"))
    builder.cbranch(builder.icmp_signed("==", number, ir.Constant(I64, 0)), caller, helper)
    builder.position_at_end(caller)
    builder.call(module.globals[CALLER_SYMBOL], arguments)
    builder.branch(done)
    builder.position_at_end(helper)
    builder.cbranch(builder.icmp_signed("<", number, field(Team.COUNT)), work, done)
    builder.position_at_end(work)
    builder.call(module.globals[SYMBOL], arguments)
    builder.branch(done)
    builder.position_at_end(done)
    builder.ret_void()
