"""What SIMT code cannot use, as nvcc says, though the functions and variables of a CPU are at hand: it is refused."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from tilewright.frontend.cpp.llvm_instruction import debug_of, instruction
from tilewright.frontend.cpp.llvm_module import Definition, Variable, called_from, parts_of
from tilewright.frontend.cpp.locations import Locations
from tilewright.frontend.cpp.names import source_name
from tilewright.frontend.cpp.spaces import DEVICES, Source
from tilewright.ir.errors import TileUnsupportedFeatureError
from tilewright.ir.location import Loc
from tilewright.ir.reachable import reachable

_ALLOCATES = re.compile(r"_Zn[wa]")
_OF_THE_LIBRARY = re.compile(r"_ZN?K?St(?:3__1)?(?!\d__)\d")  # but for its own helpers with short names
_NO_OBJECT = re.compile(r"_ZNK?St3__1(?:8function|3any)")  # which devices do not have, though they may need no memory
_OF_C = re.compile(
    r"(?:v?s?n?|v?f)printf|f(?:open|close|read|write|flush|puts|putc|gets|scanf|seek|tell)|s?scanf|getenv|system|_?exit|"
    r"s?rand|rand_r|random|time|u?sleep|getpid|pthread_\w+|ato[fil]l?|strto\w+"
)
_PRINTF = {"printf", "vprintf"}
_MARKS = {  # what our headers leave of constructs that libraries have in functions that no kernel leads to
    "__tw_no_assembly": "inline assembly, which is not available in SIMT code on a CPU; write it in C++",
    **dict.fromkeys(
        (f"__is{space}" for space in ("Global", "Shared", "ClusterShared", "Local", "Constant", "GridConstant")),
        "the space of an address, of which a CPU has one; pass what kind a pointer is",
    ),
    **dict.fromkeys(
        ("__barrier_sync", "__barrier_sync_count"),
        "a barrier of a part of a block, which is not available in SIMT code on a CPU; call __syncthreads",
    ),
}
_OTHERS = {  # what the compiler calls, or finds, for a construct
    "__cxa_throw": "throw, as SIMT code has no exceptions; return an error, or call __trap()",
    "__dynamic_cast": "dynamic_cast, which SIMT code does not have; call a virtual function",
    "__cxa_guard_acquire": "a static variable that is initialized when it is reached, which SIMT code does not have; "
    "give it a constant",
    **_MARKS,
    "llvm.stacksave.p0": "an array of variable length, which SIMT code does not have; give it a constant length, or "
    "call new",
}
_CONSTRUCTOR = re.compile(r"_ZN.*C[12][EI]")
_LONG_DOUBLE = ("x86_fp80", "fp128")  # in LLVM
_VALUE = re.compile(r"\b(?:i\d+|float|double|half|bfloat) (-?[\w.+]+)")  # of a scalar, in a constant
_ZERO = re.compile(r"-?0(?:\.0+e\+00)?|0x[HRKLM]?0+|false|undef|poison")
_OTHER_PASS = re.compile(r"\.\d+$")  # in the symbol of what the host has code of its own for
_INSTEAD = "use arrays, new and delete, or what <cuda/std/...> has"


def refuse_host_constructs(
    llvm: str, kernels: Collection[str], texts: Mapping[str, str], defines: Mapping[str, str | int]
) -> None:
    """TileUnsupportedFeatureError, at its place, for what the functions of the device cannot use that the ``kernels``
    of a module lead to: containers, streams and algorithms of the C++ library, functions of the C library that only
    hosts have, variables of the host, arrays of variable length, ``throw``, ``dynamic_cast``. Parameters as of
    ``refuse_host_functions``."""
    source, parts = Source(llvm, texts, defines), parts_of(llvm)
    calls = parts.calls
    reached = called_from(calls, kernels)
    # but for what says what is wrong with an index, say, which is no reason to refuse the access
    library = {s for s in reached if source.is_of_a_library(s) and not source.name(s).startswith("__throw_")}
    users: dict[str, set[str]] = {}
    for caller in library:
        for name in calls[caller] & library:
            users.setdefault(name, set()).add(caller)
    constants = {n for n, v in parts.variables.items() if v.kind == "constant"}  # objects that are called, say
    needing = {
        s
        for s in library
        if _NO_OBJECT.match(s)
        or any(_ALLOCATES.match(n) or (n not in calls and _OF_THE_LIBRARY.match(n)) for n in calls[s] - constants)
    }
    hosts = {*reachable(needing, lambda name: users.get(name, set())), *filter(source.is_for_hosts_alone, library)}
    found = {n: v.rest.rpartition("!dbg !")[2] for n, v in parts.variables.items() if "thread_local" not in v.how}
    globals_ = {n: int(d) for n, d in found.items() if d.isdigit() and parts.variables[n].kind == "global"}
    of_device = [s for s in reached if s in kernels or source.is_for_devices(s)]
    lambdas = tuple(f"_ZZ{_OTHER_PASS.sub('', s)[2:]}E" for s in of_device)  # how the names of theirs begin
    for user in sorted(reached):
        everything = user in of_device or user.startswith(lambdas) or source.is_lambda(user)
        for name in sorted(calls[user] - constants if everything else calls[user] & _MARKS.keys()):
            for what in _uses(name, calls, hosts, globals_, source):
                at = source.use(user, name)
                who = "the lambda" if source.is_lambda(user) else f"{source_name(user)}()"
                raise TileUnsupportedFeatureError(f"{who} runs on the device and uses {what}", at)


def refuse_long_double(llvm: str, kernels: Collection[str], texts: Mapping[str, str]) -> None:
    """TileUnsupportedFeatureError, at its place, for a number of a type that devices do not have, in functions of the
    user's files ``texts`` that ``kernels`` of a module lead to."""
    parts = parts_of(llvm)
    locations = Locations(parts.metadata)
    for symbol in sorted(called_from(parts.calls, kernels)):
        function = parts.functions[symbol]
        if not any(type in function.text for type in _LONG_DOUBLE):
            continue
        loc = locations.function(function.subprogram)
        if loc is None or loc.file not in texts:
            continue
        lines = (line for line in function.body.split("\n") if any(type in line for type in _LONG_DOUBLE))
        at = next((number for number in map(debug_of, lines) if number is not None), None)
        message = (
            f"{source_name(symbol)}() runs on the device and uses long double, which devices do not have; use double"
        )
        raise TileUnsupportedFeatureError(message, loc if at is None else locations.loc(at))


def refuse_values(llvm: str, texts: Mapping[str, str], defines: Mapping[str, str | int]) -> None:
    """TileUnsupportedFeatureError, where it is declared, for a variable in shared memory that begins with a value, or
    one of the device whose value is computed when the program begins. Parameters as of ``refuse_host_functions``."""
    source, parts = Source(llvm, texts, defines), parts_of(llvm)
    for variable in parts.variables.values():
        values = _VALUE.findall(variable.rest) if "thread_local" in variable.how else ()
        number = _debug_of(variable)
        given = source.initialized(number) if "thread_local" in variable.how else None
        if not all(map(_ZERO.fullmatch, values)) or given:
            loc = source.variable(number)
            if loc is not None:
                raise TileUnsupportedFeatureError(
                    f"the __shared__ variable {source.variable_name(number)} has an initial value, which shared memory "
                    "does not take; let a thread assign it, before a barrier",
                    loc,
                )
    for symbol in (name for name in parts.functions if name.startswith("__cxx_global_var_init")):
        for name in _computed(parts.functions[symbol].body) & parts.variables.keys():
            number = _debug_of(parts.variables[name])
            loc = source.variable(number) if source.is_variable_of_a_device(number) else None
            if loc is not None and _does_something(llvm, symbol):
                raise TileUnsupportedFeatureError(
                    f"the value of {source.variable_name(number)}, a variable of the device, is computed when the "
                    "program begins; give it a constant, or copy the value by cudaMemcpyToSymbol",
                    loc,
                )


def refuse_shared_of_hosts(llvm: str, texts: Mapping[str, str], defines: Mapping[str, str | int]) -> None:
    """TileUnsupportedFeatureError, where it is declared, for a variable in shared memory of a function of the host.
    Parameters as of ``refuse_host_functions``."""
    source, parts = Source(llvm, texts, defines), parts_of(llvm)
    inside = {n: v for n, v in parts.variables.items() if n.startswith("_ZZ") and "thread_local" in v.how}
    shared = {n for n, v in inside.items() if source.is_shared(_debug_of(v))}
    for user in sorted(name for name, named in parts.calls.items() if named & shared):
        function = source.function_without(DEVICES, user)
        if function is not None:
            number = _debug_of(inside[min(parts.calls[user] & shared)])
            raise TileUnsupportedFeatureError(
                f"{function}() is for the host and has the __shared__ variable {source.variable_name(number)}; "
                "shared memory is that of a block: declare it in a kernel",
                source.variable(number),
            )


def refuse_writes(llvm: str, texts: Mapping[str, str], defines: Mapping[str, str | int]) -> None:
    """TileUnsupportedFeatureError, at its place, for a write of code for devices to a ``__constant__`` variable.
    Parameters as of ``refuse_host_functions``."""
    source, parts = Source(llvm, texts, defines), parts_of(llvm)
    written = {name: _debug_of(each) for name, each in parts.variables.items() if each.kind == "global"}
    fixed = {name for name, number in written.items() if source.is_constant(number)}
    for user in sorted(name for name, named in parts.calls.items() if named & fixed):
        if source.function_without(DEVICES, user) is not None:
            continue
        for debug, variable, reads in _accesses(parts.functions[user], fixed):
            if not reads:
                raise TileUnsupportedFeatureError(
                    f"{source_name(user)}() runs on the device and writes {source_name(variable)}, a __constant__ "
                    "variable, which only the host may, by cudaMemcpyToSymbol; declare it __device__",
                    source.place(debug),
                )


def without_constructors(llvm: str, texts: Mapping[str, str], defines: Mapping[str, str | int]) -> str:
    """The module without calls of constructors for variables in shared memory, which nobody constructs.
    TileUnsupportedFeatureError, where such a variable is declared, for a constructor that does something."""
    source, parts = Source(llvm, texts, defines), parts_of(llvm)
    local = {name: _debug_of(v) for name, v in parts.variables.items() if "thread_local" in v.how and name[:3] == "_ZZ"}
    guards = {f"_ZGV{name[2:]}": number for name, number in local.items() if source.is_shared(number)}
    for guard, number in guards.items():
        for body in (parts.functions[name].body for name, named in parts.calls.items() if guard in named):
            _, constructs, *_ = re.split(rf"^(?=.*@{re.escape(guard)}\b)", body, flags=re.M)
            names = (instruction(line).callee for line in constructs.split("\n"))
            called = {name for name in names if name and not name.startswith("llvm.")}
            if any(name not in parts.functions or _does_something(llvm, name) for name in called):
                message = (
                    f"the __shared__ variable {source.variable_name(number)} has a constructor that does something"
                )
                raise TileUnsupportedFeatureError(
                    f"{message}, which nobody calls for shared memory; let a thread assign it, before a barrier",
                    source.variable(number),
                )
    if not guards:
        return llvm
    named = "|".join(map(re.escape, guards))
    llvm = re.sub(rf"^(  %\S+) = load i8, ptr @(?:{named}), align \d+", r"\1 = add i8 0, 1", llvm, flags=re.M)
    return re.sub(rf"^(?:  store i8 1, ptr )?@(?:{named})(?: =|,).*\n", "", llvm, flags=re.M)


def _computed(body: str) -> set[str]:
    """The variables that a function stores a value in, or constructs."""
    lines = list(map(instruction, body.split("\n")))
    stored = [i.pointer for i in lines if i.op == "store" and i.pointer is not None]
    made = [i.args[0] for i in lines if _CONSTRUCTOR.search(i.callee) and i.args]
    return {operand.base.removeprefix("@").strip('"') for operand in (*stored, *made)}


def _debug_of(variable: Variable) -> int:
    """The number of the metadata of a variable; -1 for one without."""
    number = variable.rest.rpartition("!dbg !")[2].split(",")[0]
    return int(number) if number.isdigit() else -1


def _does_something(llvm: str, symbol: str) -> bool:
    """Whether a function, or one that it calls, writes more than variables of its own, or leaves the module."""
    parts = parts_of(llvm)
    for each in called_from(parts.calls, [symbol]):
        lines = [instruction(line) for line in parts.functions[each].body.split("\n")]
        own = {f"{i.result}" for i in lines if i.op == "alloca"}
        for i in lines:
            outside = i.callee and i.callee not in parts.functions and not i.callee.startswith("llvm.")
            if outside or (i.op == "store" and i.pointer is not None and i.pointer.value not in own):
                return True
    return False


def host_variables(
    llvm: str, kernels: Collection[str], texts: Mapping[str, str], defines: Mapping[str, str | int]
) -> list[str]:
    """The variables of the user that are declared for no device, and that no code names which ``kernels`` lead to.
    Other parameters as of ``refuse_device_functions``."""
    source, parts = Source(llvm, texts, defines), parts_of(llvm)
    named = {name for symbol in called_from(parts.calls, kernels) for name in parts.calls[symbol]}
    found = ((name, v) for name, v in parts.variables.items() if v.kind == "global" and name not in named)
    return [name for name, v in found if "external" not in v.how and source.is_variable_of_the_host(_debug_of(v))]


def host_accesses(llvm: str, texts: Mapping[str, str], defines: Mapping[str, str | int]) -> list[str]:
    """Warnings for variables of the device that functions of the host read or write directly, where they have, on a
    GPU, copies of their own. Parameters as of ``refuse_device_functions``."""
    source, parts = Source(llvm, texts, defines), parts_of(llvm)
    found = {n: v.rest.rpartition("!dbg !")[2] for n, v in parts.variables.items() if v.kind == "global"}
    of_device = {n for n, d in found.items() if d.isdigit() and source.is_variable_of_the_device(int(d))}
    warnings = dict[str, str]()
    for user in sorted(name for name, named in parts.calls.items() if named & of_device):
        if source.function_without(DEVICES, user) is None:
            continue
        for debug, variable, reads in _accesses(parts.functions[user], of_device):
            at = source.place(debug)
            warnings.setdefault(f"{at} {variable}", _warning(at, user, variable, "From" if reads else "To"))
    return list(warnings.values())


def _accesses(function: Definition, variables: Collection[str]) -> Iterator[tuple[int, str, bool]]:
    """The debug numbers of accesses of ``variables``, with what they access, and whether they read it."""
    lines = list(map(instruction, function.body.split("\n")))
    definitions = {i.result: i for i in lines if i.op == "getelementptr"}
    for i in lines:
        copies = i.callee.startswith("llvm.memcpy.")
        for k, operand in enumerate(i.args[:2] if copies else filter(None, [i.pointer])):
            while operand.value in definitions:
                operand = definitions[operand.value].args[0]
            variable = operand.base.removeprefix("@").strip('"')
            if variable in variables and i.debug is not None:
                yield i.debug, variable, i.op == "load" or k == 1


def _warning(at: Loc, user: str, variable: str, how: str) -> str:
    verb = "reads" if how == "From" else "writes"
    what = f"{source_name(user)}() is for the host and {verb} {source_name(variable)}, a variable of the device"
    return f"{at}: warning: {what}; call cudaMemcpy{how}Symbol"


def _uses(
    name: str, calls: Mapping[str, set[str]], hosts: set[str], globals_: Mapping[str, int], source: Source
) -> Iterator[str]:
    """What a function uses with ``name``, if that is not for devices, and what to use instead."""
    if name in _OTHERS:
        yield _OTHERS[name]
    elif name in hosts or (name not in calls and _OF_THE_LIBRARY.match(name)):
        yield f"{_library_name(name)}, which is for the host alone; {_INSTEAD}"
    elif name not in calls and name not in _PRINTF and _OF_C.fullmatch(name):
        yield f"{name}(), which is for the host alone; SIMT code has printf, malloc and the functions of <cmath>"
    elif name in globals_ and not name.startswith("_ZZ") and source.is_variable_of_the_host(globals_[name]):
        variable = source_name(name)
        yield f"{variable}, a variable of the host; declare it __device__, __constant__ or constexpr, or pass it"


def _library_name(symbol: str) -> str:
    """What a function of the C++ library, or its class, is called."""
    name = source_name(symbol).removeprefix("std::").partition("::")[0]
    return "a function of the C++ library" if name.startswith("_") else f"std::{name}"
