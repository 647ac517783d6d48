# %% [markdown]
# # Tuning a kernel
#
# Which tile is the fastest depends on the machine and on the shapes. This notebook measures, refuses a configuration
# that is fast and wrong, and remembers the answer.

# %%
import os

import numpy as np

import tilewright as ct

# %% [markdown]
# ## What may vary
#
# A transpose moves a tile of `ROWS` by `COLUMNS` elements. Any two powers of two are right; how fast they are differs.


# %%
@ct.kernel
def transpose(x, out, ROWS: ct.Constant[int], COLUMNS: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(out, (j, i), ct.load(x, (i, j), (ROWS, COLUMNS)).transpose())


x = np.random.default_rng(0).standard_normal((520, 424), dtype=np.float32)

# %% [markdown]
# ## Measure everything
#
# The first argument is a list of configurations, which may be any objects; two functions say what grid and which
# arguments belong to one.


# %%
def grid(tile):
    return ct.cdiv(x.shape[0], tile[0]), ct.cdiv(x.shape[1], tile[1])


def arguments(tile):
    return x, np.empty((424, 520), np.float32), *tile


tiles = [(8, 8), (16, 16), (32, 32), (64, 64), (8, 64), (64, 8)]
result = ct.tune.exhaustive_search(tiles, None, grid, transpose, arguments, quiet=True)
result

# %%
slowest = max(result.successes, key=lambda measured: measured.mean_us)
result.best.config, round(slowest.mean_us / result.best.mean_us, 1)

# %% [markdown]
# The times are those of the machine that ran this notebook.
#
# ## Refuse what is wrong
#
# A faster kernel that is wrong is no use. This one leaves out every tile that sticks out of the array.
# Tiles of 8 fit; others do not:


# %%
@ct.kernel
def hasty(x, out, T: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    if (i + 1) * T <= x.shape[0] and (j + 1) * T <= x.shape[1]:
        ct.store(out, (j, i), ct.load(x, (i, j), (T, T)).transpose())


gate = ct.tune.Gate(
    reference=lambda x, out, T: np.copyto(out, x.T),
    grid_fn=lambda T: (ct.cdiv(40, T), ct.cdiv(24, T)),
    args_fn=lambda T: (x[:40, :24].copy(), np.empty((24, 40), np.float32), T),
)
checked = ct.tune.exhaustive_search(
    [8, 16, 32],
    None,
    lambda T: (ct.cdiv(520, T), ct.cdiv(424, T)),
    hasty,
    lambda T: (x, np.empty((424, 520), np.float32), T),
    gate=gate,
    quiet=True,
)
assert [measured.config for measured in checked.successes] == [8]
checked

# %% [markdown]
# The gate runs each configuration on a small problem under the sanitizer, looks for elements that nothing wrote, and
# compares with the reference.
#
# ## Search, remember, launch
#
# A `Tuner` goes from a good guess to its neighbours, stops when nothing gets better, and keeps what it found on disk:
# later launches, and later processes, do not search.

# %%
tuner = ct.tune.Tuner(
    transpose,
    ct.tune.space(rows=(16, 8, 32, 64), columns=(16, 8, 32, 64)),
    lambda config, x, out: (ct.cdiv(x.shape[0], config["rows"]), ct.cdiv(x.shape[1], config["columns"])),
    lambda config, x, out: (x, out, config["rows"], config["columns"]),
    quiet=True,
)
out = np.empty((424, 520), np.float32)
tuner.launch(None, x, out)
np.testing.assert_array_equal(out, x.T)
print(f"on {os.cpu_count()} processors")
