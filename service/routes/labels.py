"""Labels of jobs and uploads, notes and tags of jobs: PATCH."""

from typing import Annotated, Any

from fastapi import APIRouter, Body

from accel.catalog.load_accelerator import preset_names
from service.auth.route_policy import access
from service.context import RequestJobs, RequestUploads
from service.http.declarations import declare_problems
from service.http.json_bodies import JsonRoute
from service.http.problems import ProblemError
from service.http.resources import (
    AcceleratorSummary,
    AnnotationChange,
    JobResource,
    LabelChange,
    ModelResource,
    ProgramResource,
    TensorsResource,
    job_resource,
)
from service.jobs.job_id import JobId
from service.uploads.stored import upload_resource
from worker.records.uploads import Document, StoredUpload, Uploads

router = APIRouter(prefix="/v1", route_class=JsonRoute)
_Change = Annotated[LabelChange, Body()]


def _labelled(uploads: Uploads[Document], digest: str, change: LabelChange) -> StoredUpload[Document]:
    try:
        document = uploads.get(digest)
    except KeyError:
        raise ProblemError("not-found", f"there is no upload {digest!r}", field="id") from None
    if change.given:
        uploads.set_label(digest, change.label)
    return uploads.as_stored(document)


def _route(kind: str, *more: str) -> dict[str, Any]:
    known = declare_problems("not-found", "invalid-request", *more)
    return {"path": f"/{kind}/{{id}}", "summary": "Label", "tags": [kind], "responses": known}


@router.patch(**_route("models"))
@access("key")
def label_model(id: str, change: _Change, uploads: RequestUploads) -> ModelResource:  # noqa: A002 - the API's name
    """Give a model of yours, or the example, a label of your own, or take it away."""
    return upload_resource(_labelled(uploads.models, id, change), ModelResource)


@router.patch(**_route("programs"))
@access("key")
def label_program(id: str, change: _Change, uploads: RequestUploads) -> ProgramResource:  # noqa: A002 - the API's name
    """Give a program of yours, or the example, a label of your own, or take it away."""
    return upload_resource(_labelled(uploads.programs, id, change), ProgramResource)


@router.patch(**_route("tensors"))
@access("key")
def label_tensors(id: str, change: _Change, uploads: RequestUploads) -> TensorsResource:  # noqa: A002 - the API's name
    """Give tensors of yours, or the example, a label of your own, or take it away."""
    return upload_resource(_labelled(uploads.tensors, id, change), TensorsResource)


@router.patch(**_route("accelerators", "conflict"))
@access("key")
def label_accelerator(id: str, change: _Change, uploads: RequestUploads) -> AcceleratorSummary:  # noqa: A002 - the API's name
    """Give an accelerator of yours a label, or take it away. The presets have their names."""
    if id in preset_names():
        raise ProblemError("conflict", f"{id} comes with Cyclops, and keeps its name", field="id")
    uploads.require_visible("accelerators", id)
    summary = uploads.accelerators.summary(id)
    if change.given:
        uploads.accelerators.set_label(id, change.label)
    [label] = uploads.accelerators.labels([id])
    return AcceleratorSummary(id=id, label=label, **summary._asdict())


@router.patch(**_route("jobs") | {"summary": "Label, note and tags"})
@access("key")
def annotate_job(id: JobId, change: Annotated[AnnotationChange, Body()], jobs: RequestJobs) -> JobResource:  # noqa: A002 - the API's name
    """Give the job a label, a note and tags, or take them away; whatever state it is in. What is not given stays."""
    job = jobs.get(id)
    if change.model_fields_set:
        jobs.records.annotate(job.id, change.annotations)
    return job_resource(jobs.get(id))
