"""A job's compilation, phase by phase: what is there after each stage, as text, and as artifacts.

A phase has what later stages need and nothing else: the model's weights go when the last stage that reads them is done.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import onnx
from tvm import ir

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.catalog.load_accelerator import canonical
from accel.driver.helpers.job_helpers import NO_HELPERS, Helpers
from accel.driver.helpers.reference_task import ReferenceTask
from accel.driver.kept_programs import PROGRAM_FILE, KeptProgram, KeptPrograms, ProgramFacts
from accel.driver.run_options import Options
from accel.driver.stage_chain import Phase, StageDump
from accel.driver.stage_dumps import describe_model, describe_program
from accel.driver.trials.region_timer import RegionTimer
from accel.frontend.integer_recovery.quantised_activations import Activation
from accel.frontend.integer_recovery.recover_integers import ImportedModel
from accel.frontend.integer_recovery.rounding_bias import LeftBias
from accel.frontend.onnx_model.external_data import with_embedded_data
from accel.frontend.read.model_info import ModelInfo
from accel.lowering.codegen.region_cache import RegionCache
from accel.lowering.codegen.region_lowering import LoweredRegion
from accel.lowering.ir.function_attributes import ScratchpadBuffer
from accel.program.program_model import Program
from accel.program_files.program_container import little_endian, save_program
from accel.report.documents.graph_documents import GRAPH_FILE
from accel.report.documents.memory_documents import MemoryPlan
from accel.report.documents.report_documents import (
    AttentionPlacement,
    CompiledFunction,
    FloatResult,
    HostOp,
    ProgramLimits,
    Provenance,
    Report,
)
from accel.report.input_stream import StreamRun
from accel.report.model_graph import describe_graph
from accel.simulate.engine import Simulation
from accel.trace.trace_builder import make_trace
from accel.util.arrays import Array
from accel.util.content_cache import CacheStore
from accel.util.whole_files import write_whole
from accel.verify.input_tensors import Tensors, save_tensors
from accel.verify.model_quality import ModelQuality, QualityInputs

INTERMEDIATES_FILE = "intermediates.npz"
Buffers = Mapping[str, tuple[ScratchpadBuffer, ...]]


@dataclass(frozen=True)
class CompilationInputs:
    """What a job starts from, and every stage finds.

    Attributes:
        accelerator: what its program runs on.
        target: what it compiles for, which is that but for a latency (:func:`planned_for`).
        options: seed, nodes left to the host, what to keep.
        info: the model's inputs and outputs.
        original: the model as it was read, its large constants in a file.
        calibration: samples for each model input; None: seeded random.
        feeds: an array for each model input; a dry run, which simulates nothing, has none.
        provenance: what it was made from, for the report.
        measure: times regions, where prices of tilings lie close; None: the prices decide.
        cache: where the accelerator's functions are looked for, and kept.
        traces_passes: whether the text after each TVM pass is kept.
        texts: whether somebody may ask what stages made of the regions.
        types: of the tensors of ``original``, as they were inferred; a dry run draws no graph.
        kept: programs of earlier jobs that may be this one's.
        reference: runs the integer graph beside the compilation; a dry run compares nothing.
        uploaded: the model as uploaded, unchanged, which quality is measured against; a dry run measures none.
        helpers: work beside the job; a dry run has none.
    """

    accelerator: Accelerator
    target: Target
    options: Options
    info: ModelInfo
    original: onnx.ModelProto
    calibration: Tensors | None
    feeds: Tensors
    provenance: Provenance
    measure: RegionTimer | None = None
    cache: CacheStore | None = None
    traces_passes: bool = True
    texts: bool = True
    types: Mapping[str, onnx.ValueInfoProto] = field(default_factory=dict)
    kept: KeptPrograms = field(default_factory=KeptPrograms)
    uploaded: onnx.ModelProto | None = None
    reference: ReferenceTask | None = None
    helpers: Helpers = NO_HELPERS

    @property
    def quality_inputs(self) -> QualityInputs:
        """What the quality of its run is measured against."""
        uploaded = self.original if self.uploaded is None else self.uploaded
        return QualityInputs(uploaded, self.original, self.info, self.feeds, self.options.intermediates)


@dataclass(frozen=True)
class Compilation(Phase):
    """A job, and what its stages have made so far."""

    job: CompilationInputs


@dataclass(frozen=True)
class Quantised(Compilation):
    """The model in QDQ form."""

    model: onnx.ModelProto

    def dump(self) -> StageDump:
        """Returns the model as ONNX text."""
        return StageDump(describe_model(self.model))

    def save(self, out: Path) -> None:
        """Write ``model.qdq.onnx``, and ``graph.json`` of the model as uploaded."""
        write_whole(out / "model.qdq.onnx", with_embedded_data(self.model).SerializeToString())
        graph = describe_graph(self.job.original, self.job.types)
        write_whole(out / GRAPH_FILE, graph.model_dump_json() + "\n")


@dataclass(frozen=True)
class Imported(Compilation):
    """The integer graph, which is also the reference of the outputs."""

    imported: ImportedModel

    def dump(self) -> StageDump:
        """Returns the module as TVMScript."""
        return StageDump(self.imported.module.script())


@dataclass(frozen=True)
class Partitioned(Compilation):
    """The integer graph whose composites are marked with their regions, or with why they have none.

    ``tried`` are regions that were compiled to choose between them, by their attribute, and ``programs`` those with
    results on the chip, by the instructions of the ones with all results in DRAM.
    """

    imported: ImportedModel
    module: ir.IRModule
    passes: tuple[tuple[str, str | None], ...]
    tried: Mapping[str, LoweredRegion] = field(default_factory=dict)
    programs: Mapping[str, Program] = field(default_factory=dict)

    def dump(self) -> StageDump:
        """Returns the module as TVMScript."""
        return StageDump(self.module.script(), self.passes)


@dataclass(frozen=True)
class Packed(Compilation):
    """The module whose ``main`` launches regions over packed tensors, which the host can still run.

    ``host_ops`` are the nodes that the host runs, and ``tried`` the regions that were compiled to know whether they can
    be, by their attribute; ``programs`` as partition left them. ``operations`` are those of the arithmetic that its
    launches do.
    """

    imported: ImportedModel
    module: ir.IRModule
    host_ops: list[HostOp]
    operations: int
    passes: tuple[tuple[str, str | None], ...]
    tried: Mapping[str, LoweredRegion | bytes] = field(default_factory=dict)
    programs: Mapping[str, Program] = field(default_factory=dict)
    attention: tuple[AttentionPlacement, ...] = ()

    def dump(self) -> StageDump:
        """Returns the module as TVMScript."""
        return StageDump(self.module.script(), self.passes)


@dataclass(frozen=True)
class Lowered(Compilation):
    """The regions as far as their stages have come; ``stage`` is the last of these, if one has run."""

    packed: Packed
    regions: RegionCache
    stage: str | None = None

    def dump(self) -> StageDump | None:
        """Returns the module with its regions as TVMScript."""
        if self.stage is None:
            return None
        text, passes = self.regions.text(self.stage)
        return StageDump(text, tuple(passes))

    def print_kept(self) -> None:
        """Print what the cache will keep of the last stage, function by function."""
        if self.stage is not None:
            self.regions.print_kept(self.stage)


@dataclass(frozen=True)
class Modules:
    """What a program was compiled from: the graph, whose integer graph is the reference, and the regions.

    ``in_dram`` is the program with every result in DRAM; None where none stays on the chip instead.
    """

    packed: Packed
    regions: RegionCache
    in_dram: Program | None = None


@dataclass(frozen=True)
class Emitted(Compilation):
    """The program, with the inputs of this run, so that it can be run again without the model.

    ``buffers`` are those of its functions on the chip, by function. Its ``origin`` are the modules that it was compiled
    from, or an earlier job that did so. ``again`` is what a stream of inputs repeats, if the options want one: the
    program before its launches were joined, or where results stay on the chip the program itself.
    """

    program: Program
    host_ops: list[HostOp]
    operations: int
    biases: dict[str, LeftBias]
    functions: list[CompiledFunction]
    buffers: Buffers
    origin: Modules | KeptProgram
    again: Program | None = None
    attention: tuple[AttentionPlacement, ...] = ()

    def dump(self) -> StageDump | None:
        """Returns the program as text; None where it is an earlier job's, whose texts are kept."""
        return StageDump(describe_program(self.program)) if isinstance(self.origin, Modules) else None

    def save(self, out: Path) -> None:
        """Write ``program.zip`` and ``instructions.bin``."""
        if isinstance(self.origin, Modules):
            save_program(self.program, out / PROGRAM_FILE)
            write_whole(out / "instructions.bin", little_endian(self.program.words).data)


@dataclass(frozen=True)
class Simulated(Compilation):
    """The program as it ran, its outputs by the model's own names, and what tells what limits it.

    ``stream`` is how a stream of inputs ran, if the options want one.
    """

    emitted: Emitted
    simulation: Simulation
    outputs: dict[str, Array]
    limits: Callable[[], ProgramLimits]
    stream: StreamRun | None

    def save(self, out: Path) -> None:
        """Write ``inputs.npz`` and ``outputs.npz``, and the trace, if the options want it."""
        save_tensors(out / "inputs.npz", self.job.feeds)
        save_tensors(out / "outputs.npz", self.outputs)
        if self.job.options.trace:
            make_trace(self.emitted.program, self.simulation).save(out)


@dataclass(frozen=True)
class Referenced(Compilation):
    """The outputs that the integer graph has on the host; or ``unverified``, why it was not run to its end.

    ``tensors`` are what of the model in QDQ form it computed on the way; ``expected`` is the program with the outputs.
    ``floats`` says how results of vector programs lie within their bounds.
    """

    simulated: Simulated
    reference: list[Array] | None
    tensors: Mapping[str, Array]
    expected: Program
    unverified: str = ""
    floats: tuple[FloatResult, ...] = ()

    def save(self, out: Path) -> None:
        """Write what is expected of it into ``program.zip`` too."""
        if self.reference is not None:
            save_program(self.expected, out / PROGRAM_FILE)


@dataclass(frozen=True)
class Verified(Compilation):
    """A run whose outputs equal the reference, or ``unverified``; no longer with the modules and their weights.

    ``biases`` are the mean errors of rounding, by node. ``regions`` are there of a program that was compiled, and what
    is ``known`` of an earlier job's, whose verification may be ``verification_kept``.
    """

    host_ops: list[HostOp]
    operations: int
    biases: dict[str, LeftBias]
    functions: list[CompiledFunction]
    program: Program
    buffers: Buffers
    simulation: Simulation
    outputs: dict[str, Array]
    limits: Callable[[], ProgramLimits]
    stream: StreamRun | None
    unverified: str
    regions: RegionCache | None
    known: ProgramFacts | None
    verification_kept: bool
    activations: tuple[Activation, ...]
    tensors: Mapping[str, Array]
    floats: tuple[FloatResult, ...]
    attention: tuple[AttentionPlacement, ...]


@dataclass(frozen=True)
class Assessed(Compilation):
    """A verified run, and how near its outputs and tensors are to those of the model before quantisation."""

    verified: Verified
    quality: ModelQuality

    def save(self, out: Path) -> None:
        """Write ``intermediates.npz``, if the options want it.

        Keeps the program for jobs that differ in time, if it is new; whatever else is kept with it is in ``out``.
        """
        if self.job.options.intermediates:
            save_tensors(out / INTERMEDIATES_FILE, self.quality.tensors.intermediates)
        run = self.verified
        if run.regions is not None and not run.unverified:
            names = tuple(function.name for function in run.functions)
            facts = ProgramFacts(
                names,
                tuple(run.host_ops),
                run.operations,
                run.biases,
                dict(run.buffers),
                self.quality.outputs,
                self.quality.tensors.figures,
                self.quality.tensors.missing,
                run.floats,
                run.attention,
                tuple(map(tuple, run.simulation.host_works or ())),
            )
            self.job.kept.keep(out, facts, self.job.accelerator)


@dataclass(frozen=True)
class Reported(Compilation):
    """The whole job; ``report`` has no times of stages yet."""

    program: Program
    simulation: Simulation
    report: Report
    memory: MemoryPlan

    def save(self, out: Path) -> None:
        """Write ``memory.json`` and ``accelerator.json``."""
        write_whole(out / "memory.json", self.memory.model_dump_json() + "\n")
        write_whole(out / "accelerator.json", canonical(self.program.accelerator))
