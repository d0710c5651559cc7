"""A launch as a dry run describes it: its instructions, its tiling, its price."""

import math
from collections.abc import Sequence

from accel.accelerator.target import Target
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.composite import CompositeRegion
from accel.lowering.analysis.epilogue_planning import composite_operators
from accel.lowering.ir.function_attributes import LaunchInfo
from accel.lowering.kinds.registry import launch_kind
from accel.lowering.vector.tiles.program_bounds import program_bound
from accel.region.kinds import AnyRegion, Region, VectorRegion
from accel.report.documents.plan_documents import (
    PlannedLaunch,
    PlannedProgram,
    PlannedStream,
    PlannedTiling,
    UsedInstruction,
)

_ON_HOST = ("requantize", "clip")  # where the host finishes a composite


def used_instructions(region: AnyRegion, capabilities: Capabilities) -> list[UsedInstruction]:
    """Returns what a launch uses, each once, in the order in which a tile does."""
    found = [
        UsedInstruction(
            role=used.role,
            instruction=used.instruction.name,
            operation=used.operation.name,
            pragma=used.instruction.pragma,
        )
        for used in launch_kind(region).instructions(region, capabilities)
    ]
    return list(dict.fromkeys(found))


def planned_program(
    info: LaunchInfo, region: VectorRegion, target: Target, instructions: Sequence[UsedInstruction], cycles: int | None
) -> PlannedLaunch:
    """Returns the document of one launch of a vector program; the arguments are as for :func:`planned_launch`."""
    program, stream = region.shape, region.shape.stream
    counts = (-(-extent // tile) for extent, tile in zip(program.extents, program.tile, strict=True))
    return PlannedLaunch(
        name=info.name,
        op=info.op,
        nodes=list(info.nodes),
        operators=[],
        macs=info.macs,
        instructions=list(instructions),
        tiling=None,
        program=PlannedProgram(
            extents=list(program.extents),
            tile=list(program.tile),
            tiles=math.prod(counts),
            contexts=program.contexts,
            statements=list(program.statements),
            lower_bound=math.ceil(program_bound(program, target, region.views).cycles),
            stream=None if stream is None else PlannedStream(axis=stream.axis, first=stream.first, last=stream.last),
        ),
        estimated_cycles=cycles,
        host=[],
    )


def planned_launch(
    info: LaunchInfo,
    composite: CompositeRegion,
    region: Region,
    capabilities: Capabilities,
    instructions: Sequence[UsedInstruction],
    cycles: int | None,
    *,
    laid_out: bool,
) -> PlannedLaunch:
    """Returns the document of one launch.

    Args:
        info: what the launch is of.
        composite: of its function.
        region: as it is after the stage ``pack``.
        capabilities: of the accelerator.
        instructions: those of the region, see :func:`used_instructions`.
        cycles: what it takes alone.
        laid_out: whether the host lays its data out.
    """
    left = () if not region.host_reason else _ON_HOST if region.epilogue.wide else _ON_HOST[1:]
    return PlannedLaunch(
        name=info.name,
        op=info.op,
        nodes=list(info.nodes),
        operators=[operator for operator in composite_operators(composite) if operator not in left],
        macs=info.macs,
        instructions=list(instructions),
        tiling=_tiling(region, capabilities),
        program=None,
        estimated_cycles=cycles,
        host=_host(region, laid_out=laid_out),
    )


def _tiling(region: Region, capabilities: Capabilities) -> PlannedTiling:
    tiling, gemm = region.tiling, capabilities.gemm
    blocks = tiling.out_blocks
    if tiling.columns_as_blocks > 1:  # said as what they are of the image
        blocks = min(blocks, region.shape.result.blocks)
    return PlannedTiling(
        rows=gemm.rows,
        out_channels=gemm.out_channels,
        in_channels=gemm.in_channels,
        out_blocks=blocks,
        out_rows=tiling.out_rows,
        out_columns=tiling.out_columns * -(-tiling.out_blocks // blocks),
        in_blocks=tiling.in_blocks,
        kernel_rows=tiling.kernel_rows,
        kernel_columns=tiling.kernel_columns,
        tiles=region.tiles,
        order=tiling.order,
        operand_contexts=tiling.operand_contexts,
        result_contexts=tiling.result_contexts,
    )


def _host(region: Region, *, laid_out: bool) -> list[str]:
    found = launch_kind(region).host_layout(region) if laid_out else []
    if region.host_reason:
        does = "requantises its int32 result" if region.epilogue.wide else "clips its int8 result"
        found.append(f"the host {does}: {region.host_reason}")
    return found
