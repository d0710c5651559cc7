"""``GET /v1/about``: versions, limits, and what confines the processes that work on uploads."""

from importlib.metadata import version

import pydantic
from fastapi import APIRouter
from pydantic import Field

from accel.accelerator.text.document_text import MAX_BYTES
from accel.frontend.onnx_model.model_limits import LIMITS
from accel.isa.family_registry import family_names
from service.auth.caller import NO_OWNER, CurrentCaller
from service.auth.route_policy import access
from service.context import RequestContext
from worker.config.settings import Settings
from worker.records.job_record import FORMAT
from worker.sandbox.confinement_status import Confinement


class UploadLimits(pydantic.BaseModel):
    """What may be uploaded at most."""

    model_bytes: int
    tensors_bytes: int = Field(description="of an npz file, packed and unpacked")
    arrays: int = Field(description="in one npz file")
    program_bytes: int = Field(description="of a program, packed and unpacked, all its files together")
    program_files: int
    accelerator_bytes: int
    other_bytes: int = Field(description="of the body of any other request")


class ModelLimits(pydantic.BaseModel):
    """What a model may ask for at most."""

    nodes: int
    rank: int = Field(description="dimensions of a tensor")
    tensor_elements: int = Field(description="elements of one tensor")
    tensors_bytes: int = Field(description="bytes of all its tensors, constants and intermediate results")
    macs: int = Field(description="multiply-accumulates")


class _ProcessLimits(pydantic.BaseModel):
    seconds: int = Field(description="wall time")
    cpu_seconds: int = Field(description="processor time of all threads")
    memory_bytes: int = Field(description="address space")


class JobLimits(_ProcessLimits):
    """What a job may use at most."""

    file_bytes: int = Field(description="the largest file that it may write")


class PlanLimits(_ProcessLimits):
    """What a dry run may use at most."""

    at_once: int = Field(description="at one time; others wait, and are answered `busy` if it takes too long")


class InspectionLimits(_ProcessLimits):
    """What examining an upload may use at most."""

    at_once: int = Field(description="at one time; others wait, and are answered `busy` if it takes too long")


class Limits(pydantic.BaseModel):
    """The limits that apply, in bytes and seconds."""

    uploads: UploadLimits
    model: ModelLimits
    job: JobLimits
    dry_run: PlanLimits
    inspection: InspectionLimits


class About(pydantic.BaseModel):
    """What this service is."""

    version: str
    record_format: int = Field(description="form of jobs' records; workers of an earlier one leave them")
    tvm: str = Field(description="the version of the compiler underneath")
    families: list[str] = Field(description="families of instruction sets that are installed", examples=[["vta"]])
    limits: Limits | None = Field(description="null for who asks without a key where one is needed, as `confinement`")
    confinement: Confinement | None = Field(
        description="what keeps processes that work on uploads from everything else; null if it cannot be found out now"
    )


router = APIRouter(prefix="/v1/about", tags=["health"])


@router.get("", summary="Describe the service")
@access("open")
async def get_about(context: RequestContext, caller: CurrentCaller) -> About:
    """Versions, families of instruction sets, limits, and what of the system keeps hostile uploads in their place.

    `confinement` is what holds on the host of the api: a process tries it, once, and tells. A worker on another host
    may have more of it or less.
    """
    known = caller.owner != NO_OWNER
    return About(
        version=version("cyclops"),
        record_format=FORMAT,
        tvm=version("apache-tvm"),
        families=family_names(),
        limits=_limits(context.settings) if known else None,
        confinement=await context.uploads.inspections.confinement(context.uploads.inspector) if known else None,
    )


def _limits(settings: Settings) -> Limits:
    return Limits(
        uploads=UploadLimits(
            model_bytes=settings.max_model_bytes,
            tensors_bytes=settings.max_tensors_bytes,
            arrays=settings.max_arrays,
            program_bytes=settings.max_program_bytes,
            program_files=settings.max_program_files,
            accelerator_bytes=MAX_BYTES,
            other_bytes=settings.max_body_bytes,
        ),
        model=ModelLimits(
            nodes=settings.max_model_nodes,
            rank=LIMITS.rank,
            tensor_elements=LIMITS.tensor_elements,
            tensors_bytes=LIMITS.total_bytes,
            macs=LIMITS.macs,
        ),
        job=JobLimits(
            seconds=settings.job_seconds,
            cpu_seconds=settings.job_cpu_seconds,
            memory_bytes=settings.job_memory_bytes,
            file_bytes=settings.job_file_bytes,
        ),
        dry_run=PlanLimits(
            seconds=settings.plan_seconds,
            cpu_seconds=settings.plan_cpu_seconds,
            memory_bytes=settings.plan_memory_bytes,
            at_once=settings.plans_at_once,
        ),
        inspection=InspectionLimits(
            seconds=settings.inspection_seconds,
            cpu_seconds=settings.inspection_cpu_seconds,
            memory_bytes=settings.inspection_memory_bytes,
            at_once=settings.inspections_at_once,
        ),
    )
