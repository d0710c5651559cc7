"""``cyclops simulate --jsonl``: many programs in one process, a line of JSON each."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from accel.errors import CyclopsError
from service.cli.local.local_run import JOB_FAILED, check_files, exit_status_of
from worker.config.settings import Settings
from worker.execution.job_execution import program_summariser
from worker.execution.job_failure import failure_problem
from worker.execution.job_inputs import ProgramJobInputs
from worker.records.job_request import JobOptions
from worker.records.problem_details import problem_of


def simulate_many(
    programs: Sequence[Path], accelerator: str | None, options: JobOptions, inputs: Path | None, settings: Settings
) -> int:
    """Print a line for each program as it is done; gives the exit code, the largest that one alone would have.

    A line is ``program``, its path as given, and the fields of a ``SimulationSummary``, or ``problem``.
    """
    works = [ProgramJobInputs(program, accelerator, options, inputs) for program in programs]
    status, summarise = 0, program_summariser(settings)
    for work in works:
        line: dict[str, Any] = {"program": str(work.program)}
        try:
            check_files(work)
            summary = summarise(work)
        except CyclopsError as error:
            line["problem"] = problem_of(error).model_dump(mode="json")
            status = max(status, exit_status_of(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the other programs are simulated
            line["problem"] = failure_problem(error).model_dump(mode="json")
            status = max(status, JOB_FAILED)
        else:
            line |= summary.model_dump(mode="json")
            unsure = summary.verified is False or bool(summary.race_count or summary.stale_read_count)
            status = max(status, JOB_FAILED if unsure else 0)
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    return status
