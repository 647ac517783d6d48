# %% [markdown]
# # A hunt with the sanitizer
#
# Two bugs that tests often miss, because the result may well be right on this machine: an access outside of an array,
# and a race. The sanitizer watches every operation of a launch, and reports what a correct program does not do.

# %%
import numpy as np

import tilewright as ct

# %% [markdown]
# ## The suspect
#
# A block looks at 16 samples, which have one class, and counts how many of them are followed by a greater one. There
# is a counter for each class, to which the block adds.


# %%
@ct.kernel
def rises(samples, kinds, counts, TILE: ct.Constant[int]):
    place = ct.bid(0) * TILE + ct.arange(TILE, dtype=ct.int32)
    here = ct.gather(samples, place, check_bounds=False)
    after = ct.gather(samples, place + 1, check_bounds=False)
    kind = ct.gather(kinds, ct.bid(0))
    rising = ct.sum(ct.where(after > here, 1, 0))
    ct.scatter(counts, kind, ct.gather(counts, kind) + rising)


samples = np.random.default_rng(0).integers(0, 100, 64).astype(np.int32)
kinds = np.array([0, 1, 0, 1], np.int32)  # a class for each block of 16 samples


def run(kernel):
    counts = np.zeros(2, np.int32)
    ct.launch(None, (4,), kernel, (samples, kinds, counts, 16))
    return counts


# %% [markdown]
# ## What is found
#
# Within `ct.sanitize` launches run on the reference backend, and every access is checked:

# %%
with ct.sanitize() as report:
    run(rises)
report

# %%
[(found.category.name, found.line) for found in report.violations]

# %% [markdown]
# Two kinds of mistake, each at its line:
#
# - `unchecked-bounds`: the last block looks at the sample after the last one. `check_bounds=False` promised that it
#   does not.
# - `data-race`: blocks 0 and 2 have the same class. Both read the counter, add, and write it: one sum may be lost. The
#   blocks ran one after the other here, and it is found nevertheless, because nothing orders them.

# %%
assert {found.category.name for found in report.violations} == {"unchecked-bounds", "data-race"}

# %% [markdown]
# ## See it
#
# The recording of the same launch shows who touched the counters. Red marks on the bar are accesses that violate:

# %%
ct.view(lambda: run(rises), title="rises, with a race")

# %% [markdown]
# ## Repaired: the access
#
# Checked bounds give a padding value for the sample after the last, which is chosen so that it is no rise. The race is
# still there:


# %%
@ct.kernel
def rises_inside(samples, kinds, counts, TILE: ct.Constant[int]):
    place = ct.bid(0) * TILE + ct.arange(TILE, dtype=ct.int32)
    here = ct.gather(samples, place)
    after = ct.gather(samples, place + 1, padding_value=-1)
    kind = ct.gather(kinds, ct.bid(0))
    rising = ct.sum(ct.where(after > here, 1, 0))
    ct.scatter(counts, kind, ct.gather(counts, kind) + rising)


with ct.sanitize() as report:
    run(rises_inside)
assert {found.category.name for found in report.violations} == {"data-race"}
report

# %% [markdown]
# ## Repaired: the race
#
# An atomic addition reads, adds and writes as one step:


# %%
@ct.kernel
def rises_atomic(samples, kinds, counts, TILE: ct.Constant[int]):
    place = ct.bid(0) * TILE + ct.arange(TILE, dtype=ct.int32)
    here = ct.gather(samples, place)
    after = ct.gather(samples, place + 1, padding_value=-1)
    kind = ct.gather(kinds, ct.bid(0))
    ct.atomic_add(counts, kind, ct.sum(ct.where(after > here, 1, 0)))


with ct.sanitize() as report:
    run(rises_atomic)
assert report.clean
report

# %% [markdown]
# Compiled for the processor, where the blocks share its cores, it agrees with NumPy:

# %%
rise = np.append(samples[1:] > samples[:-1], False).reshape(4, 16).sum(axis=1)
expected = np.bincount(kinds, weights=rise, minlength=2).astype(np.int32)
np.testing.assert_array_equal(run(rises_atomic), expected)
run(rises_atomic)

# %% [markdown]
# `tilewright check PROGRAM.py` does this for every launch of a program, without a change to it; `pytest --tile-check`
# for those of a test suite.
