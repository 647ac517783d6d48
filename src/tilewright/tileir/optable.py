"""The ops of CUDA Tile IR as data: opcode, fields and the version that brought each of them.

Notation of the table. ``attributes``: ``name:kind``, ``name?`` when a flag says whether it is there, ``@13.V=x`` when
files older than 13.V lack it and mean x. ``flags``: what bits 0, 1, ... of the flags word say is there; ``name!`` is an
attribute that is its bit. ``operands``: ``name``, ``name?`` for an optional one, ``name*`` for any number. ``layout``:
``F`` fixed, ``C`` one count of all operands, ``S`` segments. ``results``: how many, ``n=`` with a count in the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

# enumeration -> its values, in the order of their numbers
ENUMS: dict[str, tuple[str, ...]] = {
    "AtomicMode": ("and", "or", "xor", "add", "addf", "max", "min", "umax", "umin", "xchg"),
    "FloatOrdering": ("unordered", "ordered"),
    "Predicate": (
        "equal",
        "not_equal",
        "less_than",
        "less_than_or_equal",
        "greater_than",
        "greater_than_or_equal",
    ),
    "Overflow": ("none", "no_signed_wrap", "no_unsigned_wrap", "no_wrap"),
    "Ordering": ("weak", "relaxed", "acquire", "release", "acq_rel"),
    "Scope": ("tl_blk", "device", "sys"),
    "Reduction": ("add", "min", "max", "and", "or", "xor", "umin", "umax"),
    "Padding": ("zero", "neg_zero", "nan", "pos_inf", "neg_inf"),
    "PtrAttr": ("none", "unicast", "multicast"),
    "Rounding": (
        "nearest_even",
        "zero",
        "negative_inf",
        "positive_inf",
        "approx",
        "full",
        "nearest_int_to_zero",
        "nearest_away",
    ),
    "Signedness": ("unsigned", "signed"),
    "Visibility": ("public", "private"),
}
# values that an enumeration got later: (enumeration, value) -> minor version
ENUM_SINCE: dict[tuple[str, str], int] = {
    ("Rounding", "nearest_away"): 4,
    ("PtrAttr", "unicast"): 5,
    ("PtrAttr", "multicast"): 5,
}
NEWEST = 5  # the newest minor version of 13 that is known
NO_DEFAULT: Any = object()


@dataclass(frozen=True)
class AttributeSpec:
    """An attribute: ``kind`` says how it is written; files older than ``since`` lack it and mean ``default``."""

    name: str
    kind: str
    optional: bool = False
    since: int = 1
    default: Any = NO_DEFAULT


class OperandSpec(NamedTuple):
    """An operand, which may be optional or stand for any number of values."""

    name: str
    optional: bool = False
    variadic: bool = False


@dataclass(frozen=True)
class OpSpec:
    """The declaration of an op. ``flag_bits`` maps what is optional to its bit; ``units`` are attributes that are bits.

    ``results`` is None for any number; ``counted`` says that the file counts them.
    """

    opcode: int
    name: str
    since: int
    results: int | None
    counted: bool
    results_since: int
    attributes: tuple[AttributeSpec, ...]
    units: tuple[str, ...]
    flag_bits: dict[str, int]
    flags_since: int
    operands: tuple[OperandSpec, ...]
    layout: str
    regions: int


def _attribute(text: str) -> AttributeSpec:
    name, kind = text.split(":")
    since, default = 1, NO_DEFAULT
    if "@" in kind:
        kind, later = kind.split("@13.")
        version, value = later.split("=")
        since, default = int(version), (() if value == "[]" else value)
    return AttributeSpec(name.rstrip("?"), kind, name.endswith("?"), since, default)


def _op(
    opcode: int,
    name: str,
    *,
    since: int = 1,
    results: str = "0",
    flags_since: int = 1,
    flags: str = "",
    attributes: str = "",
    layout: str = "F",
    operands: str = "",
    regions: int = 0,
) -> OpSpec:
    number, _, results_since = results.partition("@13.")
    counted = number.startswith("n")
    fixed = number.removeprefix("n").removeprefix("=")
    return OpSpec(
        opcode,
        name,
        since,
        int(fixed) if fixed else None,
        counted,
        int(results_since or 1),
        tuple(map(_attribute, attributes.split())),
        tuple(f[:-1] for f in flags.split() if f.endswith("!")),
        {f.rstrip("!"): bit for bit, f in enumerate(flags.split())},
        flags_since,
        tuple(OperandSpec(o.rstrip("?*"), o.endswith("?"), o.endswith("*")) for o in operands.split()),
        layout,
        regions,
    )


TABLE = (
    _op(0, "absf", results="1", operands="source"),
    _op(1, "absi", results="1", operands="source"),
    _op(2, "addf", results="1", flags="flush_to_zero!", attributes="rounding_mode:Rounding", operands="lhs rhs"),
    _op(3, "addi", results="1", attributes="overflow:Overflow", operands="lhs rhs"),
    _op(4, "andi", results="1", operands="lhs rhs"),
    _op(5, "assert", attributes="message:str", operands="condition"),
    _op(6, "assume", results="1", attributes="predicate:predicate", operands="value"),
    _op(
        7,
        "atomic_cas_tko",
        results="2",
        flags="mask token",
        attributes="memory_ordering_semantics:Ordering memory_scope:Scope",
        layout="S",
        operands="pointers cmp val mask? token?",
    ),
    _op(
        8,
        "atomic_rmw_tko",
        results="2",
        flags="mask token",
        attributes="memory_ordering_semantics:Ordering memory_scope:Scope mode:AtomicMode",
        layout="S",
        operands="pointers arg mask? token?",
    ),
    _op(9, "bitcast", results="1", operands="source"),
    _op(10, "break", results="n=0", layout="C", operands="operands*"),
    _op(11, "broadcast", results="1", operands="source"),
    _op(12, "cat", results="1", attributes="dim:int", operands="lhs rhs"),
    _op(13, "ceil", results="1", operands="source"),
    _op(
        14,
        "cmpf",
        results="1",
        attributes="comparison_predicate:Predicate comparison_ordering:FloatOrdering",
        operands="lhs rhs",
    ),
    _op(
        15,
        "cmpi",
        results="1",
        attributes="comparison_predicate:Predicate signedness:Signedness",
        operands="lhs rhs",
    ),
    _op(16, "constant", results="1", attributes="value:const"),
    _op(17, "continue", results="n=0", layout="C", operands="operands*"),
    _op(18, "cos", results="1", operands="source"),
    _op(19, "cosh", results="1", operands="source"),
    _op(20, "divf", results="1", flags="flush_to_zero!", attributes="rounding_mode:Rounding", operands="lhs rhs"),
    _op(21, "divi", results="1", attributes="signedness:Signedness rounding:Rounding", operands="lhs rhs"),
    _op(
        22,
        "entry",
        flags="res_attrs optimization_hints arg_attrs",
        attributes="sym_name:str function_type:type arg_attrs?:array res_attrs?:array optimization_hints?:hints",
        regions=1,
    ),
    _op(23, "exp", results="1", attributes="rounding_mode:Rounding@13.3=full", operands="source"),
    _op(24, "exp2", results="1", flags="flush_to_zero!", operands="source"),
    _op(37, "exti", results="1", attributes="signedness:Signedness", operands="from"),
    _op(38, "extract", results="n=1", layout="C", operands="source indices*"),
    _op(39, "floor", results="1", operands="source"),
    _op(
        40,
        "fma",
        results="1",
        flags="flush_to_zero!",
        attributes="rounding_mode:Rounding",
        operands="lhs rhs acc",
    ),
    _op(
        41,
        "for",
        results="n",
        flags_since=2,
        flags="unsignedCmp!",
        layout="C",
        operands="lowerBound upperBound step initValues*",
        regions=1,
    ),
    _op(42, "ftof", results="1", attributes="rounding_mode:Rounding", operands="from"),
    _op(
        43,
        "ftoi",
        results="1",
        flags_since=4,
        flags="saturating!",
        attributes="signedness:Signedness rounding_mode:Rounding",
        operands="from",
    ),
    _op(44, "get_global", results="1", attributes="name:str"),
    _op(45, "get_index_space_shape", results="n", operands="src"),
    _op(46, "get_num_tile_blocks", results="3"),
    _op(47, "get_tensor_shape", results="n", operands="src"),
    _op(48, "get_tile_block_id", results="3"),
    _op(
        49,
        "global",
        flags_since=3,
        flags="constant!",
        attributes="sym_name:str value:const alignment:int symbol_visibility:Visibility@13.3=public",
    ),
    _op(50, "if", results="n", operands="condition", regions=2),
    _op(51, "int_to_ptr", results="1", operands="source"),
    _op(58, "iota", results="1"),
    _op(59, "itof", results="1", attributes="signedness:Signedness rounding_mode:Rounding", operands="from"),
    _op(60, "join_tokens", results="n=1", layout="C", operands="tokens*"),
    _op(
        61,
        "load_ptr_tko",
        results="2",
        flags="memory_scope optimization_hints mask paddingValue token",
        attributes="memory_ordering_semantics:Ordering memory_scope?:Scope optimization_hints?:hints",
        layout="S",
        operands="source mask? paddingValue? token?",
    ),
    _op(
        62,
        "load_view_tko",
        results="n=2",
        flags="memory_scope optimization_hints token",
        attributes="memory_ordering_semantics:Ordering memory_scope?:Scope optimization_hints?:hints "
        "inbounds:bools@13.4=[]",
        layout="S",
        operands="view index* token?",
    ),
    _op(63, "log", results="1", operands="source"),
    _op(64, "log2", results="1", operands="source"),
    _op(65, "loop", results="n", layout="C", operands="initValues*", regions=1),
    _op(66, "make_partition_view", results="1", operands="tensor_view"),
    _op(67, "make_tensor_view", results="n=1", layout="S", operands="base dynamicShape* dynamicStrides*"),
    _op(68, "make_token", results="1"),
    _op(69, "maxf", results="1", flags="propagate_nan! flush_to_zero!", operands="lhs rhs"),
    _op(70, "maxi", results="1", attributes="signedness:Signedness", operands="lhs rhs"),
    _op(71, "minf", results="1", flags="propagate_nan! flush_to_zero!", operands="lhs rhs"),
    _op(72, "mini", results="1", attributes="signedness:Signedness", operands="lhs rhs"),
    _op(73, "mmaf", results="1", flags_since=3, flags="fast_acc!", operands="lhs rhs acc"),
    _op(
        74,
        "mmai",
        results="1",
        attributes="signedness_lhs:Signedness signedness_rhs:Signedness",
        operands="lhs rhs acc",
    ),
    _op(75, "module", flags_since=3, flags="producer", attributes="sym_name:str producer?:str", regions=1),
    _op(76, "mulf", results="1", flags="flush_to_zero!", attributes="rounding_mode:Rounding", operands="lhs rhs"),
    _op(77, "mulhii", results="1", operands="x y"),
    _op(78, "muli", results="1", attributes="overflow:Overflow", operands="lhs rhs"),
    _op(79, "negf", results="1", operands="source"),
    _op(80, "negi", results="1", attributes="overflow:Overflow@13.2=none", operands="source"),
    _op(81, "offset", results="1", operands="ptr offset"),
    _op(82, "ori", results="1", operands="lhs rhs"),
    _op(83, "permute", results="1", attributes="permutation:i32s", operands="source"),
    _op(84, "fpowf", results="1", operands="source exponent"),
    _op(
        85,
        "print_tko",
        results="n=1@13.2",
        flags_since=2,
        flags="token",
        attributes="str:str",
        layout="S",
        operands="args* token?",
    ),
    _op(86, "ptr_to_int", results="1", operands="source"),
    _op(87, "ptr_to_ptr", results="1", operands="source"),
    _op(
        88,
        "reduce",
        results="n",
        attributes="dim:int identities:array",
        layout="C",
        operands="operands*",
        regions=1,
    ),
    _op(89, "remf", results="1", operands="lhs rhs"),
    _op(90, "remi", results="1", attributes="signedness:Signedness", operands="lhs rhs"),
    _op(91, "reshape", results="1", operands="source"),
    _op(92, "return", results="n=0", layout="C", operands="operands*"),
    _op(93, "rsqrt", results="1", flags="flush_to_zero!", operands="source"),
    _op(
        94,
        "scan",
        results="n",
        attributes="dim:int reverse:bool identities:array",
        layout="C",
        operands="operands*",
        regions=1,
    ),
    _op(95, "select", results="1", operands="cond val_if_true val_if_false"),
    _op(96, "shli", results="1", attributes="overflow:Overflow", operands="lhs rhs"),
    _op(97, "shri", results="1", attributes="signedness:Signedness", operands="lhs rhs"),
    _op(98, "sin", results="1", operands="source"),
    _op(99, "sinh", results="1", operands="source"),
    _op(100, "sqrt", results="1", flags="flush_to_zero!", attributes="rounding_mode:Rounding", operands="source"),
    _op(
        101,
        "store_ptr_tko",
        results="1",
        flags="memory_scope optimization_hints mask token",
        attributes="memory_ordering_semantics:Ordering memory_scope?:Scope optimization_hints?:hints",
        layout="S",
        operands="destination value mask? token?",
    ),
    _op(
        102,
        "store_view_tko",
        results="n=1",
        flags="memory_scope optimization_hints token",
        attributes="memory_ordering_semantics:Ordering memory_scope?:Scope optimization_hints?:hints "
        "inbounds:bools@13.4=[]",
        layout="S",
        operands="tile view index* token?",
    ),
    _op(
        103,
        "subf",
        results="1",
        flags="flush_to_zero!",
        attributes="rounding_mode:Rounding",
        operands="lhs rhs",
    ),
    _op(104, "subi", results="1", attributes="overflow:Overflow", operands="lhs rhs"),
    _op(105, "tan", results="1", operands="source"),
    _op(106, "tanh", results="1", attributes="rounding_mode:Rounding@13.2=full", operands="source"),
    _op(107, "trunci", results="1", attributes="overflow:Overflow", operands="from"),
    _op(108, "xori", results="1", operands="lhs rhs"),
    _op(109, "yield", results="n=0", layout="C", operands="operands*"),
    _op(110, "atan2", since=2, results="1", operands="x y"),
    _op(111, "pack", since=3, results="1", operands="source"),
    _op(112, "unpack", since=3, results="1", operands="source"),
    _op(113, "alloca", since=3, results="1", flags="global!", attributes="num_elem:int alignment:int"),
    _op(114, "mmaf_scaled", since=3, results="1", operands="lhs rhs acc lhs_scale rhs_scale"),
    _op(115, "make_gather_scatter_view", since=3, results="1", operands="tensor_view"),
    _op(116, "make_strided_view", since=3, results="1", operands="tensor_view"),
    _op(
        117,
        "atomic_red_view_tko",
        since=3,
        results="n=1",
        flags="token",
        attributes="memory_ordering_semantics:Ordering memory_scope:Scope mode:AtomicMode inbounds:bools@13.5=[]",
        layout="S",
        operands="view index* value token?",
    ),
    _op(118, "insert", since=4, results="n=1", layout="C", operands="source destination indices*"),
    _op(119, "gdc_launch_dependents_tko", since=4, results="1", layout="C", operands="token?"),
    _op(120, "gdc_wait_tko", since=4, results="1", layout="C", operands="token?"),
    _op(121, "fpowi", since=4, results="1", operands="source exponent"),
    _op(122, "memory_fence_alias_tko", since=4, results="1", operands="token"),
    _op(
        123,
        "multimem_load_reduce_view_tko",
        since=5,
        results="n=2",
        flags="memory_scope token",
        attributes="memory_ordering_semantics:Ordering memory_scope?:Scope reduction:Reduction inbounds:bools",
        layout="S",
        operands="view index* token?",
    ),
    _op(
        124,
        "multimem_reduce_view_tko",
        since=5,
        results="n=1",
        flags="token",
        attributes="memory_ordering_semantics:Ordering memory_scope:Scope reduction:Reduction inbounds:bools",
        layout="S",
        operands="view tile index* token?",
    ),
    _op(
        125,
        "multimem_store_view_tko",
        since=5,
        results="n=1",
        flags="memory_scope token",
        attributes="memory_ordering_semantics:Ordering memory_scope?:Scope inbounds:bools",
        layout="S",
        operands="view tile index* token?",
    ),
)
# Ops of the table that files hold in sections of their own, never in bodies.
SECTIONS = ("entry", "global", "module")
BY_NAME: dict[str, OpSpec] = {spec.name: spec for spec in TABLE}
BY_OPCODE: dict[int, OpSpec] = {spec.opcode: spec for spec in TABLE if spec.name not in SECTIONS}
