"""Arguments of the fork servers' tasks (``upload_tasks.py`` and ``compiler_tasks.py`` of this package)."""

from pathlib import Path

import pydantic

from accel.report.provenance import Sources
from worker.records.job_request import JobOptions


class UploadedFile(pydantic.BaseModel):
    """An uploaded file."""

    path: Path


class NamedFile(pydantic.BaseModel):
    """A file that came under a name, or as the part ``part`` of a form, which is empty where it tells nothing."""

    path: Path
    name: str
    part: str = ""


class ModelFiles(pydantic.BaseModel):
    """The files of an uploaded model, and the one to make of them if they are several."""

    files: list[NamedFile]
    model: Path


class PackedProgram(pydantic.BaseModel):
    """A program as it was uploaded, and the Program file to make of it."""

    path: Path
    program: Path


class PlanInputs(pydantic.BaseModel):
    """The fields of ``Work`` that a plan is made of. ``accelerator`` is a name, or the path of a document."""

    model: Path
    accelerator: str
    options: JobOptions
    calibration: Path | None
    sources: Sources


class NoArguments(pydantic.BaseModel):
    """For a task that is given nothing."""
