"""Turns what the compiler says about a program into one short error at the user's line."""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from tilewright.ir import errors as ir_errors
from tilewright.ir.location import Loc

_LINE = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d+):(?P<column>\d+): (?P<kind>error|fatal error|warning|note): (?P<text>.*?)"
    r"(?: \[-W[^\]]*\])?$"
)
_TYPE = re.compile(r"'([^']*)'(?: \(aka '([^']*)'\))?")
_INCLUDED = re.compile(r"^(?:In file included| +) from (?P<file>[^:\n]+):(?P<line>\d+)[:,]$")
_BECAUSE = re.compile(r"(?:because|and) (.*)")
_SYNTAX = re.compile(r"^(expected|unexpected|unknown type name|extraneous|missing|invalid preprocessing|unterminated)")
# What the constraints of our headers ask for, in the words of the reference. The innermost one that failed is shown.
REQUIREMENTS = {
    "arithmetic_tile_convertible": "there is no arithmetic tile conversion between the operands",
    "arithmetic_tile_comparable": "there is no arithmetic comparison conversion between the operands",
    "has_arithmetic_common_type": "the element types have no arithmetic common type",
    "converts_without_narrowing": "the conversion to the common element type would be narrowing; convert an operand",
    "broadcasts_with": "the shapes are not mutual broadcast compatible",
    "mutual_shape_fits": "the mutual broadcast shape has more than 2^24 elements",
    "broadcasts_to": "the operand is not broadcastable to the shape",
    "scalar_conversion_exists": "there is no scalar conversion between the element types",
    "scalar_conversion_narrows": "the conversion is narrowing",
    "same_lengths": "the shapes are not shape equivalent",
    "tile_compatible": "a tile shape needs lengths that are powers of two, and at most 2^24 elements",
    "rank_supported": "tiles have at most 16 dimensions",
    "singleton_tile": "only a singleton tile, one of one element, converts to a scalar",
    "non_narrowing_tile_convertible_to": "the tile conversion is narrowing, so it must be explicit",
    "non_narrowing_scalar_convertible_to": "the scalar conversion is narrowing, so it must be explicit",
    "is_arithmetic_code": "the operand is not an arithmetic tile: restricted floating point types have no arithmetic",
    "is_basic_float_code": "the operand is not a basic floating point tile",
    "is_integer_code": "the operand is not an integral tile",
    "is_pointer_code": "the operand is not a pointer tile",
    "precise_rounding_mode_available": "needs basic floating point elements and a precise rounding mode",
    "division_rounding_mode_available": "round full and round approximate are for float only",
    "sqrt_rounding_mode_available": "needs a precise rounding mode, or round approximate for float",
    "subnormals_mode_available": "round subnormals to zero is for float only",
    "nan_propagation_mode_available": "a NaN propagation mode needs basic floating point elements",
    "element_is_not_bool": "the element type must not be bool",
    "basic_floating_point_tile": "the operand is not a basic floating point tile",
    "integral": "the type is not integral",
    "integral_constant": "the type of the constant is not integral",
    "irange": "the bounds of a range must be integral, of one arithmetic common type",
    "dimension_index": "the dimension is negative",
    "arithmetic_tile_conversion_t": "the types have no arithmetic tile conversion",
    "tile_element_t": "the type is not tile like: neither a scalar nor a ct::tile",
    "tile_indices": "needs one index, convertible to size_t, per dimension of the tile",
    "same_object_size": "the element types differ in size",
    "iota_values_representable": "the largest value is not representable in the element type",
    "tile_size_v": "the sizes of the tile and of the shape differ",
    "is_permutation": "the indices are not a permutation",
    "dimension_of": "the dimension is not one of the tile's",
    "is_dimension_map": "the permutation is not a ct::dimension_map",
    "divides": "the lengths of the tile are not divisible by those of the shape",
    "same_element": "the element types differ",
    "other_lengths_match": "the tiles differ in the length of another dimension",
    "factors_match": "the element types of the matrices must be integral of 8 bits, or one floating point type",
    "accumulator_matches": "the element type of the accumulator does not go with that of the matrices",
    "ranks_match": "the matrices must have the same rank, 2 or 3",
    "inner_lengths_match": "the left matrix has another number of columns than the right one has rows",
    "batches_match": "the numbers of matrices differ and neither is 1",
    "accumulator_fits": "the shape of the accumulator is not that of the product",
    "points_to_object": "pointers to void have no elements",
    "differences_defined": "the builtin difference is not defined for pointers to these types",
    "comparisons_defined": "the builtin comparisons are not defined for pointers to these types",
    "loadable_tile": "needs pointers to elements that are not volatile",
    "storeable_tile": "the pointers point to const elements",
    "storeable_tensor_span": "the elements of the view are const",
    "read_memory_order": "a load takes relaxed or acquire memory order",
    "write_memory_order": "a store takes relaxed or release memory order",
    "atomic_integer": "needs 32 or 64 bit integral elements",
    "atomic_number": "needs 32 or 64 bit integral elements, float or double",
    "atomic_addend": "needs 32 or 64 bit integral elements, double, float or __half",
    "partition_index": "needs one index, scalar convertible to the index type, per dimension of the view",
    "padding_available": "a padding other than zero needs basic floating point elements",
    "power_of_two": "the value is not a power of two",
    "bounds_in_order": "the lower bound is greater than the upper bound",
    "positive_stride": "the stride is not greater than zero",
    "signed_elements": "the element type is not signed",
    "no_zero_length": "the shape has a dimension of length zero",
    "pointer_or_integral_tile": "the operand is neither a pointer tile nor an integral tile",
    "all_static": "a dimension is dynamic",
    "same_rank": "the ranks differ",
    "same_index_type": "the index types differ",
    **dict.fromkeys(
        ("number_of_dynamic_lengths", "number_of_lengths"),
        "needs a length for each dynamic dimension, or for each dimension",
    ),
    "lengths_convertible_to": "the lengths must be convertible to the index type",
    "alignment_for": "the alignment is not convertible to the index type",
    "layout_policy_for": "the layout is no layout policy for these extents",
    "accessor_of": "the element types of the tensor span and of its accessor differ",
    "tensor_span": "needs a scalar, extents, a layout policy for them, and an accessor policy for the scalar",
    "default_accessor": "the element type is not a scalar",
    "made_from_extents": "extents are not enough for a mapping of this layout; pass the mapping",
    "bound_for": "the bound lies outside the range of the element type",
}
for _enumeration in (
    *("rounding_mode", "subnormals_rounding_mode", "nan_propagation_mode"),
    *("view_padding", "memory_order", "thread_scope"),
):
    for _name in (f"valid_{_enumeration}", f"{_enumeration}_constant"):
        REQUIREMENTS[_name] = f"the value is not an enumerator of ct::{_enumeration}"
# What the compiler refuses to do with a tile without naming a constraint.
_ABOUT_TILES = {
    r"undeclared identifier '(?:threadIdx|blockIdx|blockDim|gridDim|warpSize)'": (
        "it is for SIMT code; in tile code there are ct::bid() and ct::num_blocks()"
    ),
    r"undeclared identifier '__(?:sync|shfl|ballot|any|all|activemask|threadfence)\w*'": (
        "it is for SIMT code; the threads of tile code are the compiler's"
    ),
    r"^assigning to .* from incompatible type .*\btile<": (
        "only a singleton tile converts to a scalar, and not implicitly where that is narrowing "
        "(non_narrowing_scalar_convertible_to)"
    ),
    r"^type .*\btile<.* does not provide a subscript operator": "ct::extract yields parts of a tile",
    r"^invalid range expression of type .*\btile<": "tiles have no iterators; ct::extract yields parts of a tile",
    r"^indirection requires pointer operand .*\btile<": "ct::load and ct::store go through tiles of pointers",
}
# The constraints of template parameters; those of requires clauses are about more than one type, or named otherwise.
_OF_PARAMETER = re.compile(
    r"'(.*)' does not satisfy '(?:\w+::)*(?:integral|tile_like|(?:\w+_)?(?:tile|scalar)|bool_tile_convertible)'"
)
# A request for a kernel by a name that does not stand for one.
_NO_SUCH_KERNEL = "no matching function for call to 'describe'"
_NAME_A_KERNEL = (
    "this is not the name of one kernel: write name<arguments> with arguments that the template takes, "
    "name<> where all have defaults, or name(parameter types) for one of several overloads"
)
# Concepts of which no part is of use to who reads that they are not met.
_OPAQUE = {
    "extents_like": "extents like",
    "shape_like": "shape like",
    "layout_mapping": "a layout mapping",
    "accessor_policy": "an accessor policy",
    "tensor_span_like": "tensor span like",
}
# Those that say more than what they consist of.
_WHOLE = frozenset({"padding_available", "partition_index", "pointer_or_integral_tile", "layout_policy_for"})
_EXPLICIT = "explicit constructor"
# The more telling, the later.
_MISMATCHES = ("couldn't infer", "could not match", _EXPLICIT, "constraints not satisfied")


# Headers of CUDA that there are none of here, and what to do instead.
_TOOLKIT_HEADERS = (
    (r"curand", "random numbers of cuRAND are not here: compute them, or fill an array on the host"),
    (
        r"(?:cublas|cufft|cusparse|cusolver|cudnn|nccl|nvml|npp|nvjpeg|cutensor|cufile)",
        "this library of CUDA is not here",
    ),
    (
        r"(?:thrust|cub)/",
        "this library of CUDA is not here: write the kernel, or use the algorithms of the C++ standard",
    ),
    (r"cuda/(?!std/)", "of libcu++ there are <cuda/std/...>, atomic, barrier, cmath, functional, latch, pipeline"),
    (r"cutlass/|cute/|mma\.h", "matrix instructions of warps are not available on a CPU; ct::mma of tile code is"),
    (r"cuda_(?:awbarrier|gl_|egl_|vdpau_)|cuda\w*(?:GL|EGL|VDPAU)", "this part of CUDA is not here"),
)
_MISSING = re.compile(r"'([^']+)' file not found")
# What the compiler says of CUDA in the words of a CPU.
_REWORDED = (
    (
        r"no template named '(?:texture|surface)'",
        "references to textures and surfaces have left CUDA, and a CPU has neither; read an array through a pointer",
    ),
)

# What we call what others have: NumPy, Triton, cuTile Python, and our own enumerators.
_ALSO_CALLED = {"where": "select", "arange": "iota", "maximum": "max", "minimum": "min", "cumsum": "partial_sum"}
_ALSO_CALLED |= {"cumprod": "partial_prod", "cdiv": "ceildiv", "dot": "mma", "any": "any_of", "all": "all_of"}
_ALSO_CALLED |= {"astype": "element_cast", "bitcast": "element_bitcast", "broadcast_to": "broadcast"}
_ALSO_CALLED |= {"program_id": "bid", "atomic_cas": "atomic_compare_exchange", "atomic_exchange": "atomic_xchg"}
# What there is in the place of what others have, where that is not one name.
_INSTEAD = {
    "reduce": "reductions are ct::sum, prod, reduce_max, reduce_min, all_of, any_of and reduce_bitand, _bitor, _bitxor",
    "scan": "scans are ct::partial_sum and ct::partial_prod",
    "softmax": "compute it: auto e = ct::exp(x - ct::reduce_max(x, 1_ic)); auto y = e / ct::sum(e, 1_ic);",
    "thread_scope_thread_t": "the narrowest scope is that of a block, ct::thread_scope_block_t",
}
_NO_MEMBER = re.compile(r"no (?:member|type|template) named '(\w+)' in namespace 'cuda::tiles'")
_ENUMERATOR = re.compile(r"(?:round|propagate|suppress)_\w+(?<!_t)\Z")
# Where scalars are that are only declared without.
_HEADERS = {"'__half'": "cuda_fp16.h", "'__nv_bfloat16'": "cuda_bf16.h"}
_HEADERS |= dict.fromkeys(("'__nv_fp8_e4m3'", "'__nv_fp8_e5m2'"), "cuda_fp8.h")

# Template arguments that have no default.
_MISSING_ARGUMENTS = {
    "Order": "the memory order is missing; write one behind the values, such as ct::memory_order_relaxed_t{}",
    "D": "the dimension is missing; write it, as in ct::sum<0>(x)",
}

# What the compiler was told to do without, by what it says of that.
_FORBIDDEN = {
    "with exceptions disabled": "exceptions are not available in tile code; end by assert",
    "requires -frtti": "typeid and dynamic_cast are not available in tile code",
}


@dataclass(frozen=True)
class Message:
    file: str
    line: int
    column: int
    kind: str
    text: str


def parse(stderr: str) -> list[list[Message]]:
    """The errors of a compilation, each with the notes that follow it."""
    groups: list[list[Message]] = []
    includes: list[Message] = []
    for line in stderr.splitlines():
        include = _INCLUDED.match(line)
        if include is not None:
            includes.append(Message(include["file"], int(include["line"]), 1, "include", ""))
        match = _LINE.match(line)
        if match is None:
            continue
        message = Message(match["file"], int(match["line"]), int(match["column"]), match["kind"], match["text"])
        if message.kind != "note":
            groups.append([message, *includes])
        elif groups:
            groups[-1].append(message)
        includes = []
    return groups


def narrowing(stderr: str) -> list[ir_errors.TileError]:
    """The errors for narrowing in braces, which the compiler was told to report only as a warning.

    The documents initialize floats with ``1.0 / 0.0``, whose value Clang does not know and so calls narrowed.
    """
    found: list[ir_errors.TileError] = []
    for group in parse(stderr):
        if "narrow" in group[0].text and "from type 'double' to 'float'" not in group[0].text:
            located = group[0]
            loc = Loc(located.file, located.line, located.column - 1)
            found.append(ir_errors.TileTypeError(_plain(located.text), loc))
    return found


def raise_for(stderr: str) -> NoReturn:
    """Raise TileCompilerExecutionError for a compiler that failed without naming an error."""
    raise ir_errors.TileCompilerExecutionError(f"the C++ compiler failed:\n{stderr.strip()}")


# What linkers say of names that nothing defines, lld and GNU ld: the name, and where it is used.
_SHORT = r"(?:[^\n:]*:\d+ \((?=[^\n]*:\d+\)))?"  # what lld writes before a path in brackets
_UNDEFINED = (
    r"undefined symbol: (?P<name>[^\n]+)"
    rf"(?:\n>>> referenced by {_SHORT}(?P<file>[^\n:]+):(?P<line>\d+))?",
    r"(?P<file>[^\s:]+):(?P<line>\d+):[^\n]*undefined reference to [`'](?P<name>[^\n]+)'",
)


# What they say of names that two files define.
_TWICE = (
    rf"duplicate symbol: (?P<name>[^\n]+)\n>>> defined at {_SHORT}(?P<other>[^\n:]+:\d+)[^\n]*\n[^\n]*"
    rf"\n>>> defined at {_SHORT}(?P<file>[^\n:]+):(?P<line>\d+)",
    r"(?P<file>[^\s:]+):(?P<line>\d+):[^\n]*multiple definition of [`'](?P<name>[^\n]+)'; "
    r"[^\n]*?(?P<other>[^\s:]+:\d+)",
)
_NO_LIBRARY = re.compile(r"""(?:cannot find -l|unable to find [\w ]*library (?:-l|["']))([\w.+-]+)""")


def link_error(stderr: str, directory: str, options: Sequence[str]) -> ir_errors.TileError | None:
    """The error for the first library that a linker did not find, or name that nothing defines, or two files, or None.

    ``directory`` is what the debug information calls the working directory, ``options`` were given to the linker.
    """
    if (library := _NO_LIBRARY.search(stderr)) is not None:
        folders = [*(option[2:] for option in options if option.startswith("-L")), "the folders of the system"]
        message = f"there is no library lib{library[1]}.so or lib{library[1]}.a, for -l{library[1]}"
        return ir_errors.TileUnsupportedFeatureError(f"{message}, in {', '.join(folders)}; -L names further folders")
    patterns = (*_UNDEFINED, *_TWICE)
    match = next((found for pattern in patterns if (found := re.search(pattern, stderr)) is not None), None)
    if match is None:
        return None
    loc = None
    if match["file"] is not None:
        loc = _use_of(match["name"], match["file"].removeprefix(f"{directory}/"), int(match["line"]))
    message = f"nothing defines {match['name']}; define it, or compile the file that does together with this one"
    if (other := match.groupdict().get("other")) is not None:
        other = other.removeprefix(f"{directory}/")
        message = f"{match['name']} is defined here and at {other}; make one static, or inline in a header"
    return ir_errors.TileUnsupportedFeatureError(message, loc)


def _use_of(symbol: str, file: str, line: int) -> Loc:
    """Where the line names ``symbol``, as ``space::name<int>(float)``; the whole line where it does so by a sign."""
    path = symbol
    while (shorter := re.sub(r"<[^<>]*>", "", path)) != path:
        path = shorter
    names = re.findall(r"\w+", path.partition("(")[0])
    found = re.search(rf"\b{names[-1]}\b", linecache.getline(file, line)) if names else None
    return Loc(file, line) if found is None else Loc(file, line, found.start(), line, found.end())


def errors(stderr: str, headers: str) -> list[ir_errors.TileError]:
    """The errors that ``stderr`` describes, one for each line; ``headers`` is the directory of our own headers.

    The compiler's own text is their ``compiler_output``.
    """
    lines: dict[tuple[str, int], list[list[Message]]] = {}
    for group in parse(stderr):
        if group[0].kind != "warning":
            located = _located(group, headers)
            lines.setdefault((located.file, located.line), []).append(group)
    found = [_error(_most_telling(groups), headers) for groups in lines.values()]
    for error in found:
        error.compiler_output = stderr
    return found


def _most_telling(groups: list[list[Message]]) -> list[Message]:
    """The first error of a line; but for && and ||, where the builtin operators are tried first, what ours ask for."""
    if groups[0][0].text.endswith("to 'bool'"):
        return next((group for group in groups if group[0].text.startswith("invalid operands to binary")), groups[0])
    return groups[0]


def _located(group: list[Message], headers: str) -> Message:
    """The message of ``group`` that is at the line of the user's that is wrong."""
    # An alias of the user's for a tile type is right until somebody gives it a shape.
    through_alias = next((m for m in group if "in instantiation of template type alias" in m.text), None)
    users = [m for m in group if not m.file.startswith(headers)]
    at_line = next((m for m in users if m.kind != "include"), users[0] if users else group[0])
    return through_alias or at_line


def _error(group: list[Message], headers: str) -> ir_errors.TileError:
    first = group[0]
    if any("shape_size_overflow" in m.text for m in group):
        return _undefined_in(group, headers)
    located = _located(group, headers)
    forbidden = next((words for sign, words in _FORBIDDEN.items() if sign in first.text), None)
    if forbidden is not None:
        return ir_errors.TileUnsupportedFeatureError(forbidden, Loc(located.file, located.line, located.column - 1))
    text = _wording(group, headers)
    reason = "" if "deleted operator" in first.text or first.text == _NO_SUCH_KERNEL else _unmet_constraint(group)
    if reason and reason not in text:
        text = f"{text}: {reason}"
    cls = ir_errors.TileSyntaxError if _SYNTAX.match(first.text) else ir_errors.TileTypeError
    return cls(_plain(text), Loc(located.file, located.line, located.column - 1))


def _wording(group: list[Message], headers: str) -> str:
    """What the first message says, without what it says of how our headers are written."""
    text = group[0].text
    if text == _NO_SUCH_KERNEL:
        return _NAME_A_KERNEL
    missing = _MISSING.match(text)
    if missing is not None:
        found = (advice for start, advice in _TOOLKIT_HEADERS if re.match(start, missing[1]))
        return f"{text}; {next(found, 'give the folder that it is in by -I')}"
    reworded = next((words for pattern, words in _REWORDED if re.match(pattern, text)), None)
    if reworded is not None:
        return reworded
    if (unknown := _NO_MEMBER.match(text)) is not None:
        name = unknown[1]
        instead = f"{name}_t{{}}" if _ENUMERATOR.match(name) else _ALSO_CALLED.get(name)
        advice = _INSTEAD.get(name) if instead is None else f"write ct::{instead}"
        return text if advice is None else f"{unknown[0]}; {advice}"
    header = next((header for name, header in _HEADERS.items() if "incomplete" in text and name in text), None)
    if header is not None:
        return f"{text}; include <{header}>"
    if text.startswith("cannot jump"):
        return ": ".join([text, *(m.text for m in group[1:] if m.text.startswith("jump "))])
    if group[0].file.startswith(headers):
        return re.sub(r"^static assertion failed(?: due to requirement '.*')?: ", "", text)
    if any("explicitly deleted" in m.text and m.file.startswith(headers) for m in group):
        return text.replace("overload resolution selected deleted operator", "no operator")
    return text


def _undefined_in(group: list[Message], headers: str) -> ir_errors.TileError:
    """A constant expression that the compiler cannot give a value, because the language leaves it undefined."""
    located = _located(group, headers)
    return ir_errors.TileUndefinedError(
        "the size of this shape does not fit size_t, so the program is undefined",
        Loc(located.file, located.line, located.column - 1),
        "shape-size-overflow",
    )


def _unmet_constraint(group: list[Message]) -> str:
    """What the candidate that fits best asks for, or what the one template that was named asks for."""
    operands = [_bare(canonical or written) for written, canonical in _TYPE.findall(group[0].text)]
    candidates: list[Candidate] = []
    for message in (m for m in group[1:] if m.kind == "note"):
        if "candidate" in message.text or not candidates:
            candidates.append(Candidate(message.text, []))
        because = _BECAUSE.match(message.text)
        if because is not None:
            candidates[-1].reasons.append(because.group(1))
    # Template arguments that an overload cannot take were meant for another one.
    candidates = [c for c in candidates if "invalid explicitly-specified argument" not in c.note] or candidates
    best = max(candidates, key=lambda candidate: candidate.rank(operands), default=None)
    if best is None:
        return next((advice for pattern, advice in _ABOUT_TILES.items() if re.search(pattern, group[0].text)), "")
    if not best.reasons:
        return best.mismatch(alone=len(candidates) == 1)
    names = [_constraint(text) for text in best.reasons]
    depth = next((i + 1 for i, name in enumerate(names) if name in _OPAQUE or name in _WHOLE), len(names))
    known = [name for name in names[:depth] if name in REQUIREMENTS]
    return f"{REQUIREMENTS[known[-1]]} ({names[0]})" if known else _what_is_missing(best.reasons)


def _what_is_missing(reasons: list[str]) -> str:
    """The type that is not of a kind, and the member that it lacks where that is told."""
    unmet = re.match(r"('.*') does not satisfy '(?:\w+::)*(\w+)'", reasons[0])
    if unmet is None or unmet[2] not in _OPAQUE:
        return reasons[0]
    text = f"{unmet[1]} is not {_OPAQUE[unmet[2]]} ({unmet[2]})"
    details = [r for r in reasons[1:] if not r.startswith(("'__is_", "'T::")) and "cannot be used" not in r]
    if not details:
        return text
    return f"{text}: {REQUIREMENTS.get(_constraint(details[-1]), details[-1].rpartition('would be invalid: ')[2])}"


@dataclass(frozen=True)
class Candidate:
    """A template or function that was looked at, with why it does not fit: constraints from outermost to innermost."""

    note: str
    reasons: list[str]

    def rank(self, operands: list[str]) -> tuple[int, int]:
        """How well it fits: the further checking got, the better."""
        if "explicit specifier evaluates to true" in self.note:
            return 5, 0
        if not self.reasons:
            told = [k for k, words in enumerate(_MISMATCHES, 1) if words in self.note]
            return int("candidate template ignored" in self.note or _EXPLICIT in self.note), max(told, default=0)
        if _constraint(self.reasons[0]) in _OPAQUE:
            return 1, len(_MISMATCHES)
        of_parameter = _OF_PARAMETER.match(self.reasons[0])
        if of_parameter is None:  # of a requires clause, so those of the parameters are met
            return 4, len(self.reasons)
        second = len(operands) == 2 and _bare(of_parameter.group(1)) == operands[1] != operands[0]
        return 2 + second, 0

    def mismatch(self, *, alone: bool) -> str:
        """Why the arguments do not fit the parameters, where no constraint was asked."""
        if _EXPLICIT in self.note and "evaluates" not in self.note:
            return "the constructor is explicit"
        if _EXPLICIT in self.note:
            return f"{REQUIREMENTS['non_narrowing_tile_convertible_to']} (non_narrowing_tile_convertible_to)"
        if "explicit conversion function" in self.note:
            return f"{REQUIREMENTS['non_narrowing_scalar_convertible_to']} (non_narrowing_scalar_convertible_to)"
        two_types = re.search(r"deduced conflicting types for parameter ('\w+') \((.*) vs\. (.*)\)$", self.note)
        if two_types is not None:
            return "the arguments must be of one type {}, but are {} and {}".format(*two_types.groups())
        template = re.search(r"constraints not satisfied for \w+ template '(\w+)'", self.note)
        if template is not None and template[1] in REQUIREMENTS:
            return f"{REQUIREMENTS[template[1]]} ({template[1]})"
        constant = re.search(r"could not match '(?:\w+::)*(\w+_constant)\b[^']*' against ('[^']*')", self.note)
        if constant is not None:
            example = " such as 1_ic" if constant[1] == "integral_constant" else ""
            return f"needs a ct::{constant[1]}{example}, not {constant[2]}"
        given = re.search(r"invalid explicitly-specified argument for template parameter ('\w+')", self.note)
        if given is not None:
            return f"what is given for {given[1]} is no constant that is known at compile time, or of another kind"
        missing = re.search(r"couldn't infer template argument '(\w+)'", self.note)
        if missing is not None and missing[1] in _MISSING_ARGUMENTS:
            return _MISSING_ARGUMENTS[missing[1]]
        if re.search("ignored: (?:could not match|couldn't infer)", self.note):
            return self.note.partition(": ")[2]
        return self.note.partition(" not viable: ")[2].partition(";")[0] if alone else ""


def _bare(written: str) -> str:
    """A type without what is spelled in more than one way."""
    return re.sub(r"\b(?:\w+::)+|(?<=\d)UL\b| ", "", written)


def _constraint(text: str) -> str:
    """The name of the constraint that an explanation says is not met."""
    match = re.search(r"does not satisfy '(?:\w+::)*(\w+)'", text) or re.match(r"'\W?(?:\w+::)*(\w+)", text)
    return match.group(1) if match else ""


def _plain(text: str) -> str:
    """``text`` with types spelled as users write them."""
    text = re.sub(r"(?:const )?__tw_simt::coordinates<(\d+)>", lambda m: "uint3" if int(m[1]) < 6 else "dim3", text)
    text = re.sub(r"'[^']*_t<[^']*' \(aka ('[^']*')\)", r"\1", text)  # our aliases say less than what they stand for
    text = re.sub(r"'__remove_cv\([^']*\)' \(aka ('[^']*')\)", r"\1", text)
    text = re.sub(r" \(aka '[^']*'\)", "", text)
    text = text.replace("cuda::tiles::v1::", "ct::").replace("cuda::tiles::", "ct::")
    text = re.sub(r"(?<![\w:])(?=(?:tile|extents)<)", "ct::", text)
    return re.sub(r"ct::(?:extents<(?:unsigned int|uint32_t)|shape<(?=\d))((?:,? ?\d+(?:UL)?)*)>", _shape, text)


def _shape(match: re.Match[str]) -> str:
    lengths = ", ".join(re.findall(r"\d+", match.group(1)))
    return f"ct::shape<{lengths}>".replace(str(2**64 - 1), "ct::dynamic_extent")
