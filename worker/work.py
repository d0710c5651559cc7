"""The inputs of a job as local files."""

from dataclasses import dataclass
from pathlib import Path

from worker.job_request import JobOptions


@dataclass(frozen=True)
class Work:
    """The inputs of a model's job as local files. ``accelerator`` is a name, or the path of a document."""

    model: Path
    accelerator: str
    options: JobOptions
    inputs: Path | None = None
    calibration: Path | None = None


@dataclass(frozen=True)
class ProgramWork:
    """The inputs of a program's job. ``program`` may be a directory; without ``accelerator`` it runs on its own."""

    program: Path
    accelerator: str | None
    options: JobOptions
    inputs: Path | None = None
    trust_host_code: bool = False
