"""``cyclops plan``: the dry run in this process, with no service."""

import sys
from contextlib import nullcontext
from dataclasses import replace

from rich.console import Console

from accel.errors import CyclopsError
from service.local import check_files, sources_of, tell, tell_problem, whole_model
from service.plan_table import print_plan
from worker.config.settings import Settings
from worker.execution.job_execution import execute_dry_run
from worker.execution.job_failure import failure_problem
from worker.execution.job_inputs import ModelJobInputs


def plan_local(work: ModelJobInputs, settings: Settings, *, as_json: bool) -> int:
    """Make the plan and print it; gives the exit code."""
    errors = Console(stderr=True)
    status = errors.status("planning") if errors.is_terminal else None
    try:
        with status or nullcontext():
            check_files(work)
            with whole_model(work) as whole:
                plan = execute_dry_run(replace(whole, sources=sources_of(whole)), settings)
    except (CyclopsError, MemoryError) as error:
        return tell(error, errors, as_json=as_json)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told, and is not the input's fault
        return tell_problem(failure_problem(error), errors, as_json=as_json)
    if as_json:
        sys.stdout.write(plan.model_dump_json(indent=2) + "\n")
    else:
        print_plan(plan, Console())
    return 0
