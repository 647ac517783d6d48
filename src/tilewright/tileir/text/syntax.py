"""How each op is written in the text form: a template that the printer fills and the parser follows.

What is in braces stands for a part of the op, the rest for itself. A part is an operand, operands or an attribute, by
its name, or of a kind, for which both have a method with that name:

``type x``                   the type of the operand x; ``types x`` a colon and those of the operands x, if any
``made``, ``same``           the types of the results; the one type of all of them
``flag x``                   the word x when the attribute is set
``option x d w``             ``w<value>`` unless x has its default d; ``custom x d w`` without a space before it
``word x``                   the value of the optional attribute x
``comma x``                  a comma and the optional or variadic operand x; ``comma_type x`` a comma and its type
``after w``                  the word w and the operand ``token``, if there is one; ``close_after w`` without a space
``index``, ``indices``       indices, and their types; ``hints``, ``inbounds`` and ``reduction`` those attributes
"""

from __future__ import annotations

import re

_FLOAT = "{lhs}, {rhs} {custom rounding_mode nearest_even rounding}{flag flush_to_zero} : {made}"
_INTEGER = "{lhs}, {rhs}{option overflow none overflow} : {made}"
_SIGNED = "{lhs}, {rhs} {signedness} : {made}"
_BITS = "{lhs}, {rhs} : {made}"
_UNARY = "{source} : {made}"
_FLUSHED = "{source}{flag flush_to_zero} : {made}"
_CONVERT = "{source} : {type source} -> {made}"
_MINMAX = "{lhs}, {rhs}{flag flush_to_zero}{flag propagate_nan} : {made}"
_ORDER = "{memory_ordering_semantics}{word memory_scope}"

TEMPLATES: dict[str, str] = {
    **dict.fromkeys(("addf", "subf", "mulf", "divf"), _FLOAT),
    **dict.fromkeys(("addi", "subi", "muli", "shli"), _INTEGER),
    **dict.fromkeys(("maxi", "mini", "remi", "shri"), _SIGNED),
    **dict.fromkeys(("andi", "ori", "xori", "remf"), _BITS),
    **dict.fromkeys(("atan2", "mulhii"), "{x}, {y} : {made}"),
    **dict.fromkeys(
        ("absf", "absi", "negf", "ceil", "floor", "cos", "cosh", "log", "log2", "sin", "sinh", "tan"), _UNARY
    ),
    **dict.fromkeys(("exp2", "rsqrt"), _FLUSHED),
    **dict.fromkeys(("exp", "tanh"), "{source} {custom rounding_mode full rounding} : {made}"),
    **dict.fromkeys(
        ("bitcast", "broadcast", "int_to_ptr", "pack", "ptr_to_int", "ptr_to_ptr", "reshape", "unpack"), _CONVERT
    ),
    **dict.fromkeys(("maxf", "minf"), _MINMAX),
    **dict.fromkeys(("get_tile_block_id", "get_num_tile_blocks"), ": {same}"),
    **dict.fromkeys(("get_tensor_shape", "get_index_space_shape"), "{src} : {type src} -> {same}"),
    **dict.fromkeys(("make_partition_view", "make_strided_view", "make_gather_scatter_view"), "{tensor_view} : {made}"),
    **dict.fromkeys(("gdc_launch_dependents_tko", "gdc_wait_tko"), "{after token = } -> {made}"),
    **dict.fromkeys(("break", "continue", "return", "yield"), "{operands}{types operands}"),
    "alloca": "num_elem = {num_elem}, alignment = {alignment}{flag global} : {made}",
    "assert": "{condition}, {message} : {type condition}",
    "assume": "{predicate}, {value} : {made}",
    "atomic_cas_tko": _ORDER
    + " {pointers}, {cmp}, {val}{comma mask}{after token=} : {type pointers}, {type val}{comma_type mask} -> {made}",
    "atomic_red_view_tko": _ORDER
    + " {view}[{index}], {mode}, {value}{after token = }{inbounds} : {type value}, {type view}, {indices} -> {made}",
    "atomic_rmw_tko": _ORDER
    + " {pointers}, {mode}, {arg}{comma mask}{after token=} : {type pointers}, {type arg}{comma_type mask} -> {made}",
    "cat": "{lhs}, {rhs} dim = {dim} : {type lhs}, {type rhs} -> {made}",
    "cmpf": "{comparison_predicate} {comparison_ordering} {lhs}, {rhs} : {type lhs} -> {made}",
    "cmpi": "{comparison_predicate} {lhs}, {rhs}, {signedness} : {type lhs} -> {made}",
    "divi": "{lhs}, {rhs} {signedness}{option rounding zero rounding} : {made}",
    "extract": "{source}[{indices}] : {type source} -> {made}",
    "exti": "{from} {signedness} : {type from} -> {made}",
    "fma": "{lhs}, {rhs}, {acc} {custom rounding_mode nearest_even rounding}{flag flush_to_zero} : {made}",
    "fpowf": "{source}, {exponent} : {made}",
    "fpowi": "{source}, {exponent} : {made}, {type exponent}",
    "ftof": "{from} {custom rounding_mode nearest_even rounding} : {type from} -> {made}",
    "ftoi": "{from} {signedness} {custom rounding_mode nearest_int_to_zero rounding}{flag saturating}"
    " : {type from} -> {made}",
    "get_global": "{name} : {made}",
    "insert": "{source}, {destination}[{indices}] : {type source}, {made}",
    "iota": ": {made}",
    "itof": "{from} {signedness} {custom rounding_mode nearest_even rounding} : {type from} -> {made}",
    "join_tokens": "{tokens} : {made}",
    "load_ptr_tko": _ORDER + " {source}{comma mask}{comma paddingValue}{after token=}{hints}"
    " : {type source}{comma_type mask}{comma_type paddingValue} -> {made}",
    "load_view_tko": _ORDER + " {view}[{index}]{after token = }{hints}{inbounds} : {type view}, {indices} -> {made}",
    "make_token": ": {made}",
    "memory_fence_alias_tko": "{token}",
    "mmaf": "{lhs}, {rhs}, {acc}{flag fast_acc} : {type lhs}, {type rhs}, {made}",
    "mmaf_scaled": "{lhs}, {rhs}, {acc}, {lhs_scale}, {rhs_scale}"
    " : {type lhs}, {type rhs}, {made}, {type lhs_scale}, {type rhs_scale}",
    "mmai": "{lhs}, {rhs}, {acc} {signedness_lhs} {signedness_rhs} : {type lhs}, {type rhs}, {made}",
    "multimem_load_reduce_view_tko": _ORDER
    + " {view}[{index}] {close_after}{close_inbounds}{reduction} : {type view}, {indices}{comma_type token} -> {made}",
    "multimem_reduce_view_tko": _ORDER + " {view}, {tile}[{index}] {close_after}{close_inbounds}{reduction}"
    " : {type view}, {type tile}, {indices}{comma_type token} -> {made}",
    "multimem_store_view_tko": _ORDER + " {view}, {tile}[{index}] {close_after}{close_inbounds}"
    " : {type view}, {type tile}, {indices}{comma_type token} -> {made}",
    "negi": "{source}{option overflow none overflow} : {made}",
    "offset": "{ptr}, {offset} : {type ptr}, {type offset} -> {made}",
    "permute": "{source} {permutation} : {type source} -> {made}",
    "print_tko": "{str}{comma args}{after token=}{types args} -> {made}",
    "select": "{cond}, {val_if_true}, {val_if_false} : {type cond}, {made}",
    "sqrt": "{source} {custom rounding_mode nearest_even rounding}{flag flush_to_zero} : {made}",
    "store_ptr_tko": _ORDER + " {destination}, {value}{comma mask}{after token=}{hints}"
    " : {type destination}, {type value}{comma_type mask} -> {made}",
    "store_view_tko": _ORDER
    + " {tile}, {view}[{index}]{after token = }{hints}{inbounds} : {type tile}, {type view}, {indices} -> {made}",
    "trunci": "{from}{option overflow none overflow} : {type from} -> {made}",
}
KINDS = {
    *("type", "types", "made", "same", "flag", "option", "custom", "word", "comma", "comma_type", "after"),
    *("close_after", "index", "indices", "hints", "inbounds", "close_inbounds", "reduction"),
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
