"""Inspection tasks that need no compiler, for a fork server that starts with the api."""

from pathlib import Path

from accel.accelerator.document import Accelerator
from accel.catalog.derive_accelerator import derive_accelerator
from accel.catalog.load_accelerator import check_accelerator, load_accelerator, parse_accelerator, preset_names
from accel.errors import InvalidAccelerator
from accel.report.compare.changed_documents import ChangedDocuments, changed_documents
from worker.config.settings import Settings
from worker.execution.tensor_archives import NpzArchive
from worker.inspection.document_errors import with_explanation
from worker.inspection.model_files import model_of_files
from worker.inspection.task_arguments import Derivation, ModelFiles, UploadedFile
from worker.records.uploads import TensorsContents
from worker.sandbox.confined_tasks import confined_task, confinement_task
from worker.sandbox.resource_limits import inspection_limits


def _tensors(given: UploadedFile, settings: Settings) -> TensorsContents:
    with given.path.open("rb") as file:
        npz = NpzArchive(file, max_bytes=settings.max_tensors_bytes, max_arrays=settings.max_arrays)
        npz.check_data()
    return TensorsContents(tensors=npz.tensors)


def _accelerator(given: UploadedFile, _settings: Settings) -> Accelerator:
    return read_accelerator(given.path)


def read_accelerator(path: Path) -> Accelerator:
    """Returns the accelerator of a document.

    Raises:
        InvalidAccelerator: it is none; the message has the place, what stands there, and what could.
    """
    text = path.read_bytes()
    try:
        return parse_accelerator(text)
    except InvalidAccelerator as error:
        raise with_explanation(error, text) from error


def _derived(given: Derivation, _settings: Settings) -> Accelerator:
    return derive_accelerator(read_accelerator(given.path), given.keys, given.name)


def _changes(given: UploadedFile, _settings: Settings) -> ChangedDocuments:
    return ChangedDocuments(changes=changed_documents(read_accelerator(given.path)))


# the presets, and what checks a document of each family, are loaded once, not by each task
for _preset in {_preset.family: _preset for _preset in map(load_accelerator, preset_names())}.values():
    check_accelerator(_preset)

TASKS = {
    "accelerator": confined_task(inspection_limits, UploadedFile, _accelerator),
    "changes": confined_task(inspection_limits, UploadedFile, _changes),
    "derived": confined_task(inspection_limits, Derivation, _derived),
    "model": confined_task(inspection_limits, ModelFiles, model_of_files),
    "tensors": confined_task(inspection_limits, UploadedFile, _tensors),
    "confinement": confinement_task,
}
