"""A dry run for a request: the uploads into files, and the planner's answer or problem."""

from fastapi import Response

from service.context import Context
from service.problems import ProblemError
from worker.execution.job_inputs import ModelJobInputs, fetch_inputs
from worker.process.scratch import scratch_directory
from worker.records.job_request import JobRequest
from worker.sandbox.confined_tasks import LimitError


def plan_response(request: JobRequest, here: Context) -> Response:
    """The plan of a request that was checked.

    Raises:
        ProblemError: it is for a program, or it cannot be made within the limits.
        RefusedError: an input cannot be used.
    """
    if request.program is not None:
        raise ProblemError("invalid-request", "a program is compiled already: nothing is planned", field="program")
    with scratch_directory(here.settings.scratch_dir, "plan") as directory:
        work = fetch_inputs(request, directory, here.store, here.accelerators.source(request.accelerator))
        assert isinstance(work, ModelJobInputs)
        try:
            return Response(here.planner.plan(work, directory), media_type="application/json")
        except LimitError as error:
            raise ProblemError("plan-failed", f"{error}; submit a job") from error
