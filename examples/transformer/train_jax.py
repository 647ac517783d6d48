"""Trains the small transformer of tile kernels with JAX: on one device, or with data and tensor parallelism.

    python train_jax.py                             # one device
    python train_jax.py --devices 4 --tensor 2      # 2 x 2: plain jit, arrays with shardings
    python train_jax.py --devices 2 --shard-map     # the data over two devices, by shard_map

Devices are the GPUs that JAX has, or parts of the CPU. The losses are compared with those of the same model made of
JAX's own operators, on one device.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

TOLERANCE = 2e-3  # largest relative difference of a loss: float32 sums in another order, over so many steps
VOCABULARY = 64

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
for _name, _value in (("steps", 20), ("batch", 8), ("length", 48), ("width", 64), ("heads", 4), ("layers", 2)):
    parser.add_argument(f"--{_name}", type=int, default=_value)
parser.add_argument("--devices", type=int, default=1)
parser.add_argument("--tensor", type=int, default=1, help="devices that share the weights of each layer")
parser.add_argument("--shard-map", action="store_true", help="shard_map in place of plain jit")
ARGS = parser.parse_args()
os.environ.setdefault("XLA_FLAGS", f"--xla_force_host_platform_device_count={ARGS.devices}")

import jax  # noqa: E402  its devices are counted when it is imported
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402
from tile_ops import attention, cross_entropy, matmul, norm, swiglu  # noqa: E402

Params = dict[str, Any]
_SPLIT = {"query": 1, "key": 1, "value": 1, "out": 0, "gate": 1, "up": 1, "down": 0}  # the axis over ``tensor``


def parameters() -> Params:
    random, width = np.random.default_rng(0), ARGS.width
    shapes = dict.fromkeys(("query", "key", "value", "out"), (width, width))
    shapes |= {"gate": (width, 2 * width), "up": (width, 2 * width), "down": (2 * width, width)}

    def weights(shape: tuple[int, ...]) -> Any:
        return (random.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32)

    found: Params = {"embedding": weights((VOCABULARY, width)) * 4, "head": weights((width, VOCABULARY))}
    found["norm"] = np.ones(width, np.float32)
    for i in range(ARGS.layers):
        found |= {f"{i} {name}": weights(shape) for name, shape in shapes.items()}
        found |= {f"{i} norm1": np.ones(width, np.float32), f"{i} norm2": np.ones(width, np.float32)}
    return found


def own_norm(x: Any, weight: Any) -> Any:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * weight


def own_attention(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
    scores = jnp.where(jnp.tri(q.shape[2], dtype=bool), scores, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)


def loss_of(params: Params, tokens: Any, targets: Any, tiles: bool) -> Any:
    """The mean loss of the next tokens."""
    batch, length = tokens.shape
    product = matmul if tiles else jnp.matmul
    normed = (lambda x, w: norm(x, w)[0]) if tiles else own_norm
    x = params["embedding"][tokens.reshape(-1)]
    for i in range(ARGS.layers):
        layer = {name: params[f"{i} {name}"] for name in (*_SPLIT, "norm1", "norm2")}
        rows = normed(x, layer["norm1"])
        q, k, v = (
            product(rows, layer[name]).reshape(batch, length, ARGS.heads, -1).transpose(0, 2, 1, 3)
            for name in ("query", "key", "value")
        )
        mixed = attention(q, k, v)[0] if tiles else own_attention(q, k, v)
        x = x + product(mixed.transpose(0, 2, 1, 3).reshape(batch * length, -1), layer["out"])
        rows = normed(x, layer["norm2"])
        gate, up = product(rows, layer["gate"]), product(rows, layer["up"])
        x = x + product(swiglu(gate, up) if tiles else jax.nn.silu(gate) * up, layer["down"])
    logits = product(normed(x, params["norm"]), params["head"])
    wanted = targets.reshape(-1)
    if tiles:
        return cross_entropy(logits, wanted)[0].mean()
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), wanted[:, None], axis=1).mean()


def batches() -> list[tuple[Any, Any]]:
    """Sequences that count up in steps of one to three, from anywhere."""
    random, found = np.random.default_rng(1), []
    for _ in range(ARGS.steps):
        start, stride = random.integers(VOCABULARY, size=(ARGS.batch, 1)), random.integers(1, 4, size=(ARGS.batch, 1))
        sequence = ((start + stride * np.arange(ARGS.length + 1)) % VOCABULARY).astype(np.int32)
        found.append((sequence[:, :-1], sequence[:, 1:]))
    return found


def train(tiles: bool, mesh: Any) -> tuple[list[float], list[float]]:
    """The loss of each step, and its seconds."""

    def gradients(params: Params, tokens: Any, targets: Any) -> Any:
        return jax.value_and_grad(loss_of)(params, tokens, targets, tiles)

    def averaged(params: Params, tokens: Any, targets: Any) -> Any:
        return jax.lax.pmean(gradients(params, tokens, targets), "data")

    compute = gradients
    if mesh is not None and ARGS.shard_map:
        whole, rows = PartitionSpec(), PartitionSpec("data")
        # The operators say along which axes their results differ; averaged() makes all of them equal.
        compute = jax.shard_map(averaged, mesh=mesh, in_specs=(whole, rows, rows), out_specs=whole, check_vma=False)

    @jax.jit
    def step(params: Params, moments: Params, tokens: Any, targets: Any) -> Any:
        loss, grads = compute(params, tokens, targets)
        moments = jax.tree.map(lambda m, g: 0.9 * m + g, moments, grads)
        return jax.tree.map(lambda p, m: p - 0.03 * m, params, moments), moments, loss

    params = jax.tree.map(jnp.asarray, parameters())
    place = jnp.asarray
    if mesh is not None:

        def kind(name: str) -> NamedSharding:
            axis = _SPLIT.get(name.partition(" ")[2]) if ARGS.tensor > 1 else None
            spec = PartitionSpec(*["tensor" if i == axis else None for i in range(2 if axis is not None else 0)])
            return NamedSharding(mesh, spec)

        params = {name: jax.device_put(value, kind(name)) for name, value in params.items()}

        def place(tokens: Any) -> Any:
            return jax.device_put(tokens, NamedSharding(mesh, PartitionSpec("data")))

    moments = jax.tree.map(jnp.zeros_like, params)
    losses, seconds = [], []
    for tokens, targets in batches():
        start = time.perf_counter()
        params, moments, loss = step(params, moments, place(tokens), place(targets))
        losses.append(float(loss))
        seconds.append(time.perf_counter() - start)
    return losses, seconds


def main() -> None:
    mesh = None
    if ARGS.devices > 1:
        devices = np.array(jax.devices()[: ARGS.devices]).reshape(-1, ARGS.tensor)
        mesh = Mesh(devices, ("data", "tensor"))
    expected, plain = train(False, None)
    losses, seconds = train(True, mesh)
    worst = max(abs(a - b) / abs(b) for a, b in zip(losses, expected))
    print(f"{ARGS.devices} x {jax.default_backend()}: loss {losses[0]:.4f} -> {losses[-1]:.4f}", end=", ")
    print(f"{statistics.median(seconds) * 1e3:.1f} ms per step", end=" ")
    print(f"(JAX's own, one device: {statistics.median(plain) * 1e3:.1f})")
    print(f"largest relative difference of a loss: {worst:.1e} (at most {TOLERANCE})")
    if not worst <= TOLERANCE:
        raise SystemExit("the losses differ")


if __name__ == "__main__":
    main()
