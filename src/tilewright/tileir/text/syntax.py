"""How each op is written in the text form: a template that the printer fills and the parser follows.

What is in braces stands for a part of the op, the rest for itself:

``{x}``                the operand, operands or attribute x
``{t x}``              the type of the operand x
``{r}``, ``{r0}``      the types of the results; the one type of all of them
``{flag x}``           the word x when the attribute is set
``{opt x d w}``        ``w<value>`` unless x has its default d; ``{custom x d w}`` the same without a space before it
``{word x}``           the value of the optional attribute x
``{comma x}``          a comma and the optional or variadic operand x; ``{ctype x}`` a comma and its type
``{types x}``          ``: `` and the types of x, if there are any
``{tok w}``            the word w and the operand ``token``, if there is one
``{index}``            the types of indices; ``{hints}``, ``{inbounds}`` and ``{reduction}`` those attributes
"""

from __future__ import annotations

import re

_FLOAT = "{lhs}, {rhs} {custom rounding_mode nearest_even rounding}{flag flush_to_zero} : {r}"
_INTEGER = "{lhs}, {rhs}{opt overflow none overflow} : {r}"
_SIGNED = "{lhs}, {rhs} {signedness} : {r}"
_BITS = "{lhs}, {rhs} : {r}"
_UNARY = "{source} : {r}"
_FLUSHED = "{source}{flag flush_to_zero} : {r}"
_CONVERT = "{source} : {t source} -> {r}"
_MINMAX = "{lhs}, {rhs}{flag flush_to_zero}{flag propagate_nan} : {r}"
_ORDER = "{memory_ordering_semantics}{word memory_scope}"

TEMPLATES: dict[str, str] = {
    **dict.fromkeys(("addf", "subf", "mulf", "divf"), _FLOAT),
    **dict.fromkeys(("addi", "subi", "muli", "shli"), _INTEGER),
    **dict.fromkeys(("maxi", "mini", "remi", "shri"), _SIGNED),
    **dict.fromkeys(("andi", "ori", "xori", "remf"), _BITS),
    **dict.fromkeys(("atan2", "mulhii"), "{x}, {y} : {r}"),
    **dict.fromkeys(
        ("absf", "absi", "negf", "ceil", "floor", "cos", "cosh", "log", "log2", "sin", "sinh", "tan"), _UNARY
    ),
    **dict.fromkeys(("exp2", "rsqrt"), _FLUSHED),
    **dict.fromkeys(("exp", "tanh"), "{source} {custom rounding_mode full rounding} : {r}"),
    **dict.fromkeys(
        ("bitcast", "broadcast", "int_to_ptr", "pack", "ptr_to_int", "ptr_to_ptr", "reshape", "unpack"), _CONVERT
    ),
    **dict.fromkeys(("maxf", "minf"), _MINMAX),
    **dict.fromkeys(("get_tile_block_id", "get_num_tile_blocks"), ": {r0}"),
    **dict.fromkeys(("get_tensor_shape", "get_index_space_shape"), "{src} : {t src} -> {r0}"),
    **dict.fromkeys(("make_partition_view", "make_strided_view", "make_gather_scatter_view"), "{tensor_view} : {r}"),
    **dict.fromkeys(("gdc_launch_dependents_tko", "gdc_wait_tko"), "{tok token = } -> {r}"),
    **dict.fromkeys(("break", "continue", "return", "yield"), "{operands}{types operands}"),
    "alloca": "num_elem = {num_elem}, alignment = {alignment}{flag global} : {r}",
    "assert": "{condition}, {message} : {t condition}",
    "assume": "{predicate}, {value} : {r}",
    "atomic_cas_tko": _ORDER
    + " {pointers}, {cmp}, {val}{comma mask}{tok token=} : {t pointers}, {t val}{ctype mask} -> {r}",
    "atomic_red_view_tko": _ORDER
    + " {view}[{index}], {mode}, {value}{tok token = }{inbounds} : {t value}, {t view}, {indices} -> {r}",
    "atomic_rmw_tko": _ORDER
    + " {pointers}, {mode}, {arg}{comma mask}{tok token=} : {t pointers}, {t arg}{ctype mask} -> {r}",
    "cat": "{lhs}, {rhs} dim = {dim} : {t lhs}, {t rhs} -> {r}",
    "cmpf": "{comparison_predicate} {comparison_ordering} {lhs}, {rhs} : {t lhs} -> {r}",
    "cmpi": "{comparison_predicate} {lhs}, {rhs}, {signedness} : {t lhs} -> {r}",
    "divi": "{lhs}, {rhs} {signedness}{opt rounding zero rounding} : {r}",
    "extract": "{source}[{indices}] : {t source} -> {r}",
    "exti": "{from} {signedness} : {t from} -> {r}",
    "fma": "{lhs}, {rhs}, {acc} {custom rounding_mode nearest_even rounding}{flag flush_to_zero} : {r}",
    "fpowf": "{source}, {exponent} : {r}",
    "fpowi": "{source}, {exponent} : {r}, {t exponent}",
    "ftof": "{from} {custom rounding_mode nearest_even rounding} : {t from} -> {r}",
    "ftoi": "{from} {signedness} {custom rounding_mode nearest_int_to_zero rounding}{flag saturating}"
    " : {t from} -> {r}",
    "get_global": "@{name} : {r}",
    "insert": "{source}, {destination}[{indices}] : {t source}, {r}",
    "iota": ": {r}",
    "itof": "{from} {signedness} {custom rounding_mode nearest_even rounding} : {t from} -> {r}",
    "join_tokens": "{tokens} : {r}",
    "load_ptr_tko": _ORDER + " {source}{comma mask}{comma paddingValue}{tok token=}{hints}"
    " : {t source}{ctype mask}{ctype paddingValue} -> {r}",
    "load_view_tko": _ORDER + " {view}[{index}]{tok token = }{hints}{inbounds} : {t view}, {indices} -> {r}",
    "make_token": ": {r}",
    "memory_fence_alias_tko": "{token}",
    "mmaf": "{lhs}, {rhs}, {acc}{flag fast_acc} : {t lhs}, {t rhs}, {r}",
    "mmaf_scaled": "{lhs}, {rhs}, {acc}, {lhs_scale}, {rhs_scale}"
    " : {t lhs}, {t rhs}, {r}, {t lhs_scale}, {t rhs_scale}",
    "mmai": "{lhs}, {rhs}, {acc} {signedness_lhs} {signedness_rhs} : {t lhs}, {t rhs}, {r}",
    "multimem_load_reduce_view_tko": _ORDER
    + " {view}[{index}] {ctok}{cinbounds}{reduction} : {t view}, {indices}{ctype token} -> {r}",
    "multimem_reduce_view_tko": _ORDER
    + " {view}, {tile}[{index}] {ctok}{cinbounds}{reduction} : {t view}, {t tile}, {indices}{ctype token} -> {r}",
    "multimem_store_view_tko": _ORDER
    + " {view}, {tile}[{index}] {ctok}{cinbounds} : {t view}, {t tile}, {indices}{ctype token} -> {r}",
    "negi": "{source}{opt overflow none overflow} : {r}",
    "offset": "{ptr}, {offset} : {t ptr}, {t offset} -> {r}",
    "permute": "{source} {permutation} : {t source} -> {r}",
    "print_tko": "{str}{comma args}{tok token=}{types args} -> {r}",
    "select": "{cond}, {val_if_true}, {val_if_false} : {t cond}, {r}",
    "sqrt": "{source} {custom rounding_mode nearest_even rounding}{flag flush_to_zero} : {r}",
    "store_ptr_tko": _ORDER
    + " {destination}, {value}{comma mask}{tok token=}{hints} : {t destination}, {t value}{ctype mask} -> {r}",
    "store_view_tko": _ORDER
    + " {tile}, {view}[{index}]{tok token = }{hints}{inbounds} : {t tile}, {t view}, {indices} -> {r}",
    "trunci": "{from}{opt overflow none overflow} : {t from} -> {r}",
}
_PART = re.compile(r"\{([^}]*)\}")


def parts(template: str) -> list[tuple[str, ...]]:
    """A template as parts: ``("", text)`` for text, words for what is in braces."""
    found: list[tuple[str, ...]] = []
    for i, text in enumerate(_PART.split(template)):
        if i % 2:
            found.append(tuple(text.split()))
        elif text:
            found.append(("", text))
    return found


PARTS: dict[str, list[tuple[str, ...]]] = {name: parts(template) for name, template in TEMPLATES.items()}
# Ops whose several results the text form lists, rather than numbers.
LISTED = (
    "atomic_cas_tko",
    "atomic_rmw_tko",
    "get_num_tile_blocks",
    "get_tile_block_id",
    "load_ptr_tko",
    "load_view_tko",
    "multimem_load_reduce_view_tko",
)
