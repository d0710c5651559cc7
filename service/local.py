"""``cyclops run``: the worker's task in this process, with no service."""

import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from rich.console import Console

from accel.errors import CompileError, CyclopsError, InvalidModel, InvalidTensors, SimulationError, VerificationError
from service.table import print_report
from worker.jobs import Stage
from worker.problem import problem_of
from worker.settings import Settings
from worker.task import Work, execute

# exit codes
JOB_FAILED = 1
INPUT_REFUSED = 2


def run_local(work: Work, out: Path | None, *, as_json: bool) -> int:
    """Run the job and print its report; gives the exit code."""
    errors = Console(stderr=True)
    status = errors.status("starting") if errors.is_terminal else None
    try:
        _check_files(work)
        with _directory(out) as directory, status or nullcontext():
            execute(work, Path(directory), Settings(), _shower(status.update if status else None))
            text = Path(directory, "report.json").read_text()
    except CyclopsError as error:
        if as_json:
            sys.stdout.write(problem_of(error).model_dump_json(indent=2, exclude_none=True) + "\n")
        else:
            where = f" [{error.field}]" if error.field else ""
            errors.print(f"cyclops: {error.title}{where} {error.detail}", markup=False, highlight=False, soft_wrap=True)
        return JOB_FAILED if isinstance(error, CompileError | SimulationError | VerificationError) else INPUT_REFUSED
    if as_json:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
    else:
        print_report(json.loads(text), Console())
    return 0


def _directory(out: Path | None) -> AbstractContextManager[str]:
    if out is None:
        return tempfile.TemporaryDirectory(prefix="cyclops-run-")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CyclopsError(f"{out} cannot be the directory of the artifacts: {error.strerror}", field="out") from error
    return nullcontext(str(out))


def _shower(update: Callable[[str], None] | None) -> Callable[[Stage], None]:
    def show(stage: Stage) -> None:
        if update is not None:
            update(f"{stage.name} {stage.step}/{stage.total}")

    return show


def _check_files(work: Work) -> None:
    """A file that is not there is bad input like any other."""
    if not work.model.is_file():
        raise InvalidModel(f"there is no file {work.model}", field="model")
    for field, path in (("options.inputs", work.inputs), ("options.calibration", work.calibration)):
        if path is not None and not path.is_file():
            raise InvalidTensors(f"there is no file {path}", field=field)
