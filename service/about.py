"""The document of ``GET /v1/about``."""

import pydantic
from pydantic import Field

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
