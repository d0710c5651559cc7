"""What a dry run says, as documents; what fills them is apart, so that the api describes them without a compiler."""

from typing import Literal

import pydantic
from pydantic import ConfigDict, Field

from accel.accelerator.base import says_nothing
from accel.region.kinds import Role
from accel.report.documents.end_to_end_documents import EndToEnd
from accel.report.documents.report_documents import Macs, ProgramWarning, Provenance


class UsedInstruction(pydantic.BaseModel):
    """An instruction that a launch uses, by the names of the accelerator's document."""

    model_config = ConfigDict(frozen=True)

    role: Role = Field(description="what the launch needs it for", examples=["contract"])
    instruction: str = Field(description="its name", examples=["gemm"])
    operation: str = Field(description="which of the things that it can do", examples=["accumulate"])
    pragma: str = Field(description="the pragma under which its nests are found", examples=["pragma_gemm"])


class PlannedTiling(pydantic.BaseModel):
    """How a launch is cut so that its tiles fit the on-chip memories.

    Blocks are of the contraction's tile: ``out_channels`` scalars in a block of the result, ``in_channels`` in one of
    the data. A dense layer is an image one row high whose columns are its rows.
    """

    rows: int = Field(description="rows of a block: the contraction's own rows, scalars")
    out_channels: int = Field(description="output channels of a block, scalars")
    in_channels: int = Field(description="input channels of a block, scalars")
    out_blocks: int = Field(description="blocks of output channels in a tile")
    out_rows: int = Field(description="rows of the result's image in a tile")
    out_columns: int = Field(description="columns of the result's image in a tile")
    in_blocks: int = Field(description="blocks of input channels that are summed at once")
    kernel_rows: int = Field(description="rows of the kernel that are summed at once")
    kernel_columns: int = Field(description="columns of the kernel that are summed at once")
    tiles: int = Field(description="tiles of the whole launch")
    order: Literal["stream", "weights", "data"] = Field(
        description="which operand stays while the others pass: none, the weights of a group of channels, or the data "
        "of a tile"
    )
    operand_contexts: int = Field(description="copies of each operand's buffer; 2 load the next tile meanwhile")
    result_contexts: int = Field(description="copies of the result's buffer")


class PlannedStream(pydantic.BaseModel):
    """Statements that each tile does for one block of an axis after the other."""

    axis: int = Field(description="the axis, of which a block has as many elements as a tile", examples=[3])
    first: int = Field(description="the first of the statements, counted from 0")
    last: int = Field(description="the first behind them")


class PlannedProgram(pydantic.BaseModel):
    """A vector program: statements over common axes, and how these are cut.

    A tile has ``tile`` elements along each of the axes a0, a1, and so on; the last tile of one may have fewer.
    """

    extents: list[int] = Field(description="elements along each axis", examples=[[128, 768]])
    tile: list[int] = Field(description="of these, elements in a tile", examples=[[16, 768]])
    tiles: int = Field(description="tiles of the whole launch")
    contexts: int = Field(description="copies of each buffer; 2 load the next tile meanwhile")
    statements: list[str] = Field(
        description="what each instruction of a tile does, in the language of documents",
        examples=[["b0[a0, a1] = x1[a0, a1]", "b1[a0] max= b0[a0, a1]"]],
    )
    lower_bound: int = Field(
        description="cycles that it does not go below however it is cut: of the busiest unit, its instructions at "
        "their fastest for all iterations, or of the bus, each tensor once, with the latencies of what all wait for"
    )
    stream: PlannedStream | None = Field(
        None,
        exclude_if=says_nothing,
        description="statements that are done block by block; not there where none are",
    )


class PlannedLaunch(pydantic.BaseModel):
    """A run of the accelerator: a layer of the model, or operators of a vector program."""

    name: str = Field(description="as the report calls it", examples=["conv1"])
    op: str = Field(description="conv2d, dense, add and others, or vector", examples=["conv2d"])
    nodes: list[str] = Field(description="model nodes that it computes")
    operators: list[str] = Field(
        description="those of them that the accelerator does in this launch, as a document's `composites` name them",
        examples=[["conv2d", "bias", "requantize", "clip"]],
    )
    macs: int = Field(description="multiply-accumulates of the model, padding not counted")
    instructions: list[UsedInstruction]
    tiling: PlannedTiling | None = Field(description="how a layer is cut; null of a vector program")
    program: PlannedProgram | None = Field(description="a vector program; null of a layer")
    estimated_cycles: int | None = Field(
        description="cycles of the launch, compiled and timed: as it runs on from the one before where all launches "
        "are small enough to be timed so, else by itself; null where it cannot be timed, or has too many instructions "
        "for a plan"
    )
    host: list[str] = Field(description="what the host does before and after it beside laying out tensors, and why")


class PlannedNode(pydantic.BaseModel):
    """Where a node of the model runs."""

    name: str = Field(examples=["conv1"])
    op: str = Field(examples=["Conv"])
    where: Literal["accelerator", "host", "both", "nowhere"] = Field(
        description="both: the host begins or finishes it; nowhere: it is folded into others, or into constants"
    )
    launch: str | None = Field(description="the launch that computes it")
    reason: str | None = Field(description="why it is on the host, or partly so")
    added: bool = Field(description="whether quantisation adds it to the model as uploaded")


class Plan(pydantic.BaseModel):
    """What would become of a model on an accelerator; nothing of it was run."""

    accelerator: str = Field(description="its name", examples=["vta"])
    provenance: Provenance = Field(description="what it is of: versions, files, and the seed")
    family: str = Field(description="its family of instruction sets", examples=["vta"])
    quantisation: Literal["none", "given samples", "random samples"] = Field(
        description="what a float model's scales come from, as in a job of the same options"
    )
    warnings: list[ProgramWarning] = Field(
        description="how the model was read (axes that are 1, converted floats); rounding that is off on average"
    )
    nodes: list[PlannedNode] = Field(description="every node in the model's order, then those that quantisation adds")
    launches: list[PlannedLaunch] = Field(description="in the order in which they run")
    macs: Macs
    estimated_cycles: int = Field(
        description="of the launches that could be timed: together where they run as one, or each alone, where there "
        "are too many instructions; those that a job joins may take fewer then"
    )
    end_to_end: EndToEnd | None = Field(
        description="estimated time with the host, which is modelled; launches as estimated, those that could not be "
        "timed at none; null where the host cannot run a step, and a job would fail"
    )
