"""The report of a job: what ran where, how long it took, and how far to trust it."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pydantic
from pydantic import Field

from accel.accelerator.document import Accelerator
from accel.isa.vta.timing import Timing
from accel.isa.vta.work import work_of
from accel.program import Program
from accel.simulate.engine import LaunchResult, Simulation


class Layer(pydantic.BaseModel):
    """One launch: a layer of the model on the accelerator. Times in cycles, sizes in bytes."""

    name: str
    op: str
    nodes: list[str] = Field(description="model nodes that it computes")
    macs: int = Field(description="multiply-accumulates of the model, padding not counted")
    cycles: int
    lower_bound: int = Field(
        description="the larger of the compute unit's own cycles (GEMM, reset, ALU passes) and its bytes over the bus"
    )
    utilisation: float = Field(description="macs / (cycles x multiply-accumulates a cycle at best)")
    gemm_share: float = Field(description="share of the cycles in which the GEMM core multiplies, padding included")
    load_overlap: float = Field(
        description="share of the load unit's busy cycles during which the compute unit is busy"
    )
    bytes_read: int
    bytes_written: int
    instructions: int


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


class ProgramSize(pydantic.BaseModel):
    """The program: instructions, launches, host steps, and bytes of DRAM it maps."""

    instructions: int
    launches: int
    host_steps: int
    dram_bytes: int


class Report(pydantic.BaseModel):
    """The report, ``report.json``."""

    accelerator: str
    verified: bool | None = Field(
        description="outputs equal the integer reference bit by bit; null if the accelerator did no multiply-accumulate"
    )
    cycles: int = Field(description="cycles of the accelerator over all launches; host steps cost none")
    macs: Macs
    layers: list[Layer]
    host_ops: list[HostOp]
    quantisation: list[Quality]
    program: ProgramSize
    timing_model: str = Field(description="where the cycle model was compared with hardware")
    stages: list[StageTime]


def layer_of(result: LaunchResult, accelerator: Accelerator) -> Layer:
    """The report of one launch as it ran."""
    work, launch = work_of(result.decoded), result.launch
    timing = result.timing
    cycles = timing.cycles if timing else 0
    peak = macs_per_cycle(accelerator)
    return Layer(
        name=launch.name,
        op=launch.op,
        nodes=list(launch.nodes),
        macs=launch.macs,
        cycles=cycles,
        lower_bound=work.lower_bound,
        utilisation=launch.macs / (cycles * peak) if cycles else 0.0,
        gemm_share=work.gemm_cycles / cycles if cycles else 0.0,
        load_overlap=_overlap(result, timing) if timing else 0.0,
        bytes_read=work.bytes_read,
        bytes_written=work.bytes_written,
        instructions=launch.count,
    )


def macs_per_cycle(accelerator: Accelerator) -> int:
    """Multiply-accumulates that one micro-op of the contraction does."""
    gemm = accelerator.contraction
    return math.prod(accelerator.extents(gemm.dst, gemm.data, gemm.weights).values())


def _overlap(result: LaunchResult, timing: Timing) -> float:
    instructions = result.decoded.accelerator.instructions
    gemm = result.decoded.accelerator.contraction
    compute, data = gemm.unit, gemm.data.memory
    loading = next(i.unit for i in instructions if i.kind == "copy" and i.memory == data and i.direction == "load")
    unit = np.array([i.unit for i in instructions])[result.decoded.kind]
    busy = _cover(timing, unit == loading)
    both = busy & _cover(timing, unit == compute)
    return float(both.sum() / busy.sum()) if busy.any() else 0.0


def _cover(timing: Timing, rows: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """For each cycle whether one of the instructions ran in it."""
    steps = np.zeros(timing.cycles + 1, dtype=np.int64)
    np.add.at(steps, timing.start[rows], 1)
    np.add.at(steps, timing.end[rows], -1)
    return np.asarray(np.cumsum(steps) > 0)


def make_report(
    program: Program,
    simulation: Simulation,
    *,
    total_macs: int,
    host_ops: Sequence[HostOp],
    quantisation: Sequence[Quality],
) -> Report:
    """Everything but the stages' times, which the caller appends when it is done.

    ``verified`` is true or null here: outputs that differ have raised before.
    """
    layers = [layer_of(result, program.accelerator) for result in simulation.launches]
    macs = sum(layer.macs for layer in layers)
    return Report(
        accelerator=program.accelerator.name,
        verified=True if macs else None,
        cycles=simulation.cycles,
        macs=Macs(total=total_macs, accelerator=macs, share=macs / total_macs if total_macs else 0.0),
        layers=layers,
        host_ops=list(host_ops),
        quantisation=list(quantisation),
        program=ProgramSize(
            instructions=len(program.words),
            launches=len(layers),
            host_steps=len(program.steps) - len(layers),
            dram_bytes=program.dram_bytes,
        ),
        timing_model=program.accelerator.calibration,
        stages=[],
    )
