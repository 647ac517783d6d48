"""What ptxas compiles wrongly: left operands of products, in registers that the loop around does not set."""

from __future__ import annotations

import re

_PRODUCT = re.compile(r"wgmma\.mma_async.*\}, \{([^}]*)\}, %rd")
_RESULTS = re.compile(r"^\s*(?:@!?%p\d+ )?[a-z][\w.:]*\s+(?:\{([^}]*)\}|(%r\d+)),", re.MULTILINE)


def clobbered(text: str) -> list[int]:
    """The lines of PTX with products in loops of which others read from registers, too, and set those."""
    lines = text.split("\n")
    labels = {found[1]: at for at, line in enumerate(lines) if (found := re.match(r"(\$L__BB\w+):", line))}
    jumps = [
        (labels.get(found[1], at), at)
        for at, line in enumerate(lines)
        if (found := re.search(r"bra(?:\.uni)?\s+(\$L__BB\w+);", line))
    ]
    products = [(at, _registers(found[1])) for at, line in enumerate(lines) if (found := _PRODUCT.search(line))]
    wrong = set()
    for first, last in jumps:
        inside = [(at, left) for at, left in products if first < at < last]
        body = "\n".join(line for line in lines[first:last] if "wgmma.mma_async" not in line) if len(inside) > 1 else ""
        made = {name for several, one in _RESULTS.findall(body) for name in _registers(several or one)}
        for at, left in inside:
            if not left & made and any(other != left and other & made for _, other in inside):
                wrong.add(at + 1)
    return sorted(wrong)


def _registers(text: str) -> set[str]:
    return set(re.findall(r"%r\d+", text))
