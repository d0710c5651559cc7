"""Two runs side by side, as a document: what differs between them, and what became of it in each layer."""

import pydantic
from pydantic import Field

from accel.accelerator.timing_model import TimingModel
from accel.report.documents.end_to_end_documents import EndToEndTime
from accel.report.documents.report_documents import CycleCategory, FieldDifference, ProgramWarning
from accel.report.run_traffic import RunEnergy


class ComparedRun(pydantic.BaseModel):
    """One of the two runs."""

    accelerator: str = Field(description="name of the accelerator", examples=["vta"])
    title: str = Field(examples=["VTA 16x16"])
    label: str | None = Field(description="what the user calls the accelerator's document")
    document: str = Field(description="id of the accelerator's document")
    verified: bool | None = Field(description="as in its report")
    warnings: list[ProgramWarning]
    cycles: int | None = Field(description="null where timing did not run")
    seconds: float | None = Field(description="by its own clock; null in reports of earlier versions")
    end_to_end: EndToEndTime | None = Field(
        description="with the host beside it, modelled; null where timing did not run, and of earlier versions"
    )
    energy_pj: float | None = Field(description="of the launches' instructions")
    energy: RunEnergy | None = Field(None, description="of the whole run; null where its document gives no costs")
    bytes_read: int
    bytes_written: int
    instructions: int
    timing_model: TimingModel = Field(description="how far its cycles can be trusted")


class CauseDifference(pydantic.BaseModel):
    """Cycles of one category and cause in both runs; 0 where a run has none."""

    category: CycleCategory
    cause: str = Field(description="an instruction, a token queue, or as `account` of a report has it")
    a: int
    b: int
    difference: int = Field(description="b - a")


class ComparedLayer(pydantic.BaseModel):
    """Launches of one run for the same nodes."""

    names: list[str] = Field(description="as in `layers` of its report; several where the nodes are split otherwise")
    cycles: int
    macs: int
    lower_bound: int
    bytes_read: int
    bytes_written: int
    instructions: int


class LayerDifference(pydantic.BaseModel):
    """A part of the model in both runs: launches that share nodes, or without nodes a name; those of one run alone."""

    name: str = Field(description="of the first launch, in `a` if it is there", examples=["conv1"])
    nodes: list[str]
    a: ComparedLayer | None = Field(description="null where no launch of it is of these nodes")
    b: ComparedLayer | None = Field(description="null where no launch of it is of these nodes")
    difference: int = Field(description="cycles of b less those of a; what is not there has none")
    causes: list[CauseDifference] | None = Field(
        description="where they went otherwise, by size; null where a report does not say where cycles went"
    )
    main_cause: CauseDifference | None = Field(
        description="the largest of those that go the way of the difference; null where there is none"
    )


class Comparison(pydantic.BaseModel):
    """Two runs: `a` before, `b` after."""

    a: ComparedRun
    b: ComparedRun
    difference: int | None = Field(description="cycles of b less those of a; null where timing did not run in both")
    document: list[FieldDifference] | None = Field(
        description="where the accelerators' documents differ; null where one of them was not kept. Memories, units, "
        "instructions and fields are compared by name: the place is that of `a` if it is there"
    )
    document_left_out: str | None = Field(description="why there is no difference of the documents")
    provenance: list[FieldDifference] = Field(
        description="where the origins differ: versions, options, model, program, inputs; not the accelerator"
    )
    causes: list[CauseDifference] | None = Field(
        description="where cycles went otherwise, in total, by size; null where a report does not say where they went"
    )
    layers: list[LayerDifference] = Field(description="by the size of the difference")
    host_only_a: list[str] = Field(description="model nodes that run on the host in `a` alone, wholly or in part")
    host_only_b: list[str] = Field(description="model nodes that run on the host in `b` alone, wholly or in part")
