"""One job from end to end: a model and an accelerator in; program, outputs, trace and report out."""

import logging
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import tvm
from tvm import ir
from tvm.target import codegen

from accel.accelerator.document import Accelerator
from accel.driver.fault_localization import locate_fault
from accel.driver.job_stages import job_stages
from accel.driver.run_options import Options, Progress
from accel.driver.stage_dumps import Dumps, PassTexts, describe_model, describe_program
from accel.errors import CyclopsError, InternalError, InvalidModel, SimulationError, VerificationError
from accel.frontend.integer_recovery.recover_integers import ImportedModel
from accel.frontend.onnx_model.external_data import with_embedded_data
from accel.frontend.read.load_model import load_externalized
from accel.frontend.read.model_info import ModelInfo
from accel.isa.decode import decode
from accel.isa.family_registry import family_of
from accel.isa.hazard_findings import Hazards
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.codegen.region_cache import RegionCache
from accel.lowering.ir.function_attributes import dump_region
from accel.lowering.partition.autotune import Measure
from accel.lowering.pipeline import region_words
from accel.program.program_model import Program, renamed
from accel.program_files.program_container import little_endian, save_program
from accel.region.kinds import Region
from accel.report.host_ops import host_ops
from accel.report.job_report import run_warnings, unset_warnings
from accel.report.provenance import Sources, provenance, with_model
from accel.report.report_documents import CompiledFunction, HostOp, Provenance, Report, StageTime
from accel.report.simulation_report import race_record, stale_record
from accel.simulate.engine import Simulation, release_free_memory
from accel.trace.trace_builder import make_trace
from accel.util.arrays import Array
from accel.util.content_cache import CacheStore, ResultCache, cache_key
from accel.util.deadline import OutOfTimeError
from accel.verify.input_tensors import Tensors, checked_inputs, draw_inputs, save_tensors
from accel.verify.output_comparison import reference_outputs
from accel.verify.output_quality import Qualities, quality_of


def region_timer(accelerator: Accelerator, cache: CacheStore | None = None) -> Measure:
    """Cycles of a region alone on ``accelerator``; what is known already is in ``cache``."""
    document, kept, able = accelerator.model_dump_json(), ResultCache(cache), Capabilities.of(accelerator)

    def measure(region: Region) -> int | None:
        key = cache_key("cycles", document, dump_region(region))
        known = kept.get(key)
        if known is not None and known.isdigit():
            return int(known)
        cycles = _cycles(region, able)
        if cycles is not None:
            kept.put(key, str(cycles).encode())
        return cycles

    return measure


def _cycles(region: Region, able: Capabilities) -> int | None:
    """None for a region that cannot be compiled or timed: the stages will say why, if it is taken."""
    try:
        words = region_words(region, able)
        if words is None:
            return None
        return family_of(able.accelerator).time(decode(able.accelerator, words), {}).cycles
    except CyclopsError:
        return None


_log = logging.getLogger(__name__)
_NO_FILES = Sources()
_ON_THE_HOST = "every launch agrees: the host steps differ"


def run_model(  # noqa: PLR0913  a run has many inputs
    model: bytes | Path,
    accelerator: Accelerator,
    options: Options,
    out: Path,
    *,
    inputs: Tensors | None = None,
    calibration: Tensors | None = None,
    sources: Sources = _NO_FILES,
    progress: Callable[[Progress], None] | None = None,
    cache: CacheStore | None = None,
) -> Report:
    """Compile, simulate and verify ``model``; write the artifacts into ``out``.

    Args:
        model: an ONNX file, float32 or QDQ, or its path; then it is in memory only while it is read.
        accelerator: the target.
        options: seed and what to keep.
        out: an existing directory. It receives ``report.json``, ``outputs.npz``, ``inputs.npz``,
            ``model.qdq.onnx``, ``program.zip``, ``instructions.bin``, ``trace.npz`` and ``tir/``.
        inputs: an array for each model input; else seeded random.
        calibration: samples for each model input, for quantising a float model; else seeded random.
        sources: the files that these were read from, for the report.
        progress: called when a stage begins.
        cache: where the accelerator's functions are looked for before they are compiled, and kept.

    Raises:
        CyclopsError: what is wrong with the model or the tensors.
        InternalError: the program that was made of them is wrong; ``program.zip`` has it.
    """
    files = with_model(sources, model)
    origin = provenance(files, accelerator, options.model_dump(mode="json"), codegen.llvm_get_system_cpu())
    return _Run(accelerator, options, origin, out, progress, cache).run(model, inputs, calibration)


class _Run:
    """The state of one run: where artifacts go, and how long stages took."""

    def __init__(
        self,
        accelerator: Accelerator,
        options: Options,
        origin: Provenance,
        out: Path,
        progress: Callable[[Progress], None] | None,
        cache: CacheStore | None,
    ) -> None:
        self.accelerator = accelerator
        self.options = options
        self.origin = origin
        self.out = out
        self.program_file = out / "program.zip"
        self.dumps = Dumps(out / "tir")
        self.times: list[StageTime] = []
        self.stages = job_stages(accelerator, region_timer(accelerator, cache), options.host_nodes)
        self.progress = progress
        self.cache = cache

    @contextmanager
    def next_stage(self, name: str) -> Iterator[Callable[..., Any]]:
        """The function of the next stage, which is called ``name``; what the block does counts as the stage's time."""
        stage = self.stages[len(self.times)]
        assert stage.name == name
        if self.progress is not None:
            self.progress(Progress(name, len(self.times) + 1, len(self.stages)))
        begin = time.perf_counter()
        yield stage.run
        release_free_memory()
        self.times.append(StageTime(name=name, seconds=round(time.perf_counter() - begin, 4)))

    def run(self, model: bytes | Path, inputs: Tensors | None, calibration: Tensors | None) -> Report:
        """The whole of it; the model's large constants are in a file meanwhile."""
        with tempfile.TemporaryDirectory(dir=self.out) as directory:
            info, original = load_externalized(model, Path(directory), axes=self.options.axes)
            return self._run(info, original, inputs, calibration)

    def _run(
        self, info: ModelInfo, original: onnx.ModelProto, inputs: Tensors | None, calibration: Tensors | None
    ) -> Report:
        feeds = draw_inputs(info.inputs, self.options.seed) if inputs is None else checked_inputs(info, inputs)
        imported = self._import(self._quantize(original, calibration))
        _check_nodes(self.options.host_nodes, imported.operators)
        packed, regions = self._lower(imported)
        left = host_ops(imported, packed, self.accelerator)
        program = self._emit(regions, info, feeds)
        functions = [CompiledFunction(name=name, cached=cached) for name, cached in regions.cached.items()]
        del regions  # their objects have all the instructions once more
        simulation, outputs = self._simulate(info, program)
        save_tensors(self.out / "inputs.npz", feeds)
        save_tensors(self.out / "outputs.npz", outputs)
        with self.next_stage("verify") as check_equal:
            unverified = self._verify(check_equal, imported, packed, program, simulation, outputs)
            check_hazards(simulation, unverified)
            del imported, packed  # the model's weights twice, while the float model takes its own
            quality = quality_of(original, feeds, outputs)
        return self._report(info, left, functions, program, simulation, quality, unverified)

    def _quantize(self, original: onnx.ModelProto, calibration: Tensors | None) -> onnx.ModelProto:
        with self.next_stage("quantize") as quantize:
            quantised: onnx.ModelProto = quantize(original, calibration, seed=self.options.seed)
            (self.out / "model.qdq.onnx").write_bytes(with_embedded_data(quantised).SerializeToString())
            self.dumps.stage("quantize", describe_model(quantised))
        return quantised

    def _import(self, quantised: onnx.ModelProto) -> ImportedModel:
        with self.next_stage("import") as import_model:
            imported: ImportedModel = import_model(quantised)
            self.dumps.stage("import", imported.module.script())
        return imported

    def _lower(self, imported: ImportedModel) -> tuple[ir.IRModule, RegionCache]:
        """The module as ``pack`` left it, which the host can still run, and its regions as the last stage did."""
        module = imported.module
        names = [stage.name for stage in self.stages]
        for name in ("partition", "pack"):
            with self.next_stage(name) as lower:
                passes = PassTexts()
                with tvm.transform.PassContext(instruments=[passes]):
                    module = lower(module, self.accelerator)
                text = module.script()
                self.dumps.stage(name, text, passes.texts)
                if name == "pack":
                    rest = names[names.index("pack") + 1 : names.index("emit")]
                    regions = RegionCache(module, text, self.accelerator, rest, self.cache)
        for name in rest:
            with self.next_stage(name) as lower:
                self.dumps.stage(name, *regions.lower(name, lower))
        return module, regions

    def _emit(self, regions: RegionCache, info: ModelInfo, feeds: Tensors) -> Program:
        """The program, which carries the inputs of this run, so that it can be run again without the model.

        Its inputs and outputs are called as the model's are.
        """
        with self.next_stage("emit") as emit:
            program: Program = emit(regions.lowered(), self.accelerator)
            ours, theirs = (*program.inputs, *program.outputs), (*info.inputs, *info.outputs)
            program = renamed(program, {old: tensor.name for old, tensor in zip(ours, theirs, strict=True)})
            fed = {name: feeds[tensor.name] for name, tensor in zip(program.inputs, info.inputs, strict=True)}
            program = replace(program, image=program.image | fed)
            save_program(program, self.program_file)
            (self.out / "instructions.bin").write_bytes(little_endian(program.words).data)
            self.dumps.stage("emit", describe_program(program))
        return program

    def _simulate(self, info: ModelInfo, program: Program) -> tuple[Simulation, dict[str, Array]]:
        """The program as it ran, and the outputs by the model's own names."""
        with self.next_stage("simulate") as simulate:
            try:
                simulation: Simulation = simulate(program, {})
            except SimulationError as error:
                if error.kind in {"work-limit", "cost"}:  # the model asks for it, or the document's expression fails
                    raise
                raise InternalError(
                    f"the compiled program cannot run to its end: {error.detail}",
                    field=error.field,
                    kind=error.kind,
                    instruction=error.instruction,
                ) from error
        names = zip(info.outputs, program.outputs, strict=True)
        return simulation, {tensor.name: simulation.outputs[name] for tensor, name in names}

    def _verify(
        self,
        check_equal: Callable[..., None],
        imported: ImportedModel,
        packed: ir.IRModule,
        program: Program,
        simulation: Simulation,
        outputs: dict[str, Array],
    ) -> str:
        """Compare the outputs with the reference, which the program file gets too; or say why that was not done.

        Raises:
            VerificationError: they differ; it says where that began.
        """
        seconds = self.options.verify_seconds
        if not seconds:
            return "the outputs were not compared with the integer graph, as verify_seconds is 0"
        fed = {name: program.image[name] for name in program.inputs}
        try:
            reference = reference_outputs(imported.module, list(fed.values()), seconds)
        except OutOfTimeError:
            return (
                f"the integer graph takes the host longer than verify_seconds, {seconds:g}; the outputs were not "
                "compared with its: give it more"
            )
        save_program(replace(program, expected=dict(zip(program.outputs, reference, strict=True))), self.program_file)
        try:
            check_equal(outputs, dict(zip(outputs, reference, strict=True)))
        except VerificationError as error:
            _log.error("the outputs of the compiled program differ from the reference; looking for the launch")
            try:
                fault = str(locate_fault(packed, program, simulation, fed) or _ON_THE_HOST)
            except Exception as other:  # noqa: BLE001 - whatever it is, the difference is what is told
                error.add_note("".join(traceback.format_exception(other)))
                fault = f"where it began could not be located: {type(other).__name__}: {other}"
            raise VerificationError(f"{error.detail}; {fault}", field=error.field) from error
        return ""

    def _report(
        self,
        info: ModelInfo,
        left: list[HostOp],
        functions: list[CompiledFunction],
        program: Program,
        simulation: Simulation,
        quality: Qualities,
        unverified: str,
    ) -> Report:
        with self.next_stage("report") as make_report:
            if self.options.trace:
                make_trace(program, simulation).save(self.out)
            report: Report = make_report(
                program,
                simulation,
                total_macs=info.macs,
                host_ops=left,
                quantisation=quality.figures,
                provenance=self.origin,
                unverified=unverified,
                warnings=[*run_warnings("no-quality", quality.missing), *unset_warnings(info.unset)],
            )
        names = [stage.name for stage in self.times]
        compiling = sum(stage.seconds for stage in self.times[: names.index("simulate")])
        report = report.model_copy(
            update={"stages": self.times, "functions": functions, "compile_seconds": round(compiling, 4)}
        )
        (self.out / "report.json").write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
        return report


def _check_nodes(names: Sequence[str], operators: Collection[str]) -> None:
    """Refuse names of nodes that the model does not have."""
    for place, name in enumerate(names):
        if name not in operators:
            raise InvalidModel(f"the model has no node {name!r}", field=f"options.host_nodes[{place}]")


def check_hazards(simulation: Simulation, unverified: str = "") -> None:
    """The result is right for any speed of the units, and on hardware without a bypass where the document says so.

    Args:
        simulation: the program as it ran.
        unverified: why its outputs were not compared; empty where they equal the reference.

    Raises:
        VerificationError: two instructions, and the elements that they touch in no fixed order; or one that may read
            what was there before.
    """
    hazards = simulation.hazards or Hazards((), ())
    found = "the outputs were not compared, and" if unverified else "the outputs are right by luck: they"
    for race in hazards.races[:1]:
        detail = race_record(race, simulation).detail
        raise VerificationError(
            f"{found} depend on how fast the units are: {detail}", field=f"instruction:{race.second}"
        )
    for read in hazards.stale[:1]:
        detail = stale_record(read, simulation).detail
        raise VerificationError(
            f"{found} depend on what was there before: {detail}", field=f"instruction:{read.instruction}"
        )
