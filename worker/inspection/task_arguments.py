"""Arguments of the fork servers' tasks (``upload_tasks.py`` and ``compiler_tasks.py`` of this package)."""

from pathlib import Path
from typing import Any

import pydantic

from accel.report.provenance import Sources
from worker.records.job_request import JobOptions


class UploadedFile(pydantic.BaseModel):
    """An uploaded file."""

    path: Path


class NamedFile(pydantic.BaseModel):
    """An uploaded file with its name and, if it was the part of a form, the name ``part`` of that."""

    path: Path
    name: str
    part: str = ""


class ModelFiles(pydantic.BaseModel):
    """The files of an uploaded model, and the path of the one file to make of them."""

    files: list[NamedFile]
    model: Path


class PackedProgram(pydantic.BaseModel):
    """An uploaded program, and the path of the Program file to make of it."""

    path: Path
    program: Path


class PlanInputs(pydantic.BaseModel):
    """The fields of ``ModelJobInputs`` that a plan is made of. ``accelerator`` is a name, or the path of a document."""

    model: Path
    accelerator: str
    options: JobOptions
    calibration: Path | None
    sources: Sources


class Derivation(pydantic.BaseModel):
    """A document, and what of its configuration to set."""

    path: Path
    keys: dict[str, Any]
    name: str | None


class NoArguments(pydantic.BaseModel):
    """No arguments."""
