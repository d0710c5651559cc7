"""The report of a job: what ran where, how long it took, and how far to trust it."""

from collections.abc import Sequence

import pydantic
from pydantic import Field

from accel.isa.vta.calibration import TimingModel, timing_model
from accel.layer_report import Layer, layer_of
from accel.program import Program
from accel.simulate.engine import Simulation
from accel.simulation_report import ProgramSize, ProgramWarning, UnitTime, program_size, unit_times, warnings_of


class HostOp(pydantic.BaseModel):
    """A model node that runs on the host."""

    node: str
    op: str
    reason: str


class Quality(pydantic.BaseModel):
    """An output against the model as uploaded, run by onnxruntime on the same inputs."""

    output: str
    sqnr_db: float = Field(description="signal to quantisation noise, dB; 200 where the outputs are equal")
    cosine: float


class StageTime(pydantic.BaseModel):
    """How long a stage of the job took."""

    name: str
    seconds: float


class Macs(pydantic.BaseModel):
    """Multiply-accumulates of the model, and how many of them the accelerator did."""

    total: int
    accelerator: int
    share: float


class Report(pydantic.BaseModel):
    """The report, ``report.json``."""

    accelerator: str
    verified: bool | None = Field(
        description="outputs equal the integer reference bit by bit, and no race could change them; null if the "
        "accelerator did no multiply-accumulate"
    )
    cycles: int = Field(description="cycles of the accelerator over all launches; host steps cost none")
    macs: Macs
    units: dict[str, UnitTime]
    warnings: list[ProgramWarning]
    layers: list[Layer]
    host_ops: list[HostOp]
    quantisation: list[Quality]
    program: ProgramSize
    timing_model: TimingModel = Field(description="how far the cycles can be trusted")
    stages: list[StageTime]


def make_report(
    program: Program,
    simulation: Simulation,
    *,
    total_macs: int,
    host_ops: Sequence[HostOp],
    quantisation: Sequence[Quality],
) -> Report:
    """Everything but the stages' times, which the caller appends when it is done.

    ``verified`` is true or null here: outputs that differ, and races, have raised before.
    """
    layers = [layer_of(result, program.accelerator) for result in simulation.launches]
    macs = sum(layer.macs for layer in layers)
    return Report(
        accelerator=program.accelerator.name,
        verified=True if macs else None,
        cycles=simulation.cycles,
        macs=Macs(total=total_macs, accelerator=macs, share=macs / total_macs if total_macs else 0.0),
        units=unit_times(simulation, program.accelerator),
        warnings=warnings_of(program, simulation),
        layers=layers,
        host_ops=list(host_ops),
        quantisation=list(quantisation),
        program=program_size(program),
        timing_model=timing_model(program.accelerator),
        stages=[],
    )
