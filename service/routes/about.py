"""What this service is: versions, limits, and what confines the processes that work on uploads."""

from importlib.metadata import version

from fastapi import APIRouter

from accel.accelerator.read_text import MAX_BYTES
from accel.frontend.model.limits import LIMITS
from accel.isa.registry import family_names
from service.about import About, InspectionLimits, JobLimits, Limits, ModelLimits, PlanLimits, UploadLimits
from service.caller import Asker
from service.context import Here
from service.identity import NOBODY
from worker.config.settings import Settings
from worker.records.job_record import FORMAT

router = APIRouter(prefix="/v1/about", tags=["health"])


@router.get("", summary="Describe the service")
async def get_about(here: Here, caller: Asker) -> About:
    """Versions, families of instruction sets, limits, and what of the system keeps hostile uploads in their place.

    `confinement` is what holds on the host of the api: a process tries it, once, and tells. A worker on another host
    may have more of it or less.
    """
    known = caller.owner != NOBODY
    return About(
        version=version("cyclops"),
        record_format=FORMAT,
        tvm=version("apache-tvm"),
        families=family_names(),
        limits=_limits(here.settings) if known else None,
        confinement=await here.inspections.confinement(here.inspector) if known else None,
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
