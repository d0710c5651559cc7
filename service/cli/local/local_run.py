"""``cyclops run`` and ``cyclops simulate``: a job in this process, without a service."""

import errno
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from accel.catalog.load_accelerator import document_digest
from accel.driver.helpers.job_helpers import Helpers
from accel.driver.helpers.lowering_assistant import lowering_assistant
from accel.driver.helpers.quantisation_ahead import QuantisationAhead
from accel.errors import CompileError, CyclopsError, InvalidModel, InvalidProgram, InvalidTensors, SimulationError
from accel.frontend.read.external_files import folder_data, single_file
from accel.report.provenance import Sources, file_digest
from accel.util.content_cache import FolderCache
from service.cli.report_tables import print_report, print_simulation
from worker.config.settings import Settings
from worker.execution.job_execution import execute
from worker.execution.job_failure import INCIDENT, StageRecorder, failure_problem, write_incident
from worker.execution.job_inputs import ModelJobInputs, ProgramJobInputs
from worker.records.job_record import Stage
from worker.records.problem_details import Problem, problem_of

AnyWork = TypeVar("AnyWork", ModelJobInputs, ProgramJobInputs, ModelJobInputs | ProgramJobInputs)

# exit codes
JOB_FAILED = 1
INPUT_REFUSED = 2
_NO_MARKUP: dict[str, Any] = {"markup": False, "highlight": False, "soft_wrap": True}


def run_local(
    work: ModelJobInputs | ProgramJobInputs,
    settings: Settings,
    out: Path | None,
    cache: Path | None = None,
    *,
    as_json: bool,
    html: Path | None = None,
    ahead: QuantisationAhead | None = None,
    then: Callable[[dict[str, Any]], None] | None = None,
) -> int:
    """Run the job and print its report; gives the exit code.

    Args:
        work: what to run.
        settings: those of the environment.
        out: where every artifact goes; None: nowhere.
        cache: where compiled functions are kept.
        as_json: print the report as JSON.
        html: a file for the report as a page of its own; None: none.
        ahead: has begun to quantise the model.
        then: is given the report once it is printed.
    """
    errors = Console(stderr=True)
    status = errors.status("starting") if errors.is_terminal else None
    try:
        with status or nullcontext():
            progress = _progress_updater(status.update if status else None)
            text = run_to_report(work, settings, out, cache, html, progress, ahead)
    except (CyclopsError, MemoryError) as error:
        return print_error(error, errors, as_json=as_json)
    except InternalFailureError as error:
        return print_problem(error.problem, errors, as_json=as_json, kept=error.kept)
    report = json.loads(text)
    if as_json:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
    else:
        show = print_simulation if isinstance(work, ProgramJobInputs) else print_report
        show(report, Console())
        if html is not None:
            Console().print(f"the report as a page of its own: {html}", **_NO_MARKUP)
    if then is not None:
        try:
            then(report)
        except CyclopsError as error:
            return print_error(error, errors, as_json=as_json)
    return JOB_FAILED if _is_unverified(report) else 0


def exit_status_of(error: CyclopsError) -> int:
    """Returns the exit code of a command that an error ends: the job failed, or its input was refused."""
    return JOB_FAILED if isinstance(error, CompileError | SimulationError) else INPUT_REFUSED


def print_error(error: CyclopsError | MemoryError, errors: Console, *, as_json: bool) -> int:
    """Print why there is no result; gives the exit code."""
    if isinstance(error, MemoryError):
        errors.print(f"cyclops: the job needs more memory than there is: {error}", markup=False, soft_wrap=True)
        return JOB_FAILED
    if as_json:
        sys.stdout.write(problem_of(error).model_dump_json(indent=2) + "\n")
    else:
        errors.print(f"cyclops: {_error_line(error)}", **_NO_MARKUP)
    return exit_status_of(error)


def print_problem(problem: Problem, errors: Console, *, as_json: bool, kept: Path | None = None) -> int:
    """Print a problem that is not of the input; gives the exit code. ``kept`` is what a report of it needs."""
    if as_json:
        sys.stdout.write(problem.model_dump_json(indent=2) + "\n")
    where = f" [{problem.field}]" if problem.field else ""
    named = f" (incident {problem.incident})" if problem.incident else ""
    if not as_json:
        errors.print(f"cyclops: {problem.title}{where} {problem.detail}{named}", **_NO_MARKUP)
    if kept is not None:
        errors.print(f"cyclops: {kept} has what a report of it needs; please attach it", **_NO_MARKUP)
    return JOB_FAILED


class InternalFailureError(Exception):
    """A run failed, and not for its input. ``kept`` is the file that a report of it needs, if it could be written."""

    def __init__(self, problem: Problem, kept: Path | None) -> None:
        super().__init__(problem.detail)
        self.problem = problem
        self.kept = kept


def run_to_report(
    work: ModelJobInputs | ProgramJobInputs,
    settings: Settings,
    out: Path | None,
    cache: Path | None,
    html: Path | None,
    progress: Callable[[Stage], None],
    ahead: QuantisationAhead | None = None,
) -> str:
    """Returns the report, as text; ``html`` has it as a page then. ``ahead`` has begun to quantise the model.

    Raises:
        CyclopsError, MemoryError: the input, or the machine, is at fault.
        InternalFailureError: Cyclops is at fault.
    """
    try:
        check_files(work)
        with _directory(out) as directory, _page_file(html) as page:
            reached, written = StageRecorder(progress), Path(directory)
            with model_in_one_file(work) as whole:
                sourced = replace(whole, sources=sources_of(whole))
                kept = None if cache is None else FolderCache(cache)
                unseen = out is None and html is None
                _execute(sourced, settings, written, out, reached, kept, ahead, report_only=unseen)
            if page is not None:
                _write_page(work, written, page)
            return (written / "report.json").read_text(encoding="utf-8")
    except OSError as error:
        raise CyclopsError(f"{error.filename or 'a file'} cannot be used: {error.strerror or error}") from error


@contextmanager
def _page_file(html: Path | None) -> Iterator[Path | None]:
    """A file that becomes ``html`` where the run succeeds; one that cannot be written is refused before the work.

    Raises:
        CyclopsError: ``html`` cannot be a file.
    """
    if html is None:
        yield None
        return
    try:
        if html.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        partial = html.with_name(f".{html.name}.part")
        partial.touch()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise CyclopsError(f"{html} cannot be the file of the page: {why}", field="html") from error
    try:
        yield partial
        partial.replace(html)
    finally:
        partial.unlink(missing_ok=True)


def _write_page(work: ModelJobInputs | ProgramJobInputs, written: Path, page: Path) -> None:
    from service.web.pages.report_file import folder_html

    source = work.model if isinstance(work, ModelJobInputs) else work.program
    page.write_text(folder_html(written, source.stem or source.name), encoding="utf-8")


def _execute(
    work: ModelJobInputs | ProgramJobInputs,
    settings: Settings,
    written: Path,
    out: Path | None,
    reached: StageRecorder,
    cache: FolderCache | None,
    ahead: QuantisationAhead | None,
    *,
    report_only: bool,
) -> None:
    """Execute the work; of an internal failure, keep the file that a report of it needs.

    Raises:
        CyclopsError, MemoryError, OSError: the input, or the machine, is at fault.
        InternalFailureError: Cyclops is at fault.
    """
    try:
        with lowering_assistant() if isinstance(work, ModelJobInputs) else nullcontext() as assistant:
            helpers = Helpers(assistant, ahead)
            execute(work, written, settings, reached, cache=cache, helpers=helpers, report_only=report_only)
    except (CyclopsError, MemoryError, OSError):
        raise
    except Exception as error:
        problem = failure_problem(error)
        if problem.incident is not None:
            write_incident(problem, error, reached.stage, work, written, settings)
        raise InternalFailureError(problem, _incident_file(problem, written, out)) from error


def _incident_file(problem: Problem, written: Path, out: Path | None) -> Path | None:
    """Returns the incident's file; without a directory for artifacts it goes into the current one."""
    file = written / INCIDENT
    if not file.is_file():
        return None
    if out is not None:
        return file
    kept = Path(f"cyclops-incident-{problem.incident}.zip")
    try:
        shutil.copyfile(file, kept)
    except OSError:
        return None
    return kept


def sources_of(work: ModelJobInputs | ProgramJobInputs) -> Sources:
    """Returns the digests of the files of a run, as the service has them; the label is the accelerator as given.

    That of a program is left to who opens it, as it may be a folder.
    """
    files = {"inputs": work.inputs}
    if isinstance(work, ModelJobInputs):
        files |= {"model": work.model, "calibration": work.calibration}
    digests = {name: file_digest(path) for name, path in files.items() if path is not None}
    if work.accelerator is not None:
        digests |= {"document": document_digest(work.accelerator), "label": work.accelerator}
    return Sources(**digests)


@contextmanager
def model_in_one_file(work: AnyWork) -> Iterator[AnyWork]:
    """The work, its model in one file: what it keeps in others beside it goes into a temporary one.

    Raises:
        InvalidModel, and its subclasses: such a file is not there, or cannot be used.
        OSError: the model cannot be read.
    """
    if isinstance(work, ProgramJobInputs):
        yield work
        return
    data = work.model.read_bytes()
    whole = single_file(data, folder_data(work.model.parent))
    if whole is data:
        del data, whole
        yield work
        return
    with tempfile.TemporaryDirectory(prefix="cyclops-model-") as directory:
        path = Path(directory, "model.onnx")
        path.write_bytes(whole)
        del data, whole
        yield replace(work, model=path)


def _is_unverified(report: dict[str, Any]) -> bool:
    """Whether the result is not what was expected, or could be another one on another day."""
    return report["verified"] is False or bool(report.get("races") or report.get("stale_reads"))


def _error_line(error: CyclopsError) -> str:
    where = f" [{error.field}]" if error.field else ""
    if isinstance(error, SimulationError):
        at = "" if error.instruction is None else f" at instruction {error.instruction}"
        where = f"{where} {error.kind}{at}:"
    return f"{error.title}{where} {error.detail}"


def _directory(out: Path | None) -> AbstractContextManager[str]:
    if out is None:
        return tempfile.TemporaryDirectory(prefix="cyclops-run-")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CyclopsError(f"{out} cannot be the directory of the artifacts: {error.strerror}", field="out") from error
    return nullcontext(str(out))


def _progress_updater(update: Callable[[str], None] | None) -> Callable[[Stage], None]:
    def show(stage: Stage) -> None:
        if update is not None:
            update(f"{stage.name} {stage.step}/{stage.total}")

    return show


def check_files(work: ModelJobInputs | ProgramJobInputs) -> None:
    """A file that is not there, or cannot be read, is bad input like any other."""
    tensors: dict[str, Path | None] = {"options.inputs": work.inputs}
    if isinstance(work, ProgramJobInputs):
        _check_file(work.program, InvalidProgram, "program", directory=True)
    else:
        _check_file(work.model, InvalidModel, "model")
        tensors["options.calibration"] = work.calibration
    for field, path in tensors.items():
        if path is not None:
            _check_file(path, InvalidTensors, field)


def _check_file(path: Path, refuse: type[CyclopsError], field: str, *, directory: bool = False) -> None:
    try:
        if directory and path.is_dir():
            return
        if not path.is_file():
            raise refuse(f"there is no file {path}", field=field)
        with path.open("rb"):
            pass
    except OSError as error:
        raise refuse(f"{str(path)[:256]} cannot be read: {error.strerror}", field=field) from error
