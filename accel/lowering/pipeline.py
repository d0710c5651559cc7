"""Stages of a packed region in order; and one region alone through them, as far as its instructions, for autotuning.

Each stage takes the module as the one before left it, and the target. To follow a pragma: ``schedule`` sets it,
``flatten`` turns it into an attribute around its nest, ``inject`` replaces the nest by a call of the instruction, and
``encode`` makes words of the call.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from tvm import ir, tirx

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.lowering.codegen.region_lowering import LoweredRegion, run_stage
from accel.lowering.codegen.region_object import RegionObject, region_object
from accel.lowering.codegen.scratchpad_allocation import allocate
from accel.lowering.inject.injection import inject
from accel.lowering.ir.function_attributes import REGION, dump_region
from accel.lowering.ir.injected_function import injected_function_of, instance_count
from accel.lowering.kinds.region_images import region_function
from accel.lowering.scheduling.flattening import flatten
from accel.lowering.scheduling.region_schedule import schedule
from accel.lowering.sync.token_insertion import synchronise
from accel.region.kinds import AnyRegion
from accel.util.arrays import Words


@dataclass(frozen=True)
class RegionStage:
    """A stage that takes the module and the target and returns the module: its name, and what it does in one line."""

    name: str
    description: str
    run: Callable[[ir.IRModule, Target], ir.IRModule]


REGION_STAGES = (
    RegionStage("schedule", "tile, set storage scopes, mark nests with pragmas", schedule),
    RegionStage("flatten", "lower to loops over flat buffers, pragmas as attributes", flatten),
    RegionStage("inject", "replace every nest under a pragma by calls of its instruction", inject),
    RegionStage("sync", "insert dependence tokens and buffer contexts", synchronise),
    RegionStage("allocate", "give every scratchpad buffer an address and fill the micro-op tables", allocate),
)
"""Stages from a packed region to addresses; what they make of one region does not depend on the others."""

_NAME = "trial"
_DRAM_GAP = 1 << 12  # units of DRAM, of which tensors begin at multiples: no copy then shares a page with another
TRIAL_INSTRUCTIONS = 100_000
"""How many instructions a region may have to be timed as one of several choices."""


def lower_region(region: AnyRegion, target: Target, most: int = TRIAL_INSTRUCTIONS) -> LoweredRegion | None:
    """Returns a region that went through all stages by itself; None if it has more than ``most`` instructions.

    Raises:
        CompileError: as a stage does.
    """
    function = region_function(region, target.contraction).with_attr("global_symbol", _NAME)
    function = function.with_attr(REGION, dump_region(region))
    module, stages = ir.IRModule({_NAME: function}), {}
    for stage in REGION_STAGES:
        if stage.run is allocate and _instruction_count(module, target.accelerator) > most:
            return None
        module, records = run_stage(module, target, stage.run)
        stages[stage.name] = records[_NAME]
    return LoweredRegion(function, stages, region_object(module[_NAME], target.accelerator))


def region_words(lowered: LoweredRegion, accelerator: Accelerator) -> Words:
    """Returns the instruction words (n, words_each) of a region whose tensors lie anywhere, and not over each other."""
    words, _ = placed_anywhere(lowered).link([], accelerator)
    return words


def placed_anywhere(lowered: LoweredRegion) -> RegionObject:
    """Returns the object of a region whose tensors lie anywhere, and not over each other; linking takes no address."""
    return replace(lowered.made, code=lowered.made.code.bound(_apart(lowered.packed, lowered.made)))


def _apart(function: tirx.PrimFunc, made: RegionObject) -> list[int]:
    """Addresses, in their units, at which no tensors overlap: nothing then waits for an address that it does not share.

    They are multiples of pages, and none is 0, which a machine may take for no tensor.
    """
    step = _DRAM_GAP * math.lcm(*made.units)
    begin, bases = step, []
    for tensor, unit in zip(function.params, made.units, strict=True):
        size = math.prod(int(extent) for extent in tensor.shape) * np.dtype(str(tensor.dtype)).itemsize
        bases.append(begin // unit)
        begin += -(-size // step) * step
    return [*bases, begin // min(made.units)] if made.tables else bases


def _instruction_count(module: ir.IRModule, accelerator: Accelerator) -> int:
    return sum(instance_count(site.loops) for site in injected_function_of(module[_NAME], accelerator).sites)
