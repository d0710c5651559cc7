"""A launch as a dry run describes it: its instructions, its tiling, its price."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from tvm import tirx

from accel.accelerator.instructions import Compute, Copy, Operation
from accel.isa.family_registry import family_of
from accel.lowering.analysis.capabilities import Capabilities, CapabilityAnswer
from accel.lowering.analysis.composite import Composite
from accel.lowering.analysis.lanewise_capabilities import tile_planner
from accel.lowering.inject.operation_matching import matching_operations
from accel.lowering.ir.epilogue_arithmetic import stored_value
from accel.lowering.ir.function_attributes import LaunchInfo
from accel.lowering.partition.epilogue_planning import composite_operators
from accel.region.elementwise import Elementwise
from accel.region.epilogue import SUMS, Epilogue, Steps
from accel.region.kinds import Region
from accel.region.pooling import Pooling
from accel.region.shapes import Convolution
from accel.region.tile_steps import Apply, Load, Merge
from accel.region.tilings import Candidates, Tiling, candidates_of_tiles
from accel.report.plan_documents import PlannedLaunch, PlannedTiling, Role, UsedInstruction

_PLANE_SHIFT = 8  # bits of a byte plane
_ON_HOST = ("requantize", "clip")  # where the host finishes a composite


def planned_launch(info: LaunchInfo, composite: Composite, region: Region, able: Capabilities) -> PlannedLaunch:
    """The document of one launch, whose ``region`` is as the stage ``pack`` left it."""
    left = () if not region.host_reason else _ON_HOST if region.epilogue.wide else _ON_HOST[1:]
    return PlannedLaunch(
        name=info.name,
        op=info.op,
        nodes=list(info.nodes),
        operators=[operator for operator in composite_operators(composite) if operator not in left],
        macs=info.macs,
        instructions=list(dict.fromkeys(_instructions(region, able))),
        tiling=_tiling(region, able),
        estimated_cycles=_price(region, able),
        host=_host(region),
    )


def candidate(conv: Convolution, tiling: Tiling) -> Candidates:
    """One tiling of ``conv`` in the terms in which a family prices it: arrays of one element."""
    tiles = (
        tiling.out_blocks, tiling.out_rows, tiling.out_columns, tiling.in_blocks, tiling.kernel_rows,
        tiling.kernel_columns,
    )  # fmt: skip
    arrays = [np.array([extent], np.int64) for extent in tiles]
    return candidates_of_tiles(conv, arrays, tiling.order, tiling.operand_contexts, tiling.result_contexts)


def _price(region: Region, able: Capabilities) -> int | None:
    """Cycles by the family's cost function, which prices convolutions; an addition has none."""
    if not isinstance(region.shape, Convolution):
        return None
    conv, accelerator = region.shape, able.accelerator
    cost = family_of(accelerator).tiling_cost
    return round(float(cost(candidate(conv, region.tiling), conv, region.epilogue, able.gemm, accelerator)[0]))


def _tiling(region: Region, able: Capabilities) -> PlannedTiling:
    tiling, gemm = region.tiling, able.gemm
    return PlannedTiling(
        rows=gemm.rows,
        out_channels=gemm.out_channels,
        in_channels=gemm.in_channels,
        out_blocks=tiling.out_blocks,
        out_rows=tiling.out_rows,
        out_columns=tiling.out_columns,
        in_blocks=tiling.in_blocks,
        kernel_rows=tiling.kernel_rows,
        kernel_columns=tiling.kernel_columns,
        tiles=region.tiles,
        order=tiling.order,
        operand_contexts=tiling.operand_contexts,
        result_contexts=tiling.result_contexts,
    )


def _host(region: Region) -> list[str]:
    found = []
    if isinstance(region.shape, Convolution):
        if region.shape.unfolded is not None:
            places = {"rows": "rows of a matrix", "channels": "channels of its pixels"}
            found.append(f"the host lays the patches of the image out as the {places[region.shape.patches]}")
        if any(region.shape.host_padding):
            found.append("the host pads the data: the loads cannot")
    if region.host_reason:
        does = "requantises its int32 result" if region.epilogue.wide else "clips its int8 result"
        found.append(f"the host {does}: {region.host_reason}")
    return found


def _instructions(region: Region, able: Capabilities) -> Iterator[UsedInstruction]:
    """What a launch uses, in the order in which a tile does."""
    shape, epilogue, gemm = region.shape, region.epilogue, able.gemm
    if gemm.instruction.microops is not None:
        yield from _load("load micro-ops", gemm.instruction.microops.memory, able)
    if isinstance(shape, Pooling | Elementwise):
        yield from _steps(shape, region, able)
    else:
        yield from _sums(epilogue, able)
    accumulators = _buffer("a", gemm.dst.memory.name, able)
    shifts: list[Steps] = [(("shift_right", _PLANE_SHIFT),)] if epilogue.planes > 1 else []
    for steps in (*epilogue.grouped, *shifts):
        if steps[0][0] in SUMS:
            yield _used("contract", gemm.instruction, gemm.accumulate)
            continue
        yield from _found(able.steps(steps))
    result = tirx.decl_buffer((1,), epilogue.result, "result")
    yield from _doing("store", result, stored_value(accumulators[0], epilogue.result, epilogue.scaling), able)


def _sums(epilogue: Epilogue, able: Capabilities) -> Iterator[UsedInstruction]:
    """Up to the sums of products."""
    gemm = able.gemm
    yield from _load("load data", gemm.data.memory.name, able)
    yield from _load("load weights", gemm.weights.memory.name, able)
    if epilogue.start == "bias" or epilogue.tensors:
        yield from _load("load bias", gemm.dst.memory.name, able)
    if epilogue.start == "zero" and gemm.zero is not None:
        yield _used("clear", gemm.instruction, gemm.zero)
    yield _used("contract", gemm.instruction, gemm.accumulate)


def _steps(shape: Pooling | Elementwise, region: Region, able: Capabilities) -> Iterator[UsedInstruction]:
    """Up to the epilogue of work that is made of steps."""
    memory = able.gemm.dst.memory.name
    accumulators = _buffer("a", memory, able)
    if not shape.direct:
        yield from _sums(region.epilogue, able)
    for step in tile_planner(shape, able)(region.tiling.out_rows, region.tiling.out_columns).steps:
        if isinstance(step, Load):
            widened = tirx.decl_buffer((1,), "int8", "source")[0].astype(accumulators.dtype)
            yield from _doing("load data", accumulators, widened, able)
        elif isinstance(step, Apply):
            yield from _found(able.steps(step.steps))
        elif isinstance(step, Merge):
            yield from _found(able.pair(step.name))


def _load(role: Role, memory: str, able: Capabilities) -> Iterator[UsedInstruction]:
    target = _buffer("target", memory, able)
    yield from _doing(role, target, tirx.decl_buffer((1,), target.dtype, "source")[0], able)


def _buffer(name: str, memory: str, able: Capabilities) -> Any:
    place = able.accelerator.memory(memory)
    return tirx.decl_buffer((1,), place.dtype, name, scope=place.scope)


def _doing(role: Role, target: Any, value: Any, able: Capabilities) -> Iterator[UsedInstruction]:
    """The first copy that stores ``value`` into ``target``, as the pass ``inject`` will find it."""
    known = [meaning for meaning in able.known if isinstance(meaning.instruction, Copy)]
    for choice in matching_operations(tirx.BufferStore(target, value, [0]), known, able.accelerator):
        yield _used(role, choice.meaning.instruction, choice.meaning.operation)
        return


def _found(answer: CapabilityAnswer) -> Iterator[UsedInstruction]:
    """What does a part of an epilogue."""
    if answer.meaning is not None:
        yield _used("epilogue", answer.meaning.instruction, answer.meaning.operation)


def _used(role: Role, instruction: Copy | Compute, operation: Operation) -> UsedInstruction:
    return UsedInstruction(role=role, instruction=instruction.name, operation=operation.name, pragma=instruction.pragma)
