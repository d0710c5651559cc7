"""The problem that a job fails with and, for a defect of Cyclops, an incident file for its report.

``incident.zip`` has ``incident.json`` (the problem, the stage, the traceback, where the numbers would have come from),
``accelerator.json`` and, where there is one, ``program.zip``, which anyone can run again with ``cyclops simulate``.
"""

import errno
import json
import logging
import traceback
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import canonical, load_accelerator
from accel.errors import CyclopsError
from accel.report.provenance import provenance, versions
from accel.util.whole_files import whole_file
from worker.config.settings import Settings
from worker.execution.job_inputs import ModelJobInputs, ProgramJobInputs
from worker.records.job_record import Stage
from worker.records.problem_details import Problem, internal_problem, problem, problem_of
from worker.storage.identifiers import new_id

_log = logging.getLogger(__name__)
INCIDENT = "incident.zip"
_PROGRAM = "program.zip"  # as a run of a model writes it
_DOCUMENTS_BYTES = 8 << 20  # room for what is in the file beside the program
_LACKING = ("MemoryError", "bad_alloc", "out of memory", "Cannot allocate memory", "Memory allocation still failed")


class StageRecorder:
    """Forwards stages, and keeps the last one.

    Attributes:
        stage: the stage that began last, or None.
    """

    def __init__(self, progress: Callable[[Stage], None]) -> None:
        self._progress = progress
        self.stage: Stage | None = None

    def __call__(self, stage: Stage) -> None:
        """Forwards a stage."""
        self.stage = stage
        self._progress(stage)


def failure_problem(error: Exception) -> Problem:
    """Returns the problem of an exception; a defect of Cyclops gets the id of an incident."""
    if isinstance(error, CyclopsError):
        return problem_of(error)
    if isinstance(error, MemoryError) or is_out_of_memory(str(error)):
        return memory_limit_problem(str(error) or "out of memory")
    if isinstance(error, OSError) and error.errno in {errno.EFBIG, errno.EDQUOT}:
        return problem("output-limit", "The job wrote more than the limit.", f"{error.filename}: {error.strerror}")
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return problem("disk-full", "The service has no room on its disk.", "submit the job again later")
    return internal_problem(error, new_id())


def memory_limit_problem(detail: str) -> Problem:
    """Returns the problem of a job that exceeded its memory limit."""
    return problem("memory-limit", "The job needed more memory than the limit.", detail)


def is_out_of_memory(text: str) -> bool:
    """Returns whether a message of native code reports a failed allocation."""
    return any(words in text for words in _LACKING)


def write_incident(
    found: Problem,
    error: Exception,
    stage: Stage | None,
    work: ModelJobInputs | ProgramJobInputs,
    out: Path,
    settings: Settings,
) -> None:
    """Writes ``incident.zip`` into ``out``. A failure is only logged: the job ends with its own problem.

    Args:
        found: the problem, with the id of its incident.
        error: what raised it.
        stage: the stage that the job had reached.
        work: the job.
        out: where its artifacts are.
        settings: how much it may write.
    """
    try:
        program = _program(work, out)
        copied = None if program is None or _too_large(program, out, settings) else program
        incident = {
            "incident": found.incident,
            "problem": found.model_dump(mode="json"),
            "stage": None if stage is None else stage.name,
            "traceback": "".join(traceback.format_exception(error)),
            "program": None if program is None else _PROGRAM if copied else "left out: it is too large",
        }
        with whole_file(out / INCIDENT) as unfinished, zipfile.ZipFile(unfinished, "w", zipfile.ZIP_STORED) as archive:
            accelerator = _accelerator(work)
            incident |= _origin(work, accelerator)
            archive.writestr("incident.json", json.dumps(incident, indent=2) + "\n")
            if accelerator is not None:
                archive.writestr("accelerator.json", canonical(accelerator))
            if copied is not None:
                archive.write(copied, _PROGRAM)
    except Exception as other:  # noqa: BLE001 - whatever it is, it must not hide the problem
        _log.error("incident %s: %s could not be written: %s", found.incident, INCIDENT, other)


def _program(work: ModelJobInputs | ProgramJobInputs, out: Path) -> Path | None:
    """Returns the compiled or given program, if it is a file."""
    path = work.program if isinstance(work, ProgramJobInputs) else out / _PROGRAM
    return path if path.is_file() else None


def _too_large(program: Path, out: Path, settings: Settings) -> bool:
    """Returns whether a copy of the program would exceed the job's output limits."""
    written = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    size = program.stat().st_size + _DOCUMENTS_BYTES
    return size > settings.job_file_bytes or written + size > settings.job_output_bytes


def _accelerator(work: ModelJobInputs | ProgramJobInputs) -> Accelerator | None:
    """Returns the target; None if it is the program's own or cannot be read."""
    try:
        return None if work.accelerator is None else load_accelerator(work.accelerator)
    except CyclopsError:
        return None


def _origin(work: ModelJobInputs | ProgramJobInputs, accelerator: Accelerator | None) -> dict[str, Any]:
    options = work.options.model_dump(mode="json")
    if accelerator is not None:
        return {"provenance": provenance(work.sources, accelerator, options).model_dump(mode="json")}
    return {
        "versions": versions().model_dump(),
        "sources": work.sources.model_dump(),
        "options": options,
    }
