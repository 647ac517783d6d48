"""The passes from optimized Tile IR to the gpu stage, and why in this order."""

from __future__ import annotations

from tilewright.analysis.gpu.target import TF32_ROUNDING, GpuTarget
from tilewright.analysis.gpu.tensor_memory import OutOfTensorMemory
from tilewright.analysis.gpu.warps import suitable_warps
from tilewright.ir.core import Function
from tilewright.ir.gpu_stage import BLOCKS_OF_CTA, CTAS_OF_SM, DEEPER, WGMMA_REFUSED, WGMMA_WARPS, verify_gpu
from tilewright.ir.ops.floats import Tanh
from tilewright.ir.ops.linear import Mma
from tilewright.ir.rewrite import with_body
from tilewright.system.environment import switch
from tilewright.transforms.base import Pass
from tilewright.transforms.canonicalize import Canonicalize
from tilewright.transforms.cse import CommonSubexpressions
from tilewright.transforms.dce import DeadCodeElimination
from tilewright.transforms.expand_views import ExpandViews
from tilewright.transforms.gpu.accumulate_in_tensor_memory import AccumulateInTensorMemory
from tilewright.transforms.gpu.allocate_shared import MOST_SHARED_BYTES, AllocateShared, OutOfSharedMemory, share_of_sm
from tilewright.transforms.gpu.allocate_shared import shared_bytes as shared_bytes_of
from tilewright.transforms.gpu.assign_layouts import AssignLayouts
from tilewright.transforms.gpu.choose_wgmma import ChooseWgmma
from tilewright.transforms.gpu.delay_exponentials import DelayExponentials
from tilewright.transforms.gpu.duplicate_loads import DuplicateLoads
from tilewright.transforms.gpu.fma_contraction import ContractFma
from tilewright.transforms.gpu.gather_atomics import GatherAtomics
from tilewright.transforms.gpu.hoist_mma import HoistMma
from tilewright.transforms.gpu.induction_variables import InductionVariables
from tilewright.transforms.gpu.inline_fetches import InlineFetches, ctas_with_inline_fetches, is_wide
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.gpu.legalize_mma import LegalizeMma
from tilewright.transforms.gpu.load_left_operands import LoadLeftOperands
from tilewright.transforms.gpu.lower_conversions import LowerConversions
from tilewright.transforms.gpu.lower_gathers import LowerGathers
from tilewright.transforms.gpu.lower_reductions import LowerReductions
from tilewright.transforms.gpu.lower_views import LowerViews
from tilewright.transforms.gpu.merge_blocks import MergeBlocks, blocks_of_cta
from tilewright.transforms.gpu.merge_loops import MergeLoops
from tilewright.transforms.gpu.multicast_fetches import MulticastFetches
from tilewright.transforms.gpu.occupancy import ctas_of_mma
from tilewright.transforms.gpu.order_blocks import OrderBlocks
from tilewright.transforms.gpu.overlap_mma import DeferAccumulators, RotateMma
from tilewright.transforms.gpu.pair_accesses import PairAccesses
from tilewright.transforms.gpu.partial_maxima import PartialMaxima
from tilewright.transforms.gpu.partial_sums import PartialSums
from tilewright.transforms.gpu.pipeline_loads import STAGES, PipelineLoads
from tilewright.transforms.gpu.prefetch_loads import PrefetchLoads
from tilewright.transforms.gpu.prefetch_rows import PrefetchRows
from tilewright.transforms.gpu.share_operands import ShareOperands
from tilewright.transforms.gpu.skip_masks import SkipMasks
from tilewright.transforms.gpu.specialize_warps import SpecializeWarps
from tilewright.transforms.gpu.split_fma import SplitFma
from tilewright.transforms.gpu.stage_stores import StageStores
from tilewright.transforms.gpu.transpose_mma import DropUnitBatches, TransposeMma
from tilewright.transforms.gpu.unroll_mma import UnrollMma
from tilewright.transforms.gpu.widen_steps import WidenSteps
from tilewright.transforms.licm import LoopInvariantCodeMotion
from tilewright.transforms.lower_mma_scaled import LowerMmaScaled
from tilewright.transforms.lower_packing import LowerPacking
from tilewright.transforms.pipelines import run_passes

_TO_ADDRESSES = (
    OrderBlocks(),
    LowerPacking(),  # tiles of other shapes, which get layouts like all
    ExpandViews(),  # so that it is known where each view comes from
    LowerViews(),  # addresses decide about layouts
    Canonicalize(),  # constant indices, strides of one
    CommonSubexpressions(),  # accesses to the same tile have the same pointers
)
_ROTATED = 2  # CTAs on an SM that load for themselves, with registers for two MMA ops at a time


def passes_to_gpu(
    num_warps: int,
    num_stages: int | None = None,
    shared_bytes: int = MOST_SHARED_BYTES,
    *,
    blocks: int = 0,
    fp8: bool = False,
    f32: bool = False,
    rounds: bool = False,
    prefetches: bool = False,
    tensor_memory: bool = False,
) -> tuple[Pass, ...]:
    """The passes that bring a function to the gpu stage, for CTAs of ``num_warps`` warps with ``shared_bytes``.

    Loads for MMA ops run ``num_stages`` - 1 iterations ahead; with 1 not at all. Without, as many as suit them,
    and a grid that puts no more than so many ``blocks`` on an SM (0: many). With ``fp8`` and ``f32`` tensor cores
    multiply that; one instruction ``rounds`` to tfloat32, and one ``prefetches`` rows. With ``tensor_memory`` sums of
    MMA ops of warp groups are there.
    """
    return (
        LowerMmaScaled(),
        *_TO_ADDRESSES,
        LoopInvariantCodeMotion(),
        PairAccesses(),  # which asks for strides and extents outside of what it changes
        DuplicateLoads(),  # each of which then has a layout of its own
        AssignLayouts(num_warps, shared_bytes, fp8, f32),
        DeadCodeElimination(),  # of sums that are in several layouts, of which one is used
        PartialMaxima(),
        PartialSums(),  # of reductions, along axes that layouts distribute
        GatherAtomics(),
        LowerReductions(),  # needs layouts, and makes conversions
        CommonSubexpressions(),  # indices that were recomputed in the same layout
        LoopInvariantCodeMotion(),  # and those that were recomputed in loops
        *([] if tensor_memory else [HoistMma()]),
        DeferAccumulators(),  # before waits are put where accumulators are needed
        InlineFetches(shared_bytes, blocks),
        SpecializeWarps(num_stages, shared_bytes, blocks),  # after what is the same for all threads has left the loops
        LoadLeftOperands(),  # of MMA ops that were left in flight
        DelayExponentials(),
        DeadCodeElimination(),  # what the thread that loads does not need, before it becomes accesses to memory
        StageStores(),
        PipelineLoads(num_stages, blocks=blocks, rounds=rounds),  # in the place of conversions, of what loops load
        DeadCodeElimination(),  # numbers that are loaded ahead are not loaded again
        *([PrefetchLoads()] if num_stages != 1 else []),  # of loops that stay
        SplitFma(),  # reads what was copied, else stores in the place of conversions
        *([PrefetchRows()] if prefetches else []),
        DeadCodeElimination(),  # before what nobody reads is stored, and has memory
        ShareOperands(),
        *([AccumulateInTensorMemory()] if tensor_memory else []),  # barriers take shared memory
        LowerGathers(),
        LowerConversions(),
        AllocateShared(shared_bytes),
        InsertBarriers(),  # last: it depends on which tiles share memory
    )


def lower_to_gpu(
    function: Function,
    num_warps: int | None,
    num_stages: int | None = None,
    target: GpuTarget | None = None,
    shared_bytes: int = MOST_SHARED_BYTES,
    *,
    realign: bool = False,
    blocks: int = 0,
) -> Function:
    """Optimized Tile IR in the gpu stage. TileUnsupportedFeatureError, at the op, for what the backend lacks.

    With a ``target`` that has them, warp groups multiply, and the TMA unit copies, with ``realign`` also from copies
    that the launch makes of arrays. Without ``num_warps`` there are as many as suit these, or the tiles; where shared
    memory has no room for that, all is as without. Loads run fewer than ``num_stages`` - 1 iterations ahead where a
    CTA, which has ``shared_bytes``, has no room for more; OutOfSharedMemory where it has none for the tiles alone.
    Without ``num_stages`` as many as suit the kernel, and a grid with up to so many ``blocks`` for an SM (0: many).
    """
    if target is not None:
        function = run_passes(function, (ContractFma(target),))  # before loads change what it looks for
    original, f32 = function, target is not None and target.has_wgmma
    rounds = target is not None and target.capability >= TF32_ROUNDING
    fp8, prefetches = target is not None and target.has_fp8, target is not None and target.has_tma
    how = {"fp8": fp8, "f32": f32, "rounds": rounds, "prefetches": prefetches}
    if target is not None and (target.has_wgmma or target.has_tensor_memory) and function.ops_of(Mma):
        how["tensor_memory"] = target.has_tensor_memory
        function = reshaped(reshaped(function, InductionVariables()), DropUnitBatches())
        chosen = ChooseWgmma(target, num_warps, realign=realign)
        unrolled = reshaped(function, UnrollMma())  # for warp groups alone
        widened = run_passes(unrolled, (WidenSteps(),))
        turned = reshaped(widened, TransposeMma(registers=target.has_wgmma))
        made, ctas = _chosen(turned, chosen, shared_bytes, blocks, staged=turned is not widened)
        if WGMMA_WARPS in made.hints:
            if ctas:
                made.hints[CTAS_OF_SM] = ctas
            try:
                return _within(made, made.hints[WGMMA_WARPS], num_stages, shared_bytes, blocks, **how)
            except (OutOfSharedMemory, OutOfTensorMemory) as error:
                line = 0 if error.loc is None else error.loc.line
                made.hints[WGMMA_REFUSED] = (f"line {line}: mma.sync, as with wgmma {error.message}",)
                function = original
        if WGMMA_REFUSED in made.hints:
            function = with_body(function, function.body)
            function.hints[WGMMA_REFUSED] = made.hints[WGMMA_REFUSED]
    warps = num_warps or suitable_warps(function, f32=f32, blocks=blocks)
    made = _within(function, warps, num_stages, shared_bytes, blocks, **how)
    if (
        BLOCKS_OF_CTA not in made.hints
        and not num_warps
        and not blocks
        and suitable_warps(function, f32=f32, blocks=1) != warps
    ):
        made.hints[DEEPER] = made.hints.get(DEEPER) or (STAGES,)
    return made


def with_merged_blocks(function: Function) -> Function:
    """``function``, of which a CTA runs several blocks if these are small."""
    return run_passes(function, (*_TO_ADDRESSES, MergeBlocks())) if blocks_of_cta(function) > 1 else function


def reshaped(function: Function, shaping: Pass) -> Function:
    """``function`` after ``shaping``, without the reshapes and permutations that meet, and with what is computed twice
    computed once."""
    made, cleanup = run_passes(function, (shaping,)), (Canonicalize(), CommonSubexpressions(), DeadCodeElimination())
    return made if made is function else run_passes(made, cleanup)


def _chosen(function: Function, chosen: ChooseWgmma, limit: int, blocks: int, *, staged: bool) -> tuple[Function, int]:
    """``function`` with MMA ops of warp groups, and how many CTAs an SM holds whose warps load for themselves, also
    where right operands are ``staged``: of the transposed MMA ops of few queries, for which many CTAs run. With the
    ``tanh`` of a soft cap, which the branch of a merged loop would follow, their loops stay apart; without, and of wide
    heads, two CTAs have the next scores beside the softmax, as warps have for which others load."""
    passes = LegalizeMma(), chosen, MulticastFetches()
    function = reshaped(function, SkipMasks())
    merged = run_passes(function, (MergeLoops(),))
    made = run_passes(merged, passes)
    warps = made.hints.get(WGMMA_WARPS)
    ctas = 0 if warps is None else ctas_with_inline_fetches(made, warps, limit, staged=staged, blocks=blocks)
    capped = ctas > 0 and function.ops_of(Tanh)
    if capped and merged is not function:
        made = run_passes(function, passes)
    if WGMMA_WARPS in made.hints and (ctas == 0 or (ctas == _ROTATED and (not capped or is_wide(made)))):
        made = run_passes(made, (RotateMma(made.hints[WGMMA_WARPS]),))
    return made, ctas


def _may_be_beside(function: Function, limit: int) -> bool:
    """Whether an SM has shared memory for as many CTAs of ``function`` as its hint says. A CTA can have ``limit``."""
    ctas = function.hints.get("occupancy")
    return not isinstance(ctas, int) or shared_bytes_of(function) <= share_of_sm(limit, ctas)


def _within(
    function: Function, warps: int, stages: int | None, shared_bytes: int, blocks: int, **how: bool
) -> Function:
    while True:
        try:
            lowered = run_passes(function, passes_to_gpu(warps, stages, shared_bytes, blocks=blocks, **how))
        except OutOfSharedMemory:
            if stages == 1:
                raise
            stages = (stages or STAGES) - 1
            continue
        if not _may_be_beside(lowered, shared_bytes):
            lowered.hints.pop("occupancy")  # it would only take registers away
        if "occupancy" not in function.hints and (ctas := ctas_of_mma(lowered, shared_bytes)):
            lowered.hints["occupancy"] = ctas
        if switch("TILEWRIGHT_VERIFY"):
            verify_gpu(lowered)
        return lowered
