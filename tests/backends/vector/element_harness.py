"""Compiles one elementwise op to a loop over arrays, so that tests can run it on many values at once."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from tilewright.backends.native.text_builder import text_of
from tilewright.backends.vector import HostFeatures, VectorEmitter
from tilewright.ir.dtypes import DType

HOST = HostFeatures.of(llvm.get_process_triple(), llvm.get_host_cpu_features())
PORTABLE = HostFeatures()
LANES = (16, None)


def target_machine(portable: bool) -> llvm.TargetMachine:
    """Code generation for this machine, or for the oldest one of its architecture; a backend takes it with it."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    if portable:
        return target.create_target_machine(opt=2, jit=True)
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=2, jit=True)


def build_module(
    name: str,
    dtypes: Sequence[DType],
    result: DType,
    attrs: Mapping[str, Any],
    lanes: int | None,
    features: HostFeatures,
) -> ir.Module:
    """A module whose function ``run(count, out, in...)`` applies the op to ``count`` vectors."""
    module = ir.Module("element")
    module.triple = llvm.get_process_triple()
    i64 = ir.IntType(64)
    layout = [VectorEmitter(ir.IRBuilder(), lanes, features).storage_type(t) for t in (result, *dtypes)]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [i64] + [t.as_pointer() for t in layout]), "run")
    entry, body, done = (function.append_basic_block(label) for label in ("entry", "body", "done"))
    builder = ir.IRBuilder(entry)
    builder.branch(body)
    builder.position_at_end(body)
    index = builder.phi(i64)
    emitter = VectorEmitter(builder, lanes, features)
    operands = []
    for dtype, type_, pointer in zip(dtypes, layout[1:], function.args[2:]):
        stored = builder.load(builder.gep(pointer, [index], source_etype=type_), align=1, typ=type_)
        operands.append(emitter.to_register(dtype, stored))
    value = emitter.emit(name, dtypes[-1], operands, attrs, result)
    assert value.type == emitter.register_type(result)
    target = builder.gep(function.args[1], [index], source_etype=layout[0])
    builder.store(emitter.to_storage(result, value), target, align=1)
    assert builder.block is body, "emission must not split the block"
    following = builder.add(index, ir.Constant(i64, 1))
    index.add_incoming(ir.Constant(i64, 0), entry)
    index.add_incoming(following, body)
    builder.cbranch(builder.icmp_unsigned("<", following, function.args[0]), body, done)
    ir.IRBuilder(done).ret_void()
    return module


class ElementFunction:
    """A compiled op on arrays of the dtypes' storage."""

    def __init__(
        self,
        name: str,
        dtypes: Sequence[DType],
        result: DType,
        attrs: Mapping[str, Any],
        lanes: int | None,
        features: HostFeatures,
    ) -> None:
        self._lanes = lanes or 1
        self._dtypes, self._result = dtypes, result
        text = text_of(build_module(name, dtypes, result, attrs, lanes, features))
        parsed = llvm.parse_assembly(text)
        parsed.verify()
        machine = target_machine(features == PORTABLE)
        passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
        passes.getModulePassManager().run(parsed, passes)
        self._engine = llvm.create_mcjit_compiler(parsed, machine)
        self._engine.finalize_object()
        signature = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (len(dtypes) + 1))
        self._run = signature(self._engine.get_function_address("run"))

    def __call__(self, *arrays: Any) -> np.ndarray[Any, Any]:
        """The op on every element; arrays broadcast and need not fill whole vectors."""
        inputs = [np.asarray(a).astype(t.storage, copy=False) for a, t in zip(arrays, self._dtypes)]
        shape = np.broadcast_shapes(*(a.shape for a in inputs))
        size = int(np.prod(shape))
        count = -(-size // self._lanes)
        padded = []
        for a in inputs:
            buffer = np.zeros(count * self._lanes, a.dtype)
            buffer[:size] = np.broadcast_to(a, shape).ravel()
            padded.append(buffer)
        out = np.zeros(count * self._lanes, self._result.storage)
        if count:
            self._run(count, out.ctypes.data, *(a.ctypes.data for a in padded))
        return out[:size].reshape(shape)


@functools.lru_cache(maxsize=16)
def _compiled(*key: Any) -> ElementFunction:
    name, dtypes, result, attrs, lanes, features = key
    return ElementFunction(name, dtypes, result, dict(attrs), lanes, features)


def element_function(
    name: str,
    *dtypes: DType,
    result: DType | None = None,
    lanes: int | None = 16,
    features: HostFeatures = HOST,
    **attrs: Any,
) -> ElementFunction:
    """The op ``name`` on operands of ``dtypes``; the result has the last of these unless given."""
    return _compiled(name, dtypes, result or dtypes[-1], tuple(attrs.items()), lanes, features)
