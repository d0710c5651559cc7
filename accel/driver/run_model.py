"""One job from end to end: a model and an accelerator in; program, outputs, trace and report out."""

import logging
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Self

from tvm.target import codegen

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.driver.compilation import Compilation, CompilationInputs, Emitted, Lowered, Referenced, Reported
from accel.driver.compile_stages import TO_PROGRAM
from accel.driver.helpers.job_helpers import NO_HELPERS, Helpers
from accel.driver.helpers.lowering_assistant import lowering_assistant
from accel.driver.helpers.reference_task import ReferenceTask
from accel.driver.job_stages import JOB, with_program
from accel.driver.kept_programs import PROGRAM_FILE, KeptPrograms
from accel.driver.quantisation_scheme import requantisation
from accel.driver.region_choice import find_program, kept_capabilities, planned_for
from accel.driver.run_options import Options, StageProgress
from accel.driver.stage_chain import Phase, StageChain, StageInfo
from accel.driver.stage_dumps import Dumps
from accel.driver.trials.region_timer import RegionTimer
from accel.errors import InternalError
from accel.frontend.read.load_model import LoadedModel, load_externalized
from accel.program.program_model import Program
from accel.program_files.program_container import save_program
from accel.report.documents.report_documents import Report, StageTime
from accel.report.provenance import NO_SOURCES, Sources, provenance, with_model
from accel.util.content_cache import CacheStore
from accel.util.free_memory import release_free_memory
from accel.util.thread_turns import short_turns
from accel.util.whole_files import UNFINISHED, write_whole
from accel.verify.input_tensors import Tensors, checked_inputs, draw_inputs

_log = logging.getLogger(__name__)
_LONG_STAGE = 0.1  # seconds; a shorter one leaves little to return to the system, which takes a millisecond


def run_model(  # noqa: PLR0913  a run has many inputs
    model: bytes | Path,
    accelerator: Accelerator,
    options: Options,
    out: Path,
    *,
    inputs: Tensors | None = None,
    calibration: Tensors | None = None,
    sources: Sources = NO_SOURCES,
    progress: Callable[[StageProgress], None] | None = None,
    cache: CacheStore | None = None,
) -> Report:
    """Compile, simulate and verify ``model``; write the artifacts into ``out``.

    Args:
        model: an ONNX file, float32 or QDQ, or its path; then it is in memory only while it is read.
        accelerator: the target.
        options: seed and what to keep.
        out: an existing directory. It receives ``report.json``, ``outputs.npz``, ``inputs.npz``,
            ``model.qdq.onnx``, ``graph.json``, ``program.zip``, ``instructions.bin``, ``trace.npz``, ``memory.json``,
            ``accelerator.json`` and ``tir/``.
        inputs: an array for each model input; else seeded random.
        calibration: samples for each model input, for quantising a float model; else seeded random.
        sources: the files that these were read from, for the report.
        progress: called when a stage begins.
        cache: where the accelerator's functions are looked for before they are compiled, and kept.

    Raises:
        CyclopsError: what is wrong with the model or the tensors.
        InternalError: the program that was made of them is wrong; ``program.zip`` has it.
    """
    with (
        lowering_assistant() as assistant,
        tempfile.TemporaryDirectory(dir=out, prefix=UNFINISHED) as directory,  # for the model's large constants
    ):
        return run_loaded_model(
            load_externalized(model, Path(directory), axes=options.axes),
            accelerator,
            options,
            out,
            inputs=inputs,
            calibration=calibration,
            sources=with_model(sources, model),
            progress=progress,
            cache=cache,
            helpers=Helpers(assistant),
        )


def run_loaded_model(  # noqa: PLR0913  a run has many inputs
    model: LoadedModel,
    accelerator: Accelerator,
    options: Options,
    out: Path,
    *,
    inputs: Tensors | None = None,
    calibration: Tensors | None = None,
    sources: Sources = NO_SOURCES,
    progress: Callable[[StageProgress], None] | None = None,
    cache: CacheStore | None = None,
    helpers: Helpers = NO_HELPERS,
    report_only: bool = False,
) -> Report:
    """Compile, simulate and verify a model that is loaded with the axes of ``options``; the rest is as for a file.

    One of the ``helpers`` may have begun to quantise this model. Where it is ``report_only``, of the artifacts only the
    report and the program are written.

    Raises:
        CyclopsError, InternalError: as :func:`run_model`.
    """
    target = Target(planned_for(accelerator, options))
    with kept_capabilities(target, cache):
        requantisation(target)  # a document that no model can be compiled for is refused before the first stage
    measure = None if options.schedule == "quick" else RegionTimer(target, cache, assistant=helpers.assistant)
    made_from = provenance(sources, accelerator, options.model_dump(mode="json"), codegen.llvm_get_system_cpu())
    info = model.info
    feeds = draw_inputs(info.inputs, options.seed) if inputs is None else checked_inputs(info, inputs)
    kept = KeptPrograms.of(cache, target.accelerator, options, made_from, calibration, feeds)
    reference = ReferenceTask(options.verify_seconds, every=bool(options.intermediates))
    texts = not report_only or cache is not None
    if helpers.assistant is not None:
        helpers.assistant.prints = texts
    job = CompilationInputs(
        accelerator,
        target,
        options,
        info,
        model.model,
        calibration,
        feeds,
        made_from,
        measure,
        cache,
        traces_passes=not report_only,
        texts=texts,
        types=model.types,
        uploaded=model.uploaded,
        kept=kept,
        reference=reference,
        helpers=helpers,
    )

    def run(chain: StageChain[Compilation, Reported], begun: float) -> Report:
        with short_turns(), reference, _Record(out, progress, begun, report_only=report_only) as record:
            return record.finished(chain.run(Compilation(job), record).report)

    begun = time.perf_counter()
    program = find_program(job)
    if program is not None:
        verified = "its outputs and their verification" if program.verified else "and the outputs of its reference,"
        _log.info("the program, %s are those of an earlier job", verified)
        try:
            return run(with_program(program), begun)
        except InternalError as error:
            _log.warning("the program of an earlier job is compiled again: %s", error.detail)
    return run(JOB, begun)


class _Record:
    """What is kept of a run: artifacts and texts of its stages, in a folder, and how long each stage took.

    A thread writes them beside the next stages: TVM's printer and compression run without Python's lock. Used as a
    context manager it ends when all is written. The first stage begins when the record does, at ``begun`` by
    ``time.perf_counter``. Where it is ``report_only``, the program is written of a run that fails, as that may be a
    fault of ours.
    """

    def __init__(
        self, out: Path, progress: Callable[[StageProgress], None] | None, begun: float, *, report_only: bool = False
    ) -> None:
        self._out = out
        self._report_only = report_only
        self._dumps = Dumps(out / "tir")
        self._progress = progress
        self._times: list[StageTime] = []
        self._stage: StageInfo | None = None
        self._began = begun
        self._writer = ThreadPoolExecutor(1, "writer")
        self._written: list[Future[None]] = []
        self._program: Program | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self._writer.shutdown()
        if isinstance(error, Exception) and self._program is not None:
            save_program(self._program, self._out / PROGRAM_FILE)

    def begin(self, stage: StageInfo, number: int) -> None:
        """Tell that a stage begins."""
        self._end()
        if self._progress is not None:
            self._progress(StageProgress(stage.name, number + 1, len(JOB.stages)))
        if self._stage is not None:  # the first begins with the record
            self._began = time.perf_counter()
        self._stage = stage

    def made(self, phase: Phase) -> None:
        """Write what a stage has made."""
        assert self._stage is not None
        if not self._report_only:
            self._written.append(self._writer.submit(self._write, self._stage.name, phase))
        elif isinstance(phase, Emitted):
            self._program = phase.program
        elif isinstance(phase, Referenced):
            self._program = phase.expected
        if isinstance(phase, Lowered):
            self._written.append(self._writer.submit(phase.print_kept))

    def _write(self, stage: str, phase: Phase) -> None:
        phase.save(self._out)
        dump = phase.dump()
        if dump is not None:
            self._dumps.stage(stage, dump.text, dump.passes)

    def _end(self) -> None:
        if self._stage is not None:
            if time.perf_counter() - self._began > _LONG_STAGE:
                release_free_memory()
            seconds = round(time.perf_counter() - self._began, 4)
            self._times.append(StageTime(name=self._stage.name, seconds=seconds))

    def finished(self, report: Report) -> Report:
        """Write ``report.json`` with the stages' times, and return it so.

        Raises:
            OSError: what a stage made cannot be written.
        """
        for written in self._written:
            written.result()
        self._end()
        compiling = sum(stage.seconds for stage in self._times[: len(TO_PROGRAM.stages)])
        report = report.model_copy(update={"stages": self._times, "compile_seconds": round(compiling, 4)})
        write_whole(self._out / "report.json", report.model_dump_json(indent=2) + "\n")
        return report
