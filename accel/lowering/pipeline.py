"""Stages of a packed region in order; and one region alone through them, as far as its instructions, for autotuning.

Each stage takes the module as the one before left it, and the target. To follow a pragma: ``schedule`` sets it,
``flatten`` turns it into an attribute around its nest, ``inject`` replaces the nest by a call of the instruction, and
``encode`` makes words of the call.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx, transform

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.lowering.codegen.region_object import RegionObject, region_object
from accel.lowering.codegen.scratchpad_allocation import allocate
from accel.lowering.inject.injection import inject
from accel.lowering.ir.function_attributes import REGION, dump_region
from accel.lowering.ir.injected_function import injected_function_of, instance_count
from accel.lowering.kinds.registry import kind_of
from accel.lowering.scheduling.flattening import flatten
from accel.lowering.scheduling.region_schedule import schedule
from accel.lowering.sync.token_insertion import synchronise
from accel.region.kinds import Region
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
_MAX_INSTRUCTIONS = 100_000  # instructions


def region_words(region: Region, target: Target) -> Words | None:
    """The instruction words (n, words_each) of a region whose tensors lie anywhere; None if there are too many."""
    accelerator = target.accelerator
    function = kind_of(region).expression(region, target.contraction).with_attr("global_symbol", _NAME)
    module = ir.IRModule({_NAME: function.with_attr(REGION, dump_region(region))})
    with transform.PassContext():  # what follows a job's passes does not follow these
        for stage in (schedule, flatten, inject, synchronise):
            module = stage(module, target)
        if _instruction_count(module, accelerator) > _MAX_INSTRUCTIONS:
            return None
        made = region_object(allocate(module, target)[_NAME], accelerator)
    words, _ = made.code.link(_apart(function, made), accelerator)
    return words


def _apart(function: tirx.PrimFunc, made: RegionObject) -> list[int]:
    """Addresses, in their units, at which no tensors overlap: nothing then waits for an address that it does not share.

    They are multiples of pages.
    """
    step, begin, bases = _DRAM_GAP * math.lcm(*made.units), 0, []
    for tensor, unit in zip(function.params, made.units, strict=True):
        size = math.prod(int(extent) for extent in tensor.shape) * np.dtype(str(tensor.dtype)).itemsize
        bases.append(begin // unit)
        begin += -(-size // step) * step
    return [*bases, begin // min(made.units)] if made.tables else bases


def _instruction_count(module: ir.IRModule, accelerator: Accelerator) -> int:
    return sum(instance_count(site.loops) for site in injected_function_of(module[_NAME], accelerator).sites)
