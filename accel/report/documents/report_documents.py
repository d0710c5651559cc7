"""The reports of jobs as documents; what fills them is apart, so that the api describes them without a compiler."""

from typing import Annotated, Any, Literal

import pydantic
from pydantic import ConfigDict, Field

from accel.accelerator.base import says_nothing
from accel.accelerator.timing_model import TimingModel
from accel.isa.hazard_findings import StaleKind
from accel.report.documents.end_to_end_documents import EndToEnd
from accel.report.documents.stream_documents import InputStream
from accel.report.run_traffic import DramTraffic, RunEnergy

Engine = Literal["function", "timing", "both"]
WarningKind = Literal[
    "never-written",
    "outside-segments",
    "never-finishes",
    "hardware-differs",
    "not-verified",
    "no-quality",
    "unset-axis",
    "biased-rounding",
    "half-range",
    "converted-floats",
]


class Versions(pydantic.BaseModel):
    """The software that computed a report: with others a figure may be another one."""

    model_config = ConfigDict(frozen=True)

    cyclops: str = Field(examples=["0.1.0"])
    sources: str = Field(description="SHA-256 over the compiler's and simulator's own source files")
    tvm: str = Field(description="lowers the model, and compiles the host's operators")
    onnxruntime: str = Field(description="runs calibration, and the model that quality is measured against")
    onnx: str
    numpy: str = Field(description="draws what is random, and computes the reference")
    python: str
    machine: str = Field(description="the host's kind of processor", examples=["x86_64"])


class DocumentSource(pydantic.BaseModel):
    """The accelerator's document."""

    name: str = Field(description="its `name`", examples=["vta"])
    title: str = Field(description="its `title`", examples=["VTA 16x16"])
    label: str | None = Field(
        description="what its user calls it: the label of the upload, on the command line the name or path as given; "
        "null if it has none"
    )
    sha256: str | None = Field(
        description="SHA-256 of the file as it was uploaded or given to the command line, of a preset of "
        "`accel/accelerator/presets/NAME.*` in the package; null where there was no file, as for a program's own"
    )
    id: str = Field(
        description="SHA-256 of the document as JSON with sorted keys, no spaces and every default: the id of the "
        "upload, the same however the file was written"
    )


class Provenance(pydantic.BaseModel):
    """Where the numbers come from. Digests are of the bytes of files, as `sha256sum` prints them."""

    versions: Versions
    cpu: str | None = Field(
        description="the processor for which host operators were compiled, as LLVM names it: floats may be rounded "
        "otherwise on another; null where no model was compiled",
        examples=["skylake-avx512"],
    )
    model: str | None = Field(
        description="SHA-256 of the ONNX file, its id; of a model in several files that of the one file that they "
        "make; null of a program"
    )
    program: str | None = Field(
        description="SHA-256 of the Program file, its id; of parts that of the Program file that they make; null of a "
        "model"
    )
    accelerator: DocumentSource
    inputs: str | None = Field(
        description="SHA-256 of the npz file of the inputs, its id; null where they are the program's own, or drawn "
        "with the seed of the options"
    )
    calibration: str | None = Field(
        description="SHA-256 of the npz file of the calibration samples, its id; null where there is none: a float "
        "model's samples are drawn with the seed of the options"
    )
    options: dict[str, Any] = Field(
        description="the options of the run, defaults among them", examples=[{"seed": 0, "trace": True}]
    )


CycleCategory = Literal["busy", "memory", "token", "fetch", "other", "idle"]
CycleShares = dict[CycleCategory, dict[str, int]]


class CycleAccount(pydantic.BaseModel):
    """Where every cycle went, by category and cause: each is of one category, and they add up to all cycles.

    The categories are `busy` (the causes are instructions), `memory`, `token` (queues), `fetch`, `other` and `idle`.
    """

    total: CycleShares = Field(
        description="of the accelerator as a whole: what its compute unit does, and where that waits, what the unit "
        "does that it waits for; `memory` are its copies, and those that it waits for",
        examples=[{"busy": {"gemm": 900}, "memory": {"load_wgt": 80}, "fetch": {"fetch": 20}}],
    )
    units: dict[str, CycleShares] = Field(
        description="of each unit; `busy` while an instruction of it runs, else what its next one waits for",
        examples=[{"compute": {"busy": {"gemm": 900}, "token": {"load_to_compute": 100}}}],
    )


class FieldDifference(pydantic.BaseModel):
    """A place in an accelerator's document that has two values."""

    field: str = Field(description="its JSON pointer (RFC 6901)", examples=["/dram/bus_bytes"])
    before: Any = Field(description="null where it is not there", examples=[8])
    after: Any = Field(description="null where it is not there", examples=[16])


class Change(pydantic.BaseModel):
    """The program timed with one resource changed: cycles of the same clock, over the same instructions."""

    resource: str = Field(description="what the program is bound by, if it gains", examples=["the bus"])
    change: str = Field(description="what there would be of it", examples=["16 bytes a beat"])
    fields: list[FieldDifference] = Field(description="of the document; none where it has no field for it")
    cycles: int = Field(description="of all launches, with the change")
    gain: float = Field(description="share of the cycles that it saves; below 0 where it takes more")
    layers: list[int] = Field(description="the same by launch, as in `layers`")


class ProgramLimits(pydantic.BaseModel):
    """What limits the program, and what would help most; only the clock was run again, nothing was compiled anew."""

    sentence: str | None = Field(
        description="the change that saves most, in words, or that none saves much; null where nothing is known of any",
        examples=["bound by the bus: with 16 bytes a beat it would take 12.0% fewer cycles"],
    )
    changes: list[Change] = Field(description="all that was tried, the one that saves most first")
    left_out: str | None = Field(None, description="why changes were not tried, or not all")


class Machine(pydantic.BaseModel):
    """The accelerator's limits, from its document: the lines of a roofline."""

    peak_macs_per_cycle: float | None = Field(
        description="multiply-accumulates a cycle at best; null where it has no contraction. Where costs are the "
        "document's, what the best launch of this program can"
    )
    bus_bytes_per_cycle: int = Field(
        description="bytes a cycle, of reads and as many of writes; of both together where units share the bus"
    )
    clock_mhz: float


class Roofline(pydantic.BaseModel):
    """A launch in the roofline model; of reads and writes the busier counts, or both where they share the bus."""

    peak: float = Field(description="macs a cycle that its products do at best; 0 without a contraction")
    intensity: float | None = Field(description="macs a byte of what counts; null where it moves nothing")
    attainable: float = Field(
        description="macs a cycle that no schedule of its instructions goes above: the less of what the contraction "
        "and the bus can"
    )
    achieved: float | None = Field(description="macs / cycles; null where timing did not run")


class ReportedLayer(pydantic.BaseModel):
    """One launch: a layer of the model on the accelerator. Times in cycles, sizes in bytes."""

    name: str
    op: str
    nodes: list[str] = Field(description="model nodes that it computes")
    macs: int = Field(description="multiply-accumulates of the model, padding not counted")
    cycles: int
    lower_bound: int = Field(
        description="cycles that no order of its instructions goes below: the larger of the compute unit's own and its "
        "bytes over the bus. One that is joined with another may take fewer, as it is loaded for while that computes"
    )
    compute_bound: int | None = Field(
        None, description="the part of it that the compute unit alone says; null in reports of earlier versions"
    )
    bus_bound: int | None = Field(None, description="what the bus alone says; null as before")
    joined: bool = Field(
        False,
        description="whether it runs in one launch with the layer before it. Then its cycles are those from when the "
        "compute unit is done with that layer, and what other units do for one layer beside another is in them: the "
        "layers' cycles add up to the launch's",
    )
    utilisation: float = Field(description="macs / (cycles x multiply-accumulates a cycle at best)")
    gemm_share: float = Field(description="share of the cycles in which the matrix unit multiplies, padding included")
    limited_by: str = Field(
        "", description="the unit that is busy for most of the cycles; `waiting` where none is for half of them"
    )
    limit_share: float = Field(0.0, description="share of the cycles in which the busiest unit is busy")
    load_overlap: float = Field(
        description="share of the load unit's busy cycles during which the compute unit is busy"
    )
    bytes_read: int
    bytes_written: int
    instructions: int
    energy_pj: float | None = Field(
        None, description="picojoules of the instructions whose energy the accelerator says; null if it says none"
    )
    account: CycleAccount | None = Field(
        None, description="where its cycles went; null where timing did not run, and in reports of earlier versions"
    )
    roofline: Roofline | None = Field(None, description="null in reports of earlier versions")
    overhead_cycles: int | None = Field(
        None,
        description="modelled: what its launch and the caches take the host, by the accelerator's clock, beside "
        "`cycles`; null where the document has no host, where timing did not run, and in reports of earlier versions",
    )


class NetworkBound(pydantic.BaseModel):
    """Cycles that a program's launches need in any order: what overlaps at best, and what separate launches need."""

    cycles: int = Field(description="the larger of the sums over the layers of what the compute unit and the bus need")
    limited_by: Literal["compute", "bus"] = Field(description="of which of the two it is")
    compute: int = Field(description="cycles that the compute unit needs for all layers")
    bus: int = Field(description="cycles that the bus needs for all layers")
    layers: int = Field(description="the sum of the layers' lower bounds: what launches one after the other need")


class UnitTime(pydantic.BaseModel):
    """What one unit did, in cycles; busy, stalled (but for `memory`) and idle add up to the program's cycles."""

    instructions: int
    busy: int = Field(description="cycles in which it ran an instruction")
    stalled: dict[str, int] = Field(
        description="cycles lost by cause: before an instruction to `fetch`, a token queue, or what else its family "
        "names; within its busy cycles to `memory`, where the bus served others"
    )
    idle: int = Field(description="cycles after its last instruction of each launch")


class ProgramWarning(pydantic.BaseModel):
    """Something that is allowed and seldom meant."""

    kind: WarningKind
    launch: str | None = Field(description="null where it is of the whole run")
    instruction: int | None = Field(description="its place in the program; null as before")
    detail: str


class ProgramSize(pydantic.BaseModel):
    """The program: instructions, launches, host steps, and bytes of DRAM it maps."""

    instructions: int
    launches: int = Field(description="layers that the accelerator runs")
    starts: int | None = Field(
        None, description="times that the host starts it; null in reports of earlier versions, where each layer is one"
    )
    host_steps: int
    dram_bytes: int


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
    float_sqnr_db: float | None = Field(
        None,
        description="the same against the float network: the model as uploaded, or of a quantised one the network "
        "whose activations are not rounded; null where the integers are read by more than the next layer, or, as a "
        "warning says, onnxruntime cannot run it",
    )
    float_cosine: float | None = Field(None, description="null as `float_sqnr_db` is")


class TensorQuality(pydantic.BaseModel):
    """A quantised tensor against the float network's on the same inputs."""

    tensor: str = Field(description="its name in the model as uploaded")
    node: str = Field(description="the node of the model that makes it; empty for an input")
    scale: float = Field(description="what a unit of its integers is worth")
    zero_point: int = Field(description="the integer that stands for 0")
    sqnr_db: float = Field(description="signal to quantisation noise, dB; 200 where the tensors are equal")
    before_db: float | None = Field(
        None, description="the least of the quantised tensors that it is computed from; null where there are none"
    )


class AttentionCosts(pydantic.BaseModel):
    """What the launches of attention take alone, as the planner knows it."""

    model_config = ConfigDict(frozen=True)

    cycles: int | None = Field(
        description="of the launches one after the other; null where they cannot be timed, or the host has a part"
    )
    dram_bytes: int = Field(description="that their loads and stores move, before movement becomes addresses")


class AttentionPlacement(pydantic.BaseModel):
    """Attention in float32 that may go over blocks of keys: as one program, whose scores are never in DRAM.

    Both are with the programs of neighbours of which the one or the other has a part.
    """

    model_config = ConfigDict(frozen=True)

    nodes: list[str] = Field(description="of the model, from the scores to the context")
    chosen: Literal["fused", "unfused"] = Field(description="how it is in the program")
    fused: AttentionCosts = Field(description="over blocks of keys")
    unfused: AttentionCosts = Field(description="as programs of softmax and products, whose keys are not cut")
    unfused_on_host: bool = Field(description="whether the host would have a part of it, unfused")


class FloatResult(pydantic.BaseModel):
    """What a vector program left in DRAM, against the rounding bounds of exact arithmetic; all of it lies within.

    The bounds follow from the types and the order of sums that the document states, step by step, and are computed
    apart from the tiles.
    """

    model_config = ConfigDict(frozen=True)

    launch: str = Field(description="the launch, as the layers call it")
    tensor: str = Field(description="the variable of the integer graph that it is")
    elements: int = Field(description="of the tensor")
    undecided: int = Field(description="of integers, those that the bounds leave more than one value")
    bound_used: float | None = Field(
        description="of floats, how far the farthest is from the middle of its bounds, as a share of half their width; "
        "null of integers"
    )
    independent: bool = Field(
        description="whether ONNX's own evaluator, in double precision, was found within the bounds too; else it lacks "
        "the operators"
    )


class StageTime(pydantic.BaseModel):
    """How long a stage of the job took."""

    name: str
    seconds: float


class CompiledFunction(pydantic.BaseModel):
    """A function of the accelerator: layers that are alike share one."""

    name: str = Field(examples=["conv2d_0"])
    cached: bool = Field(description="it was compiled before, for this accelerator, and taken from the cache")


class Macs(pydantic.BaseModel):
    """Multiply-accumulates of the model, and how many of them the accelerator did."""

    total: int
    accelerator: int
    share: float


class Arithmetic(pydantic.BaseModel):
    """All arithmetic of a run, in operations: two of each multiply-accumulate, one of each other element or function.

    Of the accelerator that of the model in its launches, padding not counted; of the host that of its steps as they
    run, with what they do for launches. Moving elements, or changing their type, is none.
    """

    total: int
    accelerator: int
    host: int
    share: float = Field(description="that the accelerator does")


_AloneCycles = Annotated[
    int | None,
    Field(
        description="cycles of the accelerator alone, without the processor and the memory that `cycles` has; null "
        "where the document has neither, where timing did not run, and in reports of earlier versions"
    ),
]
_WholeTime = Annotated[
    EndToEnd | None,
    Field(
        description="time with the host beside the accelerator, which is modelled; null where timing did not run, and "
        "in reports of earlier versions"
    ),
]
_LaunchEnergy = Annotated[float | None, Field(description="picojoules of all launches, as in their rows")]
_WholeEnergy = Annotated[
    RunEnergy | None,
    Field(
        description="of the whole run, with host and DRAM; null where the document gives no costs, and in reports of "
        "earlier versions"
    ),
]
_Traffic = Annotated[
    DramTraffic | None, Field(description="what launches move over the bus; null in reports of earlier versions")
]


class Report(pydantic.BaseModel):
    """The report, ``report.json``."""

    accelerator: str
    provenance: Provenance = Field(description="where the numbers come from: versions, files, options")
    verified: bool | None = Field(
        description="outputs equal the integer reference bit by bit, what vector programs round lies within its bounds "
        "(`floats`), and no race or stale read could change them; null if the accelerator ran nothing, or, as a "
        "warning says, they were not compared"
    )
    verification_kept: bool = Field(
        False,
        exclude_if=says_nothing,
        description="an earlier run of the same owner computed the outputs and verified them, by the same words, "
        "constants, inputs, model and sources; this one has timed the words. Not there where this run did both",
    )
    planned_read_latency: int | None = Field(
        None,
        exclude_if=says_nothing,
        description="cycles of latency of DRAM that tilings were chosen for, where that is not the document's own but "
        "rounded, so that near latencies have one program. All cycles are of the document's own",
    )
    cycles: int = Field(
        description="cycles over all launches, with the processor and the memory that the document has; host steps "
        "cost none"
    )
    accelerator_cycles: _AloneCycles = None
    seconds: float | None = Field(
        None, description="the same by the accelerator's clock; null in reports of earlier versions"
    )
    end_to_end: _WholeTime = None
    stream: InputStream | None = Field(
        None, exclude_if=says_nothing, description="of several inputs in a row; not there without `options.repeat`"
    )
    energy_pj: _LaunchEnergy = None
    energy: _WholeEnergy = None
    dram: _Traffic = None
    macs: Macs
    arithmetic: Arithmetic | None = Field(None, description="null in reports of earlier versions")
    units: dict[str, UnitTime]
    bound: NetworkBound | None = Field(
        None, description="cycles that no schedule goes below; null in reports of earlier versions"
    )
    account: CycleAccount | None = Field(
        None, description="where the cycles of all launches went; null in reports of earlier versions"
    )
    limits: ProgramLimits | None = Field(None, description="what limits it; null in reports of earlier versions")
    machine: Machine | None = Field(None, description="null in reports of earlier versions")
    warnings: list[ProgramWarning]
    layers: list[ReportedLayer]
    host_ops: list[HostOp]
    quantisation: list[Quality] = Field(
        description="of each output; none where onnxruntime cannot run the model as uploaded, as a warning says"
    )
    floats: list[FloatResult] = Field(
        default_factory=list, description="the results of vector programs, against their rounding bounds"
    )
    attention: tuple[AttentionPlacement, ...] = Field(
        (),
        exclude_if=says_nothing,
        description="attention that may go over blocks of keys, and whether it does; not there where there is none",
    )
    tensors: list[TensorQuality] = Field(
        default_factory=list,
        description="the quality of each quantised tensor that the program has, in the order of the model's nodes; "
        "none of a quantised model whose integers are read by more than the next layer, where, as a warning says, it "
        "is not known, and in reports of earlier versions",
    )
    most_lost: TensorQuality | None = Field(
        None,
        description="that of `tensors` at which the noise grows most, as a share of the signal: the layer to look at "
        "first",
    )
    program: ProgramSize
    timing_model: TimingModel = Field(description="how far the cycles can be trusted")
    functions: list[CompiledFunction] = Field(
        default_factory=list, description="the functions that the program's launches run"
    )
    compile_seconds: float | None = Field(None, description="seconds of the stages before `simulate`, together")
    stages: list[StageTime]


class Mismatch(pydantic.BaseModel):
    """An element of DRAM that is not what was expected."""

    tensor: str = Field(description="the segment it lies in")
    address: int = Field(description="its first byte in DRAM")
    got: int | float
    expected: int | float
    instruction: int | None = Field(description="the last instruction that stored it; null if none did")


class Instruction(pydantic.BaseModel):
    """An instruction of the program."""

    index: int = Field(description="its place in the program, from 0, as in the trace")
    launch: str
    op: str


class RaceRecord(pydantic.BaseModel):
    """Two instructions that touch the same elements in no fixed order, one of them writing."""

    first: Instruction
    second: Instruction
    memory: str = Field(description="an on-chip memory, or `dram`")
    begin: int = Field(description="first element, in DRAM first byte, that both touch")
    end: int = Field(description="the element or byte after the last")
    detail: str


class StaleRecord(pydantic.BaseModel):
    """An instruction that may read what was there before, on hardware whose document says so."""

    kind: StaleKind = Field(
        description="`stale-out`: it stores what a load put into the accumulator, and the memory that stores read has "
        "what was there before; `stale-accumulator`: passes of it read what passes just before them write"
    )
    instruction: Instruction
    since: Instruction = Field(description="the load whose elements are stored; else the instruction itself")
    memory: str
    begin: int = Field(description="first element that may be stale")
    end: int = Field(description="the element after the last")
    detail: str


class SimulationReport(pydantic.BaseModel):
    """The report of a program's run."""

    accelerator: str
    provenance: Provenance = Field(description="where the numbers come from: versions, files, options")
    engine: Engine
    verified: bool | None = Field(
        description="what was expected is there, and no race and no stale read could change it; null where nothing "
        "was expected, or function did not run"
    )
    cycles: int | None = Field(
        description="cycles of all launches, with the processor and the memory that the document has; null where "
        "timing did not run"
    )
    accelerator_cycles: _AloneCycles = None
    seconds: float | None = Field(description="the same by the accelerator's clock; host steps cost none")
    end_to_end: _WholeTime = None
    mismatch_count: int = Field(description="elements that differ from what was expected")
    mismatches: list[Mismatch] = Field(description="the first of them")
    race_count: int | None = Field(
        description="pairs of unordered instructions, at most 1,000 a launch; null: not checked"
    )
    races: list[RaceRecord] = Field(description="the first of them")
    stale_read_count: int | None = Field(
        description="instructions that may read what was there before, at most 1,000 a launch; null: not checked"
    )
    stale_reads: list[StaleRecord] = Field(description="the first of them")
    warnings: list[ProgramWarning]
    units: dict[str, UnitTime] | None = Field(description="null where timing did not run")
    account: CycleAccount | None = Field(
        None,
        description="where the cycles of all launches went; null where timing did not run, and in reports of earlier "
        "versions",
    )
    bound: NetworkBound | None = Field(None, description="cycles that no schedule goes below; null as `account` is")
    limits: ProgramLimits | None = Field(None, description="what limits it; null as `account` is")
    machine: Machine | None = Field(None, description="null in reports of earlier versions")
    bytes_read: int
    bytes_written: int
    energy_pj: _LaunchEnergy = None
    energy: _WholeEnergy = None
    dram: _Traffic = None
    tokens: dict[str, int] | None = Field(description="what is left in the queues; null where timing did not run")
    launches: list[ReportedLayer]
    program: ProgramSize
    timing_model: TimingModel


class LaunchCycles(pydantic.BaseModel):
    """A launch of a program, and what it took."""

    name: str
    cycles: int | None = Field(description="null where only function was simulated")


class SimulationSummary(pydantic.BaseModel):
    """What a program did, in short: one of many that are simulated at once."""

    accelerator: str
    engine: Engine
    verified: bool | None = Field(description="as in a report")
    cycles: int | None = Field(description="of all launches; null where only function was simulated")
    mismatch_count: int
    race_count: int | None
    stale_read_count: int | None
    instructions: int
    launches: list[LaunchCycles]
    warnings: list[ProgramWarning]
