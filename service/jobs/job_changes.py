"""A job's model compiled anew for changed documents of its accelerator: the changes, the jobs that did it, their gain.

Nothing is recorded beside ordinary jobs. A change has a document, the document an id, and a job of the same model and
options on that document is what the change did: it is found as any job is, whoever submitted it.
"""

from collections.abc import Sequence
from functools import partial

import pydantic
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from accel.accelerator.text.document_text import MAX_BYTES
from accel.catalog.load_accelerator import checked_accelerator
from accel.report.compare.changed_documents import ChangedDocument, DescribedChange
from service.auth.rate_limits import RateCounter
from service.context import Context
from service.http.problems import ProblemError
from service.http.resources import JobSubmission
from service.jobs.submission import submit
from worker.records.job_record import Job, State
from worker.records.job_request import JobRequest
from worker.records.listing.job_index import JobSelection
from worker.records.listing.job_listing import page_of_jobs
from worker.sandbox.confined_tasks import RefusedError

_DOCUMENT = "accelerator.json"
_NEWEST = 20  # jobs of a model on a document that are looked at for one with the same options
_LONGEST_LABEL = 200
_LITTLE = 0.01  # share of the cycles below which a change does not help


class ChangeJob(pydantic.BaseModel):
    """The job that ran a change."""

    id: str
    state: State
    verified: bool | None = Field(description="as in its result; null before that")


class JobChange(DescribedChange):
    """A change of the accelerator's document that asks for another program, and what came of it."""

    job: ChangeJob | None = Field(
        description="of yours, with the same model and options on that document: the last that succeeded, else the "
        "newest; null: there is none"
    )
    cycles: int | None = Field(description="of that job; null before it has succeeded")
    gain: float | None = Field(description="share of this job's cycles that it saves; below 0 where it takes more")


class JobChanges(pydantic.BaseModel):
    """All changes that a job's model can be compiled anew with."""

    cycles: int | None = Field(description="of this job")
    sentence: str | None = Field(
        description="the change that has saved most, in words; null where none has run and is right",
        examples=["bound by the size of spad: compiled for spad of 512 KiB it takes 12.0% fewer cycles"],
    )
    changes: list[JobChange] = Field(description="those that have run first, the one that saves most first of all")
    left_out: str | None = Field(None, description="why there are none")

    @property
    def best(self) -> JobChange | None:
        """The change that has run, is right, and saves most, if it saves anything that is worth a word."""
        ran = [each for each in self.changes if each.gain is not None and each.job and each.job.verified is not False]
        best = max(ran, key=lambda each: each.gain or 0.0, default=None)
        return best if best is not None and (best.gain or 0.0) >= _LITTLE else None


async def job_changes(job: Job, context: Context, owner: str) -> JobChanges:
    """Returns the changes of a job that has ended, with what of ``owner``'s jobs came of them.

    Raises:
        ProblemError: they cannot be found out within the limits, or it was not their turn in time.
    """
    known, left_out = await _known(job, context, owner)
    return await run_in_threadpool(_described, job, known, left_out, context, owner)


async def compile_changes(
    job: Job, names: Sequence[str] | None, context: Context, owner: str, counter: RateCounter
) -> JobChanges:
    """Submits a job for each of these changes that has none, or whose job did not succeed; None: for all that can be.

    Each counts as a submission of its own.

    Raises:
        ProblemError: there is no such change, or it is refused; or a job cannot be accepted: those before it were.
        BeingDeletedError: what a job needs is being deleted at this moment.
    """
    known, left_out = await _known(job, context, owner)
    if left_out is not None and names is not None:
        raise ProblemError("invalid-request", left_out, field="changes")
    for change in _chosen(known, names):
        request = _request(job, change)
        found = await run_in_threadpool(_job_of, request, context, owner)
        if found is None or found.state in {"failed", "canceled"}:
            await run_in_threadpool(counter.take, "submissions")
            await context.uploads.storing.run(partial(_store, change, context), owner)
            submission = JobSubmission(**request.model_dump(), label=_label(job, change))
            await run_in_threadpool(submit, submission, owner, None, context)
    return await run_in_threadpool(_described, job, known, left_out, context, owner)


async def _known(job: Job, context: Context, owner: str) -> tuple[list[ChangedDocument], str | None]:
    """The changes of the document that the job ran on, or why there are none."""
    if (reason := _unchangeable(job)) is not None:
        return [], reason
    artifacts = context.jobs.artifacts(job)
    try:
        size = artifacts.get(_DOCUMENT).bytes
    except KeyError:
        return [], "an earlier version made the job, and did not keep the document that it ran on"
    if size > MAX_BYTES:
        return [], "the document that the job ran on is larger than documents may be"
    document = await run_in_threadpool(artifacts.read, _DOCUMENT, 0, size)
    try:
        return await context.uploads.inspections.run(lambda: context.uploads.inspector.changes(document), owner), None
    except RefusedError as error:
        return [], f"this version does not take the document that the job ran on: {error.problem.detail}"


def _unchangeable(job: Job) -> str | None:
    """Returns why nothing is compiled anew for the job, as far as its record says so."""
    if job.program is not None:
        return "a program is compiled already: another accelerator asks for another program, and none is made of it"
    if job.state != "succeeded":
        return "the job has not succeeded: there is nothing that a change could be compared with"
    if job.result is not None and job.result.cycles == 0:
        return "nothing ran on the accelerator: there are no cycles that a change could save"
    return None


def _chosen(known: Sequence[ChangedDocument], names: Sequence[str] | None) -> list[ChangedDocument]:
    if names is None:
        return [each for each in known if each.refused is None]
    by_name = {each.name: each for each in known}
    for place, name in enumerate(names):
        if name not in by_name:
            detail = f"there is no change {name!r}; there are {', '.join(by_name)}"
            raise ProblemError("invalid-request", detail, field=f"changes.{place}")
        if (reason := by_name[name].refused) is not None:
            raise ProblemError("invalid-request", f"{name} cannot be: {reason}", field=f"changes.{place}")
    return [by_name[name] for name in dict.fromkeys(names)]


def _request(job: Job, change: ChangedDocument) -> JobRequest:
    return JobRequest(model=job.model, accelerator=change.accelerator, options=job.options)


def _label(job: Job, change: ChangedDocument) -> str:
    return f"{change.resource}: {change.change}, after {job.label or job.id[:12]}"[:_LONGEST_LABEL]


def _store(change: ChangedDocument, context: Context) -> None:
    """Keeps the document as an upload of the caller's, called by its change unless it has a label."""
    assert change.document is not None  # it is not refused
    accelerators, made = context.uploads.accelerators, checked_accelerator(change.document.encode())
    digest = accelerators.add(made)
    if accelerators.labels([digest]) == [None]:
        label = made.title if change.change in made.title else f"{made.title}, {change.resource}: {change.change}"
        accelerators.set_label(digest, label[:_LONGEST_LABEL])


def _job_of(request: JobRequest, context: Context, owner: str) -> Job | None:
    """The owner's job that did what ``request`` asks: by the result cache, which needs no Redis; else the newest."""
    if not context.uploads.accelerators.exists(str(request.accelerator)):
        return None  # as of most changes, and then nothing else is looked at
    if (answer := context.submissions.results.find(request, owner)) is not None:
        return answer
    selection = JobSelection(owner, (), request.model, request.accelerator)
    page, _ = page_of_jobs(context.jobs.records, context.jobs.queue.index, selection, None, _NEWEST)
    same = [job for job in page if job.options == request.options]
    return next((job for job in same if job.state == "succeeded"), next(iter(same), None))


def _described(
    job: Job, known: Sequence[ChangedDocument], left_out: str | None, context: Context, owner: str
) -> JobChanges:
    cycles = job.result.cycles if job.result else None
    changes = [_change(job, cycles, each, context, owner) for each in known]
    ordered = sorted(changes, key=lambda each: (each.gain is None, -(each.gain or 0.0)))
    found = JobChanges(cycles=cycles, sentence=None, changes=ordered, left_out=left_out)
    if (best := found.best) is None:
        return found
    sentence = f"bound by {best.resource}: compiled for {best.change} it takes {best.gain:.1%} fewer cycles"
    return found.model_copy(update={"sentence": sentence})


def _change(job: Job, before: int | None, known: ChangedDocument, context: Context, owner: str) -> JobChange:
    found = None if known.refused else _job_of(_request(job, known), context, owner)
    result = found.result if found is not None else None
    after = result.cycles if result is not None else None
    return JobChange(
        **known.model_dump(exclude={"document"}),
        job=found and ChangeJob(id=found.id, state=found.state, verified=result.verified if result else None),
        cycles=after,
        gain=1 - after / before if before and after is not None else None,
    )
