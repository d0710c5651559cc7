"""Schedule: tile each region, place its buffers in the accelerator's scopes, and mark nests with pragmas.

After it every nest that an instruction will replace carries that instruction's pragma, whose value is the nest's
number, and the loops whose iterations may overlap carry ``pragma_contexts``: the copies of each buffer that lives
inside.
"""

import itertools
from typing import Any

from tvm import ir, tirx
from tvm_ffi import structural_mutate

from accel.accelerator.target import Target
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.ir.function_attributes import map_regions
from accel.lowering.kinds.region_images import scheduled_function
from accel.region.kinds import AnyRegion


def schedule(module: ir.IRModule, target: Target) -> ir.IRModule:
    """Schedule every PrimFunc that pack marked as a region of the accelerator, as its kind does."""
    capabilities = Capabilities.of(target)

    def scheduled(function: tirx.PrimFunc, region: AnyRegion) -> tirx.PrimFunc:
        return number_nests(scheduled_function(function, region, capabilities), target.accelerator.pragmas)

    return map_regions(module, scheduled)


def number_nests(function: tirx.PrimFunc, pragmas: set[str]) -> tirx.PrimFunc:
    """Returns the function whose nests are numbered from 1, in program order.

    A nest's number is the value of its pragma, and stays so until the nest is replaced: what became of it can be told
    in the text of every stage.
    """
    numbers = itertools.count(1)

    def loop(statement: tirx.For, mutator: Any) -> tirx.Stmt:
        marks = {str(key): next(numbers) for key in statement.annotations if key in pragmas}
        made = mutator.default_mutate(statement)
        if not marks:
            return made
        annotations = {**made.annotations, **marks}
        return tirx.For(
            made.loop_var, made.min, made.extent, made.kind, made.body, made.thread_binding, annotations, made.step
        )

    return function.with_body(structural_mutate(function.body, (tirx.For, loop)))
