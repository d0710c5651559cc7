"""One job from end to end: a model and an accelerator in; program, outputs, trace and report out."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tvm.target import codegen

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.driver.compilation import Compilation, CompilationInputs
from accel.driver.job_stages import JOB, TO_PROGRAM, requantisation
from accel.driver.run_options import Options, StageProgress
from accel.driver.stage_chain import Phase, StageInfo
from accel.driver.stage_dumps import Dumps
from accel.errors import CyclopsError
from accel.frontend.read.load_model import LoadedModel, load_externalized
from accel.isa.decode import decode
from accel.isa.family import Family
from accel.isa.family_registry import family_of
from accel.lowering.ir.function_attributes import dump_region
from accel.lowering.partition.autotune import Measure
from accel.lowering.pipeline import region_words
from accel.region.kinds import Region
from accel.report.provenance import NO_SOURCES, Sources, provenance, with_model
from accel.report.report_documents import Report, StageTime
from accel.simulate.engine import release_free_memory
from accel.util.arrays import Words
from accel.util.content_cache import CacheStore, SealedCache, cache_key
from accel.verify.input_tensors import Tensors, checked_inputs, draw_inputs


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
            ``model.qdq.onnx``, ``program.zip``, ``instructions.bin``, ``trace.npz``, ``memory.json``,
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
    with tempfile.TemporaryDirectory(dir=out) as directory:  # for the model's large constants
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
) -> Report:
    """Compile, simulate and verify a model that is loaded with the axes of ``options``; the rest is as for a file.

    Raises:
        CyclopsError, InternalError: as :func:`run_model`.
    """
    target = Target(accelerator)
    requantisation(target)  # a document that no model can be compiled for is refused before the first stage
    record = _Record(out, progress)
    measure = region_timer(target, cache) if options.schedule == "timed" else None
    made_from = provenance(sources, accelerator, options.model_dump(mode="json"), codegen.llvm_get_system_cpu())
    info = model.info
    feeds = draw_inputs(info.inputs, options.seed) if inputs is None else checked_inputs(info, inputs)
    job = CompilationInputs(target, options, info, model.model, calibration, feeds, made_from, measure, cache)
    return record.finished(JOB.run(Compilation(job), record).report)


class _Record:
    """What is kept of a run: artifacts and texts of its stages, in a folder, and how long each stage took."""

    def __init__(self, out: Path, progress: Callable[[StageProgress], None] | None) -> None:
        self._out = out
        self._dumps = Dumps(out / "tir")
        self._progress = progress
        self._times: list[StageTime] = []
        self._stage: StageInfo | None = None
        self._began = 0.0

    def begin(self, stage: StageInfo, number: int) -> None:
        """Tell that a stage begins."""
        self._end()
        if self._progress is not None:
            self._progress(StageProgress(stage.name, number + 1, len(JOB.stages)))
        self._stage, self._began = stage, time.perf_counter()

    def made(self, phase: Phase) -> None:
        """Write what a stage has made."""
        assert self._stage is not None
        phase.save(self._out)
        dump = phase.dump()
        if dump is not None:
            self._dumps.stage(self._stage.name, dump.text, dump.passes)

    def _end(self) -> None:
        if self._stage is not None:
            release_free_memory()
            seconds = round(time.perf_counter() - self._began, 4)
            self._times.append(StageTime(name=self._stage.name, seconds=seconds))

    def finished(self, report: Report) -> Report:
        """Write ``report.json`` with the stages' times, and return it so."""
        self._end()
        compiling = sum(stage.seconds for stage in self._times[: len(TO_PROGRAM.stages)])
        report = report.model_copy(update={"stages": self._times, "compile_seconds": round(compiling, 4)})
        (self._out / "report.json").write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
        return report


def region_timer(target: Target, cache: CacheStore | None = None) -> Measure:
    """Cycles of a region alone on ``target``; what is known already is in ``cache``.

    Cycles are kept under the whole document. The words that they are of are kept under what lowering reads of it, so
    that a document which differs in time alone times them again.

    Raises:
        InvalidAccelerator: its family is not installed.
    """
    document, kept = target.accelerator.model_dump_json(), SealedCache(cache)
    family, untimed = family_of(target.accelerator), target.accelerator.untimed().model_dump_json()

    def measure(region: Region) -> int | None:
        key = cache_key("cycles", document, dump_region(region))
        known = kept.get(key)
        if known is not None and known.isdigit():
            return int(known)
        words = _kept_words(region, target, kept, untimed)
        cycles = None if words is None else _cycles(words, target, family)
        if cycles is not None:
            kept.put(key, str(cycles).encode())
        return cycles

    return measure


def _kept_words(region: Region, target: Target, kept: SealedCache, untimed: str) -> Words | None:
    """The words of a region as :func:`region_words` makes them, or as they were kept.

    None for a region that cannot be compiled: the stages will say why, if it is taken.
    """
    key, wide = cache_key("words", untimed, dump_region(region)), target.accelerator.word_bits // 64
    known = kept.get(key)
    if known is not None and len(known) % (8 * wide) == 0:
        return np.frombuffer(known, "<u8").astype(np.uint64).reshape(-1, wide)
    try:
        words = region_words(region, target)
    except CyclopsError:
        return None
    if words is not None:
        kept.put(key, words.astype("<u8").tobytes())
    return words


def _cycles(words: Words, target: Target, family: Family) -> int | None:
    """None for words that cannot be timed: the stages will say why, if the region is taken."""
    try:
        return family.time(decode(target.accelerator, words), {}).cycles
    except CyclopsError:
        return None
