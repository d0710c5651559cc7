"""The inputs of a job as local files, and fetching them from the store."""

from dataclasses import dataclass
from pathlib import Path

from accel.catalog.load_accelerator import preset_names
from accel.report.provenance import NO_SOURCES, Sources
from accel.util.content_cache import sources_digest
from worker.records.accelerator_store import Accelerators
from worker.records.job_record import Document, Job
from worker.records.job_request import JobOptions, JobRequest
from worker.records.uploads import models, programs, tensors
from worker.storage.object_store import Store


@dataclass(frozen=True)
class ModelJobInputs:
    """The inputs of a model's job as local files. ``accelerator`` is a name, or the path of a document.

    ``sources`` are the files as the user has them: here a document may be written otherwise. ``checked``: it is
    canonical, and has passed the checks of this version.
    """

    model: Path
    accelerator: str
    options: JobOptions
    inputs: Path | None = None
    calibration: Path | None = None
    sources: Sources = NO_SOURCES
    checked: bool = False


@dataclass(frozen=True)
class ProgramJobInputs:
    """The inputs of a program's job. ``program`` may be a directory; without ``accelerator`` it runs on its own.

    The rest is as of a model's.
    """

    program: Path
    accelerator: str | None
    options: JobOptions
    inputs: Path | None = None
    sources: Sources = NO_SOURCES
    checked: bool = False


def fetch_inputs(
    request: JobRequest | Job, directory: Path, store: Store, document: Document, accelerator_file: Path | None = None
) -> ModelJobInputs | ProgramJobInputs:
    """Copies the request's uploads into files in ``directory``.

    Args:
        request: the request.
        directory: of the files.
        store: has the uploads.
        document: that of the request's accelerator as its user has it.
        accelerator_file: a document in place of the request's accelerator.

    Raises:
        KeyError: one of them is not there.
        OSError: one of them is damaged.
    """
    local: dict[str, Path] = {}
    for name in ("inputs", "calibration"):
        if digest := getattr(request.options, name):
            local[name] = directory / f"{name}.npz"
            tensors(store).fetch(digest, local[name])
    accelerators = Accelerators(store)
    accelerator = str(accelerator_file) if accelerator_file is not None else None
    if request.accelerator is not None:
        accelerator = accelerators.fetch(request.accelerator, directory / "accelerator.json")
    if request.accelerator in preset_names():  # that of this version, which runs it
        document = accelerators.source(request.accelerator)
    sources = Sources(
        model=request.model,
        program=request.program,
        document=document.sha256,
        label=document.label,
        inputs=request.options.inputs,
        calibration=request.options.calibration,
    )
    checked = accelerator_file is None and document.checked == sources_digest()
    if request.program is not None:
        program = directory / "program.zip"
        programs(store).fetch(request.program, program)
        return ProgramJobInputs(program, accelerator, request.options, local.get("inputs"), sources, checked)
    assert request.model is not None
    assert accelerator is not None
    model = directory / "model.onnx"
    models(store).fetch(request.model, model)
    inputs, calibration = local.get("inputs"), local.get("calibration")
    return ModelJobInputs(model, accelerator, request.options, inputs, calibration, sources, checked)
