"""What the routes work on, made once for each app."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from service.problems import ProblemError
from worker.accelerators import Accelerators
from worker.jobs import Job, Jobs
from worker.planner import Planner
from worker.queue import JobQueue
from worker.settings import Settings
from worker.store import Store
from worker.traces import Traces
from worker.uploads import Model, ProgramInfo, Tensors, Uploads


@dataclass(frozen=True)
class Context:
    """The settings, the store and its views, and the queue."""

    settings: Settings
    store: Store
    models: Uploads[Model]
    programs: Uploads[ProgramInfo]
    tensors: Uploads[Tensors]
    accelerators: Accelerators
    jobs: Jobs
    queue: JobQueue
    traces: Traces
    planner: Planner

    def job(self, job_id: str) -> Job:
        """The job's record.

        Raises:
            ProblemError: there is no such job.
        """
        try:
            return self.jobs.get(job_id)
        except KeyError:
            raise ProblemError("not-found", f"there is no job {job_id!r}", field="id") from None


def _context(request: Request) -> Context:
    context = request.app.state.context
    assert isinstance(context, Context)
    return context


Here = Annotated[Context, Depends(_context)]
