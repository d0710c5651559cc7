"""What a request names, from the store into local files."""

from pathlib import Path

from accel.catalog import preset_names
from accel.provenance import Sources
from worker.accelerators import Accelerators
from worker.job_record import Document, Job
from worker.job_request import JobRequest
from worker.store import Store
from worker.uploads import models, programs, tensors
from worker.work import ProgramWork, Work


def fetch(request: JobRequest | Job, directory: Path, store: Store, document: Document) -> Work | ProgramWork:
    """Bring the request's uploads into files in ``directory``.

    ``document`` is that of the request's accelerator as its user has it.

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
    accelerator = request.accelerator and accelerators.fetch(request.accelerator, directory / "accelerator.json")
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
    if request.program is not None:
        program = directory / "program.zip"
        programs(store).fetch(request.program, program)
        return ProgramWork(program, accelerator, request.options, local.get("inputs"), sources=sources)
    assert request.model is not None
    assert accelerator is not None
    model = directory / "model.onnx"
    models(store).fetch(request.model, model)
    return Work(model, accelerator, request.options, local.get("inputs"), local.get("calibration"), sources)
