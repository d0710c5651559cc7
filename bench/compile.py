"""Compile time of ResNet-8 for VTA, stage by stage, as a ratio to the functional simulation of its launches.

A ratio says more than seconds: both sides run on the machine at hand. Each figure is the least of three runs.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.quantize.quantize_model import quantize_model
from accel.isa.family_registry import family_of
from accel.lowering.codegen.program_linking import emit
from accel.lowering.packing.graph_packing import pack
from accel.lowering.partition.graph_partition import partition
from accel.lowering.pipeline import REGION_STAGES
from accel.program.program_model import Launch, Program
from accel.simulate.engine import simulate
from accel.simulate.prepare_simulation import prepare
from examples.resnet8 import resnet8

T = TypeVar("T")
_RUNS = 3


class Clock:
    """The least time of each step over all runs, seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def time(self, name: str, act: Callable[[], T]) -> T:
        begin = time.perf_counter()
        result = act()
        self.seconds[name] = min(time.perf_counter() - begin, self.seconds.get(name, float("inf")))
        return result


def compile_once(clock: Clock) -> Program:
    """As a dry run does, without trials of tilings: they are simulations."""
    target = Target(load_accelerator("vta"))
    model = clock.time("quantize", lambda: quantize_model(resnet8()))
    module = clock.time("import", lambda: import_integer_model(model).module)
    cost = family_of(target.accelerator).tiling_cost
    module = clock.time("partition", partial(partition, module, target, cost))
    module = clock.time("pack", partial(pack, module, target))
    for stage in REGION_STAGES:
        module = clock.time(stage.name, partial(stage.run, module, target))
    return clock.time("emit", partial(emit, module, target.accelerator))


def main() -> None:
    prepare(load_accelerator("vta"))
    compiling, simulating = Clock(), Clock()
    for _ in range(_RUNS):
        program = compile_once(compiling)
        # host steps compile when they run; the launches alone take the same time whatever their data are
        launches = replace(program, steps=tuple(step for step in program.steps if isinstance(step, Launch)))
        data = {name: np.zeros(program.segments[name].shape, program.segments[name].dtype) for name in program.inputs}
        simulating.time("simulate", partial(simulate, launches, data, timing=False))
    unit = simulating.seconds["simulate"]
    print(f"{'stage':10} {'seconds':>8} {'ratio':>6}")
    for name, seconds in compiling.seconds.items():
        print(f"{name:10} {seconds:8.3f} {seconds / unit:6.1f}")
    total = sum(compiling.seconds.values())
    print(f"{'compile':10} {total:8.3f} {total / unit:6.1f}")
    print(f"{'simulate':10} {unit:8.3f} {1:6.1f}")


if __name__ == "__main__":
    main()
