"""The inputs of a job as local files."""

from dataclasses import dataclass
from pathlib import Path

from accel.provenance import Sources
from worker.job_request import JobOptions

_NO_FILES = Sources()


@dataclass(frozen=True)
class Work:
    """The inputs of a model's job as local files. ``accelerator`` is a name, or the path of a document.

    ``sources`` are the files as the user has them: here a document may be written otherwise.
    """

    model: Path
    accelerator: str
    options: JobOptions
    inputs: Path | None = None
    calibration: Path | None = None
    sources: Sources = _NO_FILES


@dataclass(frozen=True)
class ProgramWork:
    """The inputs of a program's job. ``program`` may be a directory; without ``accelerator`` it runs on its own."""

    program: Path
    accelerator: str | None
    options: JobOptions
    inputs: Path | None = None
    trust_host_code: bool = False
    sources: Sources = _NO_FILES
