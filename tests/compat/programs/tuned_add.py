"""Tuning: a search over tile sizes and hints, then a launch with what won."""

from dataclasses import dataclass

import cuda.tile as ct
import cuda.tile.tune
import torch
from cuda.tile.tune import exhaustive_search


@dataclass(frozen=True)
class Config:
    tile: int
    occupancy: int


@ct.kernel
def scale_add(x, y, out, alpha: float, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, i, ct.load(x, i, TILE) * alpha + ct.load(y, i, TILE))


n = 4096
x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
out = torch.empty_like(x)
space = [Config(tile, occupancy) for tile in (256, 1024) for occupancy in (1, 2)]
result = exhaustive_search(
    space,
    torch.cuda.current_stream(),
    lambda c: (ct.cdiv(n, c.tile), 1, 1),
    scale_add,
    lambda c: (x, y, out, 2.0, c.tile),
    lambda c: {"occupancy": c.occupancy},
    quiet=True,
)
best = result.best.config
assert best in space and ct.tune is cuda.tile.tune and result.best.mean_us > 0
assert len(result.successes) + len(result.failures) == len(space) and "tile" in result.summary()
kernel = scale_add.replace_hints(occupancy=best.occupancy)
out.zero_()
ct.launch(torch.cuda.current_stream(), (ct.cdiv(n, best.tile),), kernel, (x, y, out, 2.0, best.tile))
torch.testing.assert_close(out, 2 * x + y)
print("tuned add: ok")
