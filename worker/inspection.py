"""What is in an upload, without the compiler: the tasks of a fork server that the api starts with itself."""

from pathlib import Path

from accel.accelerator.document import Accelerator
from accel.catalog import load_accelerator, parse_accelerator, preset_names
from accel.errors import InvalidAccelerator
from worker.confined import confined, confinement
from worker.limits import inspection_limits
from worker.models import model_of_files
from worker.refusal import explained
from worker.requests import File, ModelFiles
from worker.settings import Settings
from worker.tensors import Npz
from worker.uploads import TensorsContents


def _tensors(given: File, settings: Settings) -> TensorsContents:
    with given.path.open("rb") as file:
        npz = Npz(file, max_bytes=settings.max_tensors_bytes, max_arrays=settings.max_arrays)
        npz.check_data()
    return TensorsContents(tensors=npz.tensors)


def _accelerator(given: File, _settings: Settings) -> Accelerator:
    return read_accelerator(given.path)


def read_accelerator(path: Path) -> Accelerator:
    """The accelerator of a document.

    Raises:
        InvalidAccelerator: it is none; the message has the place, what stands there, and what could.
    """
    text = path.read_bytes()
    try:
        return parse_accelerator(text)
    except InvalidAccelerator as error:
        raise explained(error, text) from error


for _name in preset_names():  # what checks a document is loaded once, not by each task
    load_accelerator(_name)

TASKS = {
    "accelerator": confined(inspection_limits, File, _accelerator),
    "model": confined(inspection_limits, ModelFiles, model_of_files),
    "tensors": confined(inspection_limits, File, _tensors),
    "confinement": confinement,
}
