"""Jobs and dry runs from files to files, for the worker and the command line."""

import hashlib
import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import checked_accelerator, load_accelerator, preset_names
from accel.driver.dry_run import plan_loaded_model
from accel.driver.helpers.job_helpers import NO_HELPERS, Helpers
from accel.driver.run_model import run_loaded_model
from accel.driver.run_options import Options, SimulateOptions
from accel.driver.run_program import run_program, summarise_program
from accel.errors import InvalidAccelerator, InvalidProgram, InvalidTensors
from accel.frontend.read.load_model import load_externalized, load_model
from accel.frontend.read.model_info import ModelInfo, TensorInfo
from accel.isa.family import KernelProvider
from accel.isa.kernels.compiled_kernels import cache_folder
from accel.program.program_model import HostStep, Program
from accel.program_files.open_program import open_program
from accel.program_files.program_container import save_program
from accel.report.documents.plan_documents import Plan
from accel.report.documents.report_documents import SimulationSummary
from accel.report.provenance import with_model
from accel.simulate.prepare_simulation import fetch, is_on_disk, prepare_on_disk
from accel.util.arrays import Array
from accel.util.content_cache import CacheStore
from accel.util.whole_files import UNFINISHED
from worker.config.settings import Settings
from worker.execution.job_inputs import ModelJobInputs, ProgramJobInputs
from worker.execution.tensor_archives import NpzArchive, as_samples, check_fit
from worker.process.children import start_child
from worker.records.job_record import Stage, Summary
from worker.records.uploads import ProgramContents

Arrays = dict[str, Array]

_INPUTS, _SAMPLES = "options.inputs", "options.calibration"


def execute(
    work: ModelJobInputs | ProgramJobInputs,
    out: Path,
    settings: Settings,
    progress: Callable[[Stage], None],
    *,
    cache: CacheStore | None = None,
    kernels: KernelProvider | None = None,
    helpers: Helpers = NO_HELPERS,
    report_only: bool = False,
) -> Summary:
    """Runs the job; the artifacts are files in ``out``.

    Args:
        work: its inputs.
        out: the existing folder of its artifacts.
        settings: the limits of its inputs.
        progress: is called with each stage.
        cache: keeps compiled functions.
        kernels: compiles simulation kernels that others may use; without it this process is trusted to.
        helpers: work beside a model's job.
        report_only: nobody looks at an artifact but the report.

    Raises:
        CyclopsError: an input cannot be used, or the program is wrong.
    """
    if isinstance(work, ProgramJobInputs):
        return _execute_program(work, out, settings, progress, kernels, report_only=report_only)
    return _execute_model(work, out, settings, progress, cache, kernels, helpers, report_only=report_only)


def _execute_model(
    work: ModelJobInputs,
    out: Path,
    settings: Settings,
    progress: Callable[[Stage], None],
    cache: CacheStore | None,
    kernels: KernelProvider | None,
    helpers: Helpers,
    *,
    report_only: bool,
) -> Summary:
    with tempfile.TemporaryDirectory(dir=out, prefix=UNFINISHED) as directory:  # for the model's large constants
        model = load_externalized(work.model, Path(directory), axes=work.options.axes)
        info = model.info
        inputs = load_arrays(
            work.inputs, settings, _INPUTS, lambda given: check_fit(given, info.inputs, field=_INPUTS, unset=info.unset)
        )
        accelerator = _accelerator(work.accelerator, checked=work.checked)
        _prepare(accelerator, kernels)
        run_loaded_model(
            model,
            accelerator,
            Options(**work.options.model_dump(include=set(Options.model_fields))),
            out,
            inputs=inputs,
            calibration=_calibration(work, info, settings),
            sources=with_model(work.sources, work.model),
            progress=lambda p: progress(Stage(name=p.stage, step=p.step, total=p.total)),
            cache=cache,
            helpers=replace(helpers, ahead=None) if work.calibration else helpers,
            report_only=report_only,
        )
    return summarize(json.loads((out / "report.json").read_bytes()))


def _prepare(accelerator: Accelerator, kernels: KernelProvider | None) -> None:
    """Has what the simulation of a program runs compiled, in a new installation."""
    if kernels is not None:
        fetch(accelerator, kernels)
    elif cache_folder() is not None and not is_on_disk(accelerator):
        prepare_on_disk(accelerator, start_child)


def _calibration(work: ModelJobInputs, info: ModelInfo, settings: Settings) -> Arrays | None:
    samples = load_arrays(
        work.calibration,
        settings,
        _SAMPLES,
        lambda given: check_fit(given, info.inputs, field=_SAMPLES, samples=True, unset=info.unset),
    )
    return None if samples is None else as_samples(samples, info.inputs)


def _execute_program(
    work: ProgramJobInputs,
    out: Path,
    settings: Settings,
    progress: Callable[[Stage], None],
    kernels: KernelProvider | None,
    *,
    report_only: bool,
) -> Summary:
    program = _open_program(work)
    sources = work.sources
    if sources.program is None:  # the service has made the Program file, and knows it by its digest
        sources = sources.model_copy(update={"program": _program_digest(program, out)})
    program = _retargeted(program, work)
    _prepare(program.accelerator, kernels)
    report = run_program(
        program,
        _simulate_options(work),
        out,
        inputs=_program_inputs(work, program, settings),
        sources=sources,
        progress=lambda p: progress(Stage(name=p.stage, step=p.step, total=p.total)),
        report_only=report_only,
    )
    return Summary(verified=report.verified, cycles=report.cycles, macs_share=None)


def program_summariser(settings: Settings) -> Callable[[ProgramJobInputs], SimulationSummary]:
    """Returns what simulates one program after the other, and gives the verdict and the cycles of each.

    What the simulation of an accelerator runs is compiled once for all. A call raises CyclopsError where an input
    cannot be used, or the program is wrong.
    """
    prepared: list[Accelerator] = []  # a preset is found as the object that it is

    def summarise(work: ProgramJobInputs) -> SimulationSummary:
        program = _retargeted(_open_program(work), work)
        if program.accelerator not in prepared:
            _prepare(program.accelerator, None)
            prepared.append(program.accelerator)
        inputs = _program_inputs(work, program, settings)
        return summarise_program(program, _simulate_options(work), inputs=inputs)

    return summarise


def _simulate_options(work: ProgramJobInputs) -> SimulateOptions:
    return SimulateOptions(**work.options.model_dump(include=set(SimulateOptions.model_fields)))


def _program_inputs(work: ProgramJobInputs, program: Program, settings: Settings) -> Arrays | None:
    wanted = program_tensors(program, program.inputs)
    return load_arrays(
        work.inputs, settings, _INPUTS, lambda given: check_fit(given, wanted, field=_INPUTS, partial=True)
    )


def _open_program(work: ProgramJobInputs) -> Program:
    try:
        return open_program(work.program)
    except OSError as error:
        raise InvalidProgram(f"{work.program} cannot be read: {error.strerror or error}", field="program") from error


def _program_digest(program: Program, out: Path) -> str:
    """Returns the SHA-256 of the Program file, which is written to find it."""
    with tempfile.TemporaryFile(dir=out) as file:
        save_program(program, file)
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()


def _accelerator(name: str, *, checked: bool) -> Accelerator:
    """Returns the accelerator of a name or a path; a document that has been ``checked`` is not checked again."""
    is_file = checked and name not in preset_names()
    return checked_accelerator(Path(name).read_bytes()) if is_file else load_accelerator(name)


def _retargeted(program: Program, work: ProgramJobInputs) -> Program:
    """Returns the program for another accelerator, if one is given."""
    if work.accelerator is None:
        return program
    other = _accelerator(work.accelerator, checked=work.checked)
    if other.word_bits != program.accelerator.word_bits:
        raise InvalidAccelerator(
            f"{other.name} has instructions of {other.word_bits} bits; the program's have "
            f"{program.accelerator.word_bits}",
            field="accelerator",
        )
    return replace(program, accelerator=other)


def load_arrays(
    path: Path | None, settings: Settings, field: str, fits: Callable[[list[TensorInfo]], None]
) -> Arrays | None:
    """Returns the arrays of an npz file, if its headers pass ``fits``; None if there is no file.

    Raises:
        InvalidTensors: it is no npz file, is too large, or does not fit; ``field`` is the option's.
    """
    if path is None:
        return None
    with path.open("rb") as file:
        try:
            npz = NpzArchive(file, max_bytes=settings.max_tensors_bytes, max_arrays=settings.max_arrays)
            npz.check_data()
        except InvalidTensors as error:
            raise InvalidTensors(error.detail, field=field) from error
        fits(npz.tensors)
        return npz.load()


def summarize(report: dict[str, Any]) -> Summary:
    """Returns the figures of a model's report that a job's record shows."""
    return Summary(verified=report["verified"], cycles=report["cycles"], macs_share=report["macs"]["share"])


def execute_dry_run(work: ModelJobInputs, settings: Settings) -> Plan:
    """Returns the plan of a dry run of a model; input tensors are not read.

    Raises:
        CyclopsError: an input cannot be used.
    """
    accelerator = _accelerator(work.accelerator, checked=work.checked)
    model = load_model(work.model.read_bytes(), axes=work.options.axes)
    calibration, sources = _calibration(work, model.info, settings), with_model(work.sources, work.model)
    return plan_loaded_model(model, accelerator, work.options, calibration=calibration, sources=sources)


def describe_program(program: Program) -> ProgramContents:
    """Returns the inputs, outputs and sizes of a program."""
    host_steps = sum(isinstance(step, HostStep) for step in program.steps)
    return ProgramContents(
        accelerator=program.accelerator.name,
        instructions=len(program.words),
        launches=len(program.steps) - host_steps,
        host_steps=host_steps,
        dram_bytes=program.dram_bytes,
        inputs=program_tensors(program, program.inputs),
        outputs=program_tensors(program, program.outputs),
        expects=bool(program.expected),
    )


def program_tensors(program: Program, names: tuple[str, ...]) -> list[TensorInfo]:
    """Returns names, element types and shapes of some of a program's segments."""
    segments = [program.segments[name] for name in names]
    return [TensorInfo(name=segment.name, dtype=segment.dtype, shape=segment.shape) for segment in segments]
