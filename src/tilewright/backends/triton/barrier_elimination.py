"""Barriers of a block that order nothing are left out of PTX.

Triton puts a barrier between any two ops on the same shared memory, and takes for such also what only starts a load of
the TMA unit: the load itself, and the arrival at its barrier in memory that says how many bytes will come. What may
go on without a barrier between the threads, and why:

- Starts, after starts. They change two counts of the barrier in memory, in any order: of bytes, which may be negative,
  and of arrivals, of which there is one. Until it has been made, the phase of the barrier does not end.
- Waits for loads, and uses of shared memory, after starts. A start only has an effect on shared memory that who uses it
  has waited for.
- Waits and uses, after waits. Every thread waits itself for every load, and sees what has been loaded by then.
- Reads of shared memory, and waits, after reads: nobody changes what is read.
- The making of barriers in memory after that of others, and their end after that of others.
- A meeting of the threads of a cluster, before and after anything: each of them comes and goes for itself, and what
  loads of the other block do here comes after a meeting that every thread of this one has come to.

Before all else a barrier stays. After a use, a start may overwrite what other threads still use; after a wait, another
load with the same barrier may end before a thread has seen the first one end, which it then misses; a barrier in memory
has to be there for all threads before its first use, and until after its last one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilewright.backends.triton.ptx import Statement, statements, successors
from tilewright.ir.reachable import reachable

_KINDS = {
    "barrier": re.compile(r"bar\.sync\s+0"),
    "init": re.compile(r"mbarrier\.init\.shared::cta\.b64 \[\S+\], 1"),
    "inval": re.compile(r"mbarrier\.inval\.shared::cta\.b64 \[\S+\]"),
    "start": re.compile(
        r"mbarrier\.arrive\.expect_tx\.shared(::cta)?\.b64 _, .*|"
        r"cp\.async\.bulk\.tensor\.\dd\.shared::(cta|cluster)\.global\.mbarrier::complete_tx::bytes"
        r"(\.multicast::cluster)? .*"
    ),
    "wait": re.compile(r"mbarrier\.try_wait\.parity\.shared(::cta)?\.b64 complete, .*"),
    "read": re.compile(
        r"(wgmma|ld\.shared|ldmatrix)\..*|"
        r"cp\.async\.bulk\.(tensor\.\dd\.global\.shared::cta\.bulk_group .*|commit_group|wait_group.*)"
    ),
    "use": re.compile(r"(st\.shared|stmatrix)\..*|fence\.proxy\.async\.shared::cta"),
    "none": re.compile(r"ld\.param\..*|[\w$]+:"),
    "meeting": re.compile(
        r"barrier\.cluster\.(arrive\.(relaxed|release)|wait(\.acquire)?)\.aligned|"
        r"fence\.mbarrier_init\.release\.cluster"
    ),
}
# Instructions on registers alone, and those of which unknown forms may let threads go on otherwise than is said above.
_REGISTERS = re.compile(
    r"abs|add|and|bfe|bfi|bra|brev|clz|copysign|cos|cvt|cvta|div|elect|ex2|fma|lg2|lop3|mad|max|min|mov|mul|neg|not|or|"
    r"popc|prmt|rcp|redux|rem|ret|rsqrt|selp|set|setp|shfl|shl|shr|sin|slct|sqrt|sub|tanh|testp|vote|xor"
)
_DECISIVE = re.compile(r"bar|barrier|brx|call|exit|mapa|mbarrier|setmaxnreg|tcgen05|trap")
_FREE = {  # what may follow without a barrier
    "init": {"init"},
    "inval": {"inval"},
    "start": {"start", "wait", "read", "use"},
    "wait": {"wait", "read", "use"},
    "read": {"wait", "read"},
}
_SPIN = "waitLoop:"  # the label of each wait, of a scope of its own
_AGAIN = ("!complete", "bra.uni waitLoop")


def eliminate(text: str) -> str:
    """``text`` without barriers that order nothing; as it is when there are forms in it that are not known."""
    lines = text.split("\n")
    body = [s for s in statements(lines) if s.text != _SPIN and (s.guard, s.text) != _AGAIN]
    kinds = [_kind(s) for s in body]
    alone = ".func" not in text and ".explicitcluster" not in text
    if not alone or text.count(_SPIN) != kinds.count("wait") or not _is_known(body, kinds):
        return text
    after = successors(body)
    before = _inverse(after)
    kept = {at for at, kind in enumerate(kinds) if kind == "barrier"}
    gone = set()
    for at in sorted(kept):
        behind = _reached(at, after, kinds, kept)
        if all(behind <= _FREE.get(kind, set()) for kind in _reached(at, before, kinds, kept)):
            kept.remove(at)
            gone.add(body[at].line)
    return "\n".join(line for at, line in enumerate(lines) if at not in gone)


def _kind(s: Statement) -> str:
    """One of _KINDS, "other", or "unknown" where nothing can be said about any barrier."""
    found = next((kind for kind, form in _KINDS.items() if form.fullmatch(s.text)), None)
    if found in ("barrier", "wait", "meeting") and s.guard:
        return "unknown"
    if found is not None:
        return found
    if _REGISTERS.fullmatch(s.opcode):
        return "none"
    return "unknown" if _DECISIVE.fullmatch(s.opcode) else "other"


def _is_known(body: Sequence[Statement], kinds: Sequence[str]) -> bool:
    """Whether nothing is unknown, and all threads wait: where a barrier of the block is in the same straight line."""
    targets = {s.target for s in body}
    if "unknown" in kinds or not targets <= {None, *(s.text for s in body)}:
        return False
    parts: list[set[str]] = [set()]
    for s, kind in zip(body, kinds):
        if s.text in targets:
            parts.append(set())
        parts[-1].add(kind)
        if s.target is not None:
            parts.append(set())
    return all("wait" not in part or "barrier" in part for part in parts)


def _inverse(edges: Sequence[Sequence[int]]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in edges]
    for at, targets in enumerate(edges):
        for target in targets:
            found[target].append(at)
    return found


def _reached(start: int, edges: Sequence[Sequence[int]], kinds: Sequence[str], barriers: set[int]) -> set[str]:
    """The kinds of statements between the one at ``start`` and the nearest ``barriers`` along ``edges``."""
    between = reachable(edges[start], lambda at: () if at in barriers else edges[at])
    return {kinds[at] for at in between} - {"none", "barrier", "meeting"}
