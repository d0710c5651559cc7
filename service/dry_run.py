"""A dry run for a request: the uploads into files, and the planner's answer or problem."""

import tempfile
from pathlib import Path

from fastapi import Response

from service.context import Context
from service.problems import ProblemError, respond
from worker.fetch import fetch
from worker.jobs import JobRequest
from worker.planner import PlanLimitError, PlannerBusyError, PlanRefusedError
from worker.work import Work


def plan_response(request: JobRequest, here: Context) -> Response:
    """The plan of a request that was checked.

    Raises:
        ProblemError: it is for a program; too many are being made; or it cannot be made within the limits.
    """
    if request.program is not None:
        raise ProblemError("invalid-request", "a program is compiled already: nothing is planned", field="program")
    with tempfile.TemporaryDirectory(dir=here.settings.scratch_dir, prefix="plan-") as directory:
        work = fetch(request, Path(directory), here.store)
        assert isinstance(work, Work)
        try:
            return Response(here.planner.plan(work), media_type="application/json")
        except PlanRefusedError as error:
            return respond(error.problem.model_copy(update={"status": 422}))
        except PlanLimitError as error:
            raise ProblemError("plan-failed", str(error)) from error
        except PlannerBusyError as error:
            detail = f"{here.settings.plans_at_once} dry runs are under way; try again"
            raise ProblemError("busy", detail, headers={"Retry-After": "1"}) from error
