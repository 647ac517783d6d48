"""The ops of CUDA Tile IR as data: opcode, fields and the version that brought each of them.

A row is ``opcode name(operands) -> results {attributes} [flags] options``. What is empty is left away; indented lines
go on with a row. Operands: ``name``, ``name?`` for an optional one, ``name*`` for any number. Results: how many,
``n=`` with a count in the file. Attributes: ``name:kind``, ``name?`` when a flag says whether it is there, ``@13.V=x``
when files older than 13.V lack it and mean x. Flags: what bits 0, 1, ... of the flags word say is there; ``name!`` is
an attribute that is its bit. Options: ``layout`` (F fixed, the default, C one count of all operands, S segments),
``regions``, and ``since`` and ``flags_since``, the minor version of 13 that brought the op or its flags.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

# enumeration -> its values, in the order of their numbers
ENUMS: dict[str, tuple[str, ...]] = {
    "AtomicMode": ("and", "or", "xor", "add", "addf", "max", "min", "umax", "umin", "xchg"),
    "FloatOrdering": ("unordered", "ordered"),
    "Predicate": ("equal", "not_equal", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal"),
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


def _op(row: str) -> OpSpec:
    match = _ROW.fullmatch(row)
    assert match is not None, row
    opcode, name, operands, results, attributes, flags, options = match.groups(default="")
    number, _, results_since = (results or "0").partition("@13.")
    counted = number.startswith("n")
    fixed = number.removeprefix("n").removeprefix("=")
    option = dict(o.split("=") for o in options.split())
    return OpSpec(
        int(opcode),
        name,
        int(option.get("since", 1)),
        int(fixed) if fixed else None,
        counted,
        int(results_since or 1),
        tuple(map(_attribute, attributes.split())),
        tuple(f[:-1] for f in flags.split() if f.endswith("!")),
        {f.rstrip("!"): bit for bit, f in enumerate(flags.split())},
        int(option.get("flags_since", 1)),
        tuple(OperandSpec(o.rstrip("?*"), o.endswith("?"), o.endswith("*")) for o in operands.split()),
        option.get("layout", "F"),
        int(option.get("regions", 0)),
    )


_ROW = re.compile(r"(\d+) (\w+)\((.*?)\)(?: -> (\S+))?(?: \{(.*)\})?(?: \[([^]]*)\])?((?: \w+=\w+)*)")
_ROWS = """
0 absf(source) -> 1
1 absi(source) -> 1
2 addf(lhs rhs) -> 1 {rounding_mode:Rounding} [flush_to_zero!]
3 addi(lhs rhs) -> 1 {overflow:Overflow}
4 andi(lhs rhs) -> 1
5 assert(condition) {message:str}
6 assume(value) -> 1 {predicate:predicate}
7 atomic_cas_tko(pointers cmp val mask? token?) -> 2 {memory_ordering_semantics:Ordering memory_scope:Scope}
    [mask token] layout=S
8 atomic_rmw_tko(pointers arg mask? token?) -> 2
    {memory_ordering_semantics:Ordering memory_scope:Scope mode:AtomicMode} [mask token] layout=S
9 bitcast(source) -> 1
10 break(operands*) -> n=0 layout=C
11 broadcast(source) -> 1
12 cat(lhs rhs) -> 1 {dim:int}
13 ceil(source) -> 1
14 cmpf(lhs rhs) -> 1 {comparison_predicate:Predicate comparison_ordering:FloatOrdering}
15 cmpi(lhs rhs) -> 1 {comparison_predicate:Predicate signedness:Signedness}
16 constant() -> 1 {value:const}
17 continue(operands*) -> n=0 layout=C
18 cos(source) -> 1
19 cosh(source) -> 1
20 divf(lhs rhs) -> 1 {rounding_mode:Rounding} [flush_to_zero!]
21 divi(lhs rhs) -> 1 {signedness:Signedness rounding:Rounding}
22 entry() {sym_name:str function_type:type arg_attrs?:array res_attrs?:array optimization_hints?:hints}
    [res_attrs optimization_hints arg_attrs] regions=1
23 exp(source) -> 1 {rounding_mode:Rounding@13.3=full}
24 exp2(source) -> 1 [flush_to_zero!]
37 exti(from) -> 1 {signedness:Signedness}
38 extract(source indices*) -> n=1 layout=C
39 floor(source) -> 1
40 fma(lhs rhs acc) -> 1 {rounding_mode:Rounding} [flush_to_zero!]
41 for(lowerBound upperBound step initValues*) -> n [unsignedCmp!] layout=C regions=1 flags_since=2
42 ftof(from) -> 1 {rounding_mode:Rounding}
43 ftoi(from) -> 1 {signedness:Signedness rounding_mode:Rounding} [saturating!] flags_since=4
44 get_global() -> 1 {name:str}
45 get_index_space_shape(src) -> n
46 get_num_tile_blocks() -> 3
47 get_tensor_shape(src) -> n
48 get_tile_block_id() -> 3
49 global() {sym_name:str value:const alignment:int symbol_visibility:Visibility@13.3=public} [constant!]
    flags_since=3
50 if(condition) -> n regions=2
51 int_to_ptr(source) -> 1
58 iota() -> 1
59 itof(from) -> 1 {signedness:Signedness rounding_mode:Rounding}
60 join_tokens(tokens*) -> n=1 layout=C
61 load_ptr_tko(source mask? paddingValue? token?) -> 2
    {memory_ordering_semantics:Ordering memory_scope?:Scope optimization_hints?:hints}
    [memory_scope optimization_hints mask paddingValue token] layout=S
62 load_view_tko(view index* token?) -> n=2
    {memory_ordering_semantics:Ordering memory_scope?:Scope optimization_hints?:hints inbounds:bools@13.4=[]}
    [memory_scope optimization_hints token] layout=S
63 log(source) -> 1
64 log2(source) -> 1
65 loop(initValues*) -> n layout=C regions=1
66 make_partition_view(tensor_view) -> 1
67 make_tensor_view(base dynamicShape* dynamicStrides*) -> n=1 layout=S
68 make_token() -> 1
69 maxf(lhs rhs) -> 1 [propagate_nan! flush_to_zero!]
70 maxi(lhs rhs) -> 1 {signedness:Signedness}
71 minf(lhs rhs) -> 1 [propagate_nan! flush_to_zero!]
72 mini(lhs rhs) -> 1 {signedness:Signedness}
73 mmaf(lhs rhs acc) -> 1 [fast_acc!] flags_since=3
74 mmai(lhs rhs acc) -> 1 {signedness_lhs:Signedness signedness_rhs:Signedness}
75 module() {sym_name:str producer?:str} [producer] regions=1 flags_since=3
76 mulf(lhs rhs) -> 1 {rounding_mode:Rounding} [flush_to_zero!]
77 mulhii(x y) -> 1
78 muli(lhs rhs) -> 1 {overflow:Overflow}
79 negf(source) -> 1
80 negi(source) -> 1 {overflow:Overflow@13.2=none}
81 offset(ptr offset) -> 1
82 ori(lhs rhs) -> 1
83 permute(source) -> 1 {permutation:i32s}
84 fpowf(source exponent) -> 1
85 print_tko(args* token?) -> n=1@13.2 {str:str} [token] layout=S flags_since=2
86 ptr_to_int(source) -> 1
87 ptr_to_ptr(source) -> 1
88 reduce(operands*) -> n {dim:int identities:array} layout=C regions=1
89 remf(lhs rhs) -> 1
90 remi(lhs rhs) -> 1 {signedness:Signedness}
91 reshape(source) -> 1
92 return(operands*) -> n=0 layout=C
93 rsqrt(source) -> 1 [flush_to_zero!]
94 scan(operands*) -> n {dim:int reverse:bool identities:array} layout=C regions=1
95 select(cond val_if_true val_if_false) -> 1
96 shli(lhs rhs) -> 1 {overflow:Overflow}
97 shri(lhs rhs) -> 1 {signedness:Signedness}
98 sin(source) -> 1
99 sinh(source) -> 1
100 sqrt(source) -> 1 {rounding_mode:Rounding} [flush_to_zero!]
101 store_ptr_tko(destination value mask? token?) -> 1
    {memory_ordering_semantics:Ordering memory_scope?:Scope optimization_hints?:hints}
    [memory_scope optimization_hints mask token] layout=S
102 store_view_tko(tile view index* token?) -> n=1
    {memory_ordering_semantics:Ordering memory_scope?:Scope optimization_hints?:hints inbounds:bools@13.4=[]}
    [memory_scope optimization_hints token] layout=S
103 subf(lhs rhs) -> 1 {rounding_mode:Rounding} [flush_to_zero!]
104 subi(lhs rhs) -> 1 {overflow:Overflow}
105 tan(source) -> 1
106 tanh(source) -> 1 {rounding_mode:Rounding@13.2=full}
107 trunci(from) -> 1 {overflow:Overflow}
108 xori(lhs rhs) -> 1
109 yield(operands*) -> n=0 layout=C
110 atan2(x y) -> 1 since=2
111 pack(source) -> 1 since=3
112 unpack(source) -> 1 since=3
113 alloca() -> 1 {num_elem:int alignment:int} [global!] since=3
114 mmaf_scaled(lhs rhs acc lhs_scale rhs_scale) -> 1 since=3
115 make_gather_scatter_view(tensor_view) -> 1 since=3
116 make_strided_view(tensor_view) -> 1 since=3
117 atomic_red_view_tko(view index* value token?) -> n=1
    {memory_ordering_semantics:Ordering memory_scope:Scope mode:AtomicMode inbounds:bools@13.5=[]} [token]
    layout=S since=3
118 insert(source destination indices*) -> n=1 layout=C since=4
119 gdc_launch_dependents_tko(token?) -> 1 layout=C since=4
120 gdc_wait_tko(token?) -> 1 layout=C since=4
121 fpowi(source exponent) -> 1 since=4
122 memory_fence_alias_tko(token) -> 1 since=4
123 multimem_load_reduce_view_tko(view index* token?) -> n=2
    {memory_ordering_semantics:Ordering memory_scope?:Scope reduction:Reduction inbounds:bools} [memory_scope token]
    layout=S since=5
124 multimem_reduce_view_tko(view tile index* token?) -> n=1
    {memory_ordering_semantics:Ordering memory_scope:Scope reduction:Reduction inbounds:bools} [token]
    layout=S since=5
125 multimem_store_view_tko(view tile index* token?) -> n=1
    {memory_ordering_semantics:Ordering memory_scope?:Scope inbounds:bools} [memory_scope token] layout=S since=5
"""
TABLE = tuple(_op(row) for row in _ROWS.strip().replace("\n    ", " ").splitlines())
# Ops of the table that files hold in sections of their own, never in bodies.
SECTIONS = ("entry", "global", "module")
BY_NAME: dict[str, OpSpec] = {spec.name: spec for spec in TABLE}
BY_OPCODE: dict[int, OpSpec] = {spec.opcode: spec for spec in TABLE if spec.name not in SECTIONS}
