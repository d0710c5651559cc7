"""What takes the compiler to look at: the tasks of a fork server that the first of them starts."""

from pathlib import Path

import accel.isa.dispatcher  # noqa: F401 - numba is loaded once, not by each task
from accel.errors import InvalidProgram, ProgramTooLarge
from accel.open_program import open_program
from accel.plan_documents import Plan
from accel.program_file import save_program
from accel.provenance import versions
from worker.confined import confined
from worker.limits import inspection_limits, plan_limits
from worker.plan import plan_work
from worker.programs import describe
from worker.requests import Packed, PlanInputs
from worker.settings import Settings
from worker.uploads import ProgramContents
from worker.work import Work
from worker.zips import unpacked_bytes


def _plan(given: PlanInputs, settings: Settings) -> Plan:
    work = Work(given.model, given.accelerator, given.options, calibration=given.calibration, sources=given.sources)
    return plan_work(work, settings)


def _program(given: Packed, settings: Settings) -> ProgramContents:
    _check_unpacked(given.path, settings.max_program_bytes)
    program = open_program(given.path)
    save_program(program, given.program)
    return describe(program)


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
    "plan": confined(plan_limits, PlanInputs, _plan),
    "program": confined(inspection_limits, Packed, _program),
}
