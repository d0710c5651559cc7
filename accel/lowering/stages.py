"""The stages of the compiler, in order. Each takes the module as the one before left it, and the accelerator.

To follow a pragma: ``schedule`` sets it, ``flatten`` turns it into an attribute around its nest, ``inject``
replaces the nest by a call of the instruction, ``encode`` makes words of the call.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from accel.lowering.allocate import allocate
from accel.lowering.flatten import flatten
from accel.lowering.inject import inject
from accel.lowering.pack import pack
from accel.lowering.partition import partition
from accel.lowering.plan import Cost
from accel.lowering.schedule import schedule
from accel.lowering.settle import Measure
from accel.lowering.sync import synchronise


@dataclass(frozen=True)
class Stage:
    """One stage: its name, what it does in one line, and the function that does it.

    The stages listed here take the module and the accelerator and return the module.
    """

    name: str
    description: str
    run: Callable[..., Any]


def lowering_stages(cost: Cost, measure: Measure | None = None, host_nodes: Collection[str] = ()) -> list[Stage]:
    """The stages from the integer graph to addresses; see :func:`accel.lowering.partition.partition`."""
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
