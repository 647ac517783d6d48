"""The passes from optimized Tile IR to the loop-level form that code is generated from."""

from __future__ import annotations

from tilewright.backends.cpu.loops.approximate_exponentials import ApproximateExponentials
from tilewright.backends.cpu.loops.block_along_k import BlockAlongK
from tilewright.backends.cpu.loops.fusion import FuseLoopNests
from tilewright.backends.cpu.loops.hoisting import HoistChecks
from tilewright.backends.cpu.loops.interleave_cats import InterleaveCats
from tilewright.backends.cpu.loops.merge_reductions import MergeReductions
from tilewright.backends.cpu.loops.pack_panels import PackPanels
from tilewright.backends.cpu.loops.sink_stores import SinkStores
from tilewright.backends.cpu.loops.split_rows import SplitRows
from tilewright.backends.cpu.loops.streaming import StreamStores
from tilewright.backends.cpu.loops.trimming import TrimStores
from tilewright.backends.cpu.loops.vectorize import VectorizeNests
from tilewright.backends.cpu.loops.verify import verify_loop_form
from tilewright.backends.cpu.loops.versioning import VersionNests
from tilewright.backends.cpu.target import Processor
from tilewright.ir.core import Function
from tilewright.transforms.pipelines import run_passes


def loop_form(function: Function, processor: Processor) -> Function:
    """``function`` as loop nests for ``processor``.

    TileUnsupportedFeatureError, with the location of the op, for what the CPU cannot do.
    """
    prepared = run_passes(
        function,
        (
            InterleaveCats(),  # before fusion, which gives results of cats a buffer
            ApproximateExponentials(),  # before merging, which gives exponentials other users
            BlockAlongK(processor),  # before fusion: nests are made for the shapes that it gives tiles
            MergeReductions(processor),  # early: a merged reduction is one use of what stores may overwrite
            SinkStores(),  # before fusion, for which loads end with the store that may overwrite them
            SplitRows(),  # after merging, so that a row is reduced once
        ),
    )
    passes = (
        FuseLoopNests(processor),  # first: the others are about nests
        VersionNests(),  # after fusion, which decides what a nest loads and stores
        HoistChecks(),  # after versioning, which makes the checks
        VectorizeNests(processor.vector_bytes),  # after fusion: the widest element of a nest decides
        TrimStores(),  # after vectorization, which chooses what is stored at a time
        StreamStores(),  # after vectorization, too
        PackPanels(),  # last: it enlarges the scratch memory, in which others look for room
    )
    return run_passes(prepared, passes, rules=verify_loop_form)
