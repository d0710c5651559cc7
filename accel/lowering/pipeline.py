"""Stages of the compiler in order; and one region alone through them, as far as its instructions, for autotuning.

Each stage takes the module as the one before left it, and the accelerator. To follow a pragma: ``schedule`` sets it,
``flatten`` turns it into an attribute around its nest, ``inject`` replaces the nest by a call of the instruction, and
``encode`` makes words of the call.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm import ir, transform

from accel.accelerator.document import Accelerator
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.codegen.region_object import region_object
from accel.lowering.codegen.scratchpad_allocation import allocate
from accel.lowering.inject.injection import inject
from accel.lowering.ir.function_attributes import REGION, dump_region
from accel.lowering.ir.injected_function import injected_function_of, instance_count
from accel.lowering.packing.graph_packing import pack
from accel.lowering.packing.region_expressions import region_function
from accel.lowering.partition.autotune import Measure
from accel.lowering.partition.graph_partition import partition
from accel.lowering.scheduling.flattening import flatten
from accel.lowering.scheduling.region_schedule import schedule
from accel.lowering.sync.token_insertion import synchronise
from accel.region.kinds import Region
from accel.region.tilings import TilingCost
from accel.util.arrays import Words


@dataclass(frozen=True)
class Stage:
    """One stage: its name, what it does in one line, and the function that does it.

    The stages listed here take the module and the accelerator and return the module.
    """

    name: str
    description: str
    run: Callable[..., Any]


def lowering_stages(cost: TilingCost, measure: Measure | None = None, host_nodes: Collection[str] = ()) -> list[Stage]:
    """Returns the stages from the integer graph to addresses.

    ``measure`` and ``host_nodes`` are for :func:`accel.lowering.partition.graph_partition.partition`.
    """
    return [
        Stage(
            "partition",
            "choose the operators that the accelerator runs, and their tiling",
            partial(partition, cost=cost, measure=measure, host_nodes=host_nodes),
        ),
        Stage("pack", "lay tensors out in tiles and state each region as a tensor expression", pack),
        Stage("schedule", "tile, set storage scopes, mark nests with pragmas", schedule),
        Stage("flatten", "lower to loops over flat buffers, pragmas as attributes", flatten),
        Stage("inject", "replace every nest under a pragma by calls of its instruction", inject),
        Stage("sync", "insert dependence tokens and buffer contexts", synchronise),
        Stage("allocate", "give every scratchpad buffer an address and fill the micro-op tables", allocate),
    ]


_NAME = "trial"
_DRAM_GAP = 1 << 12  # units of DRAM between tensors: no copy then shares a page with another
_MAX_INSTRUCTIONS = 100_000  # instructions


def region_words(region: Region, able: Capabilities) -> Words | None:
    """The instruction words (n, words_each) of a region whose tensors lie anywhere; None if there are too many."""
    accelerator = able.accelerator
    function = region_function(region, able.gemm).with_attr("global_symbol", _NAME)
    module = ir.IRModule({_NAME: function.with_attr(REGION, dump_region(region))})
    with transform.PassContext():  # what follows a job's passes does not follow these
        for stage in (schedule, flatten, inject, synchronise):
            module = stage(module, accelerator)
        if _instruction_count(module, accelerator) > _MAX_INSTRUCTIONS:
            return None
        made = region_object(allocate(module, accelerator)[_NAME], accelerator)
    bases = [place * _DRAM_GAP for place in range(len(made.units) + bool(made.tables))]
    words, _ = made.code.link(bases, accelerator)
    return words


def _instruction_count(module: ir.IRModule, accelerator: Accelerator) -> int:
    return sum(instance_count(site.loops) for site in injected_function_of(module[_NAME], accelerator).sites)
