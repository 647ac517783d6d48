"""What a call of an operator costs beyond ``ct.launch``: PyTorch eager and compiled, and JAX inside of jit.

    python benchmarks/operators.py          # on the CPU
    python benchmarks/operators.py cuda     # PyTorch on a GPU: the time until a launch is queued

Times are medians over turns in which the sides alternate, in microseconds per call that this process runs, so that
other programs do not count.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import tilewright as ct

_TURNS, _CALLS, _CHAIN = 15, 1000, 20


@ct.kernel
def add_kernel(a: Any, b: Any, out: Any, TILE: ct.Constant[int]) -> None:
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(a, (i,), (TILE,)) + ct.load(b, (i,), (TILE,)))


add = ct.op("benchmark::add", "n, n -> n", kernel=add_kernel, grid={"n": 256}, constants=(256,))


def in_turns(
    sides: dict[str, Callable[[], Any]], calls: int = _CALLS, sync: Callable[[], Any] = lambda: None
) -> dict[str, float]:
    """The microseconds of a call of each side."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for side in sides.values():
        for _ in range(20):
            side()
    gc.collect()
    gc.disable()  # as timeit does
    for _ in range(_TURNS):
        for name, side in sides.items():
            sync()
            start = time.process_time()
            for _ in range(calls):
                side()
            found[name].append((time.process_time() - start) / calls * 1e6)
    return {name: statistics.median(times) for name, times in found.items()}


def torch_costs(device: str) -> None:
    torch: Any = importlib.import_module("torch")
    a, b, out = (torch.ones(256, device=device) for _ in range(3))

    def chain(count: int) -> Callable[..., Any]:
        def program(x: Any, y: Any) -> Any:
            for _ in range(count):
                x = add(x, y)
            return x

        return torch.compile(program, fullgraph=True)

    stream = None if device == "cpu" else torch.cuda.current_stream()
    one, many = chain(1), chain(_CHAIN)
    with torch.no_grad():
        found = in_turns(
            {
                "launch": lambda: ct.launch(stream, (1,), add_kernel, (a, b, out, 256)),
                "eager": lambda: add(a, b),
                "one": lambda: one(a, b),
                "many": lambda: many(a, b),
            },
            calls=200,
            sync=torch.cuda.synchronize if device != "cpu" else lambda: None,
        )
    compiled = (found["many"] - found["one"]) / (_CHAIN - 1)
    launch = found["launch"]
    print(f"PyTorch {torch.__version__} on {device}: ct.launch {launch:.1f} us")
    print(f"  eager {found['eager']:.1f} us: {found['eager'] - launch:.1f} over ct.launch (goal: 15)")
    print(f"  in torch.compile {compiled:.1f} us: {compiled - launch:.1f} over ct.launch (goal: 10)")


def jax_costs() -> None:
    jax: Any = importlib.import_module("jax")
    jnp = jax.numpy
    x = jnp.ones(256)

    def per_call(op: Callable[[Any, Any], Any], sides: dict[str, Callable[[], Any]], name: str) -> None:
        for count in (1, _CHAIN):

            def program(x: Any, y: Any, count: int = count) -> Any:
                for _ in range(count):
                    x = op(x, y)
                return x

            compiled = jax.jit(program)
            sides[f"{name} {count}"] = lambda compiled=compiled: compiled(x, x).block_until_ready()  # type: ignore[misc]

    def product(x: Any, y: Any) -> Any:
        return (x.reshape(16, 16) @ y.reshape(16, 16)).reshape(256)

    own = {"an operator": add, "XLA's 16 x 16 product": product, "XLA's sort": lambda x, y: jnp.sort(x + y)}
    sides: dict[str, Callable[[], Any]] = {}
    for name, op in own.items():
        per_call(op, sides, name)
    found = in_turns(sides, calls=200)
    print(f"JAX {jax.__version__} on {jax.default_backend()}, per call in one jit:")
    for name in own:
        print(f"  {name}: {(found[f'{name} {_CHAIN}'] - found[f'{name} 1']) / (_CHAIN - 1):.2f} us")


if __name__ == "__main__":
    chosen = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    if importlib.util.find_spec("torch"):
        torch_costs(chosen)
    if importlib.util.find_spec("jax") and chosen == "cpu":
        jax_costs()
