"""Control-flow graphs: order, dominators and natural loops."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.frontend.cpp.llvm_form import BasicBlock, LLVMFunction
from tilewright.ir.reachable import reachable


class IrreducibleError(Exception):
    """A loop with more than one entry; ``block`` is one of them."""

    def __init__(self, block: str) -> None:
        super().__init__(block)
        self.block = block


@dataclass
class NaturalLoop:
    """``blocks`` contains the header; ``exits`` lists the blocks outside that are reached from inside."""

    header: str
    blocks: set[str]
    latches: list[str]
    exits: list[str] = field(default_factory=list)


class Graph:
    """The blocks that are reachable from the entry. Raises IrreducibleError for jumps into a loop."""

    def __init__(self, function: LLVMFunction) -> None:
        self.blocks: dict[str, BasicBlock] = {b.name: b for b in function.blocks}
        self.entry = function.blocks[0].name
        self.order = self._reverse_postorder()
        self.index = {name: i for i, name in enumerate(self.order)}
        self.predecessors: dict[str, list[str]] = {name: [] for name in self.order}
        for name in self.order:
            for target in self.blocks[name].terminator.labels:
                self.predecessors[target].append(name)
        self.idom = self._dominators()
        self.children: dict[str, list[str]] = {name: [] for name in self.order}
        for name in self.order[1:]:
            self.children[self.idom[name]].append(name)
        self.loops = self._natural_loops()

    def dominates(self, a: str, b: str) -> bool:
        """Whether every way from the entry to block ``b`` goes through block ``a``."""
        while self.index[b] > self.index[a]:
            b = self.idom[b]
        return a == b

    def _reverse_postorder(self) -> list[str]:
        seen = {self.entry}
        postorder: list[str] = []
        stack = [(self.entry, iter(self.blocks[self.entry].terminator.labels))]
        while stack:
            name, targets = stack[-1]
            for target in targets:
                if target not in seen:
                    seen.add(target)
                    stack.append((target, iter(self.blocks[target].terminator.labels)))
                    break
            else:
                postorder.append(name)
                stack.pop()
        return postorder[::-1]

    def _dominators(self) -> dict[str, str]:
        """Immediate dominators, by the iteration of Cooper, Harvey and Kennedy."""
        idom = {self.entry: self.entry}
        changed = True
        while changed:
            changed = False
            for name in self.order[1:]:
                known = [p for p in self.predecessors[name] if p in idom]
                new = known[0]
                for other in known[1:]:
                    a, b = new, other
                    while a != b:
                        while self.index[a] > self.index[b]:
                            a = idom[a]
                        while self.index[b] > self.index[a]:
                            b = idom[b]
                    new = a
                if idom.get(name) != new:
                    idom[name] = new
                    changed = True
        return idom

    def _leading_to(self, latch: str, header: str) -> set[str]:
        """The blocks on the ways from ``header`` to ``latch``, but for ``header``."""
        return set(reachable({latch} - {header}, lambda name: set(self.predecessors[name]) - {header}))

    def _natural_loops(self) -> dict[str, NaturalLoop]:
        loops: dict[str, NaturalLoop] = {}
        for name in self.order:
            for target in self.blocks[name].terminator.labels:
                if self.index[target] > self.index[name]:
                    continue
                if not self.dominates(target, name):
                    raise IrreducibleError(target)
                loop = loops.setdefault(target, NaturalLoop(target, {target}, []))
                loop.latches.append(name)
                loop.blocks |= self._leading_to(name, target)
        for loop in loops.values():
            inside = sorted(loop.blocks, key=self.index.__getitem__)
            left = (target for name in inside for target in self.blocks[name].terminator.labels)
            loop.exits += dict.fromkeys(target for target in left if target not in loop.blocks)
        return loops
