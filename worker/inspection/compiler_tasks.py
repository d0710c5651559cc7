"""Inspection tasks that need the compiler, for a fork server that starts with the first of them."""

from pathlib import Path

import accel.isa.native.kept_code  # noqa: F401 - LLVM is loaded once, not by each task
from accel.errors import InvalidProgram, ProgramTooLarge
from accel.program_files.open_program import open_program
from accel.program_files.program_container import save_program
from accel.report.documents.plan_documents import Plan
from accel.report.provenance import versions
from worker.config.settings import Settings
from worker.execution.job_execution import describe_program, execute_dry_run
from worker.execution.job_inputs import ModelJobInputs
from worker.execution.zip_limits import unpacked_bytes
from worker.inspection.task_arguments import PackedProgram, PlanInputs
from worker.records.uploads import ProgramContents
from worker.sandbox.confined_tasks import confined_task
from worker.sandbox.resource_limits import inspection_limits, plan_limits


def _plan(given: PlanInputs, settings: Settings) -> Plan:
    work = ModelJobInputs(
        given.model, given.accelerator, given.options, calibration=given.calibration, sources=given.sources
    )
    return execute_dry_run(work, settings)


def _program(given: PackedProgram, settings: Settings) -> ProgramContents:
    _check_unpacked(given.path, settings.max_program_bytes)
    program = open_program(given.path)
    save_program(program, given.program)
    return describe_program(program)


def _check_unpacked(path: Path, limit: int) -> None:
    try:
        with path.open("rb") as file:
            found = unpacked_bytes(file)
    except ValueError as error:
        raise InvalidProgram(str(error), field="body") from error
    if found > limit:
        raise ProgramTooLarge(f"the program unpacks to {found} bytes; the limit is {limit}", field="body")


versions()  # reads the sources of the compiler once, not in each task
TASKS = {
    "plan": confined_task(plan_limits, PlanInputs, _plan),
    "program": confined_task(inspection_limits, PackedProgram, _program),
}
