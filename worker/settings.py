"""Settings of the worker and the service, from ``CYCLOPS_*`` environment variables."""

from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

_MIB = 1 << 20


class Settings(BaseSettings):
    """Every setting; each is the variable ``CYCLOPS_<NAME>``. Sizes are in bytes, times in seconds."""

    model_config = SettingsConfigDict(env_prefix="CYCLOPS_", frozen=True)

    data: Annotated[Path, Field(description="directory of the store and of the Redis that we start")] = Path("data")
    redis_url: Annotated[
        str | None, Field(pattern="^(redis|rediss|unix)://", description="Redis to use; without it one is started")
    ] = None
    queue: Annotated[str, Field(description="name of the RQ queue")] = "cyclops"

    max_model_bytes: Annotated[int, Field(gt=0, description="largest model upload")] = 640 * _MIB
    max_tensors_bytes: Annotated[int, Field(gt=0, description="largest npz upload, packed and unpacked")] = 256 * _MIB
    max_arrays: Annotated[int, Field(gt=0, description="most arrays in one npz")] = 256
    max_program_bytes: Annotated[int, Field(gt=0, description="largest program upload, all its files together")] = (
        256 * _MIB
    )
    max_program_files: Annotated[int, Field(gt=0, description="most files of a program upload")] = 1024
    max_body_bytes: Annotated[int, Field(gt=0, description="largest body of any other request")] = 64 << 10

    job_seconds: Annotated[int, Field(gt=0, description="wall time of a job")] = 900
    job_cpu_seconds: Annotated[int, Field(gt=0, description="processor time of a job, all threads")] = 1800
    job_memory_bytes: Annotated[int, Field(gt=0, description="address space of a job")] = 16 << 30
    job_file_bytes: Annotated[int, Field(gt=0, description="largest file a job may write")] = 2 << 30
    job_open_files: Annotated[int, Field(gt=0, description="files a job may hold open")] = 1024

    plan_seconds: Annotated[int, Field(gt=0, description="wall time of a dry run")] = 30
    plan_cpu_seconds: Annotated[int, Field(gt=0, description="processor time of a dry run, all threads")] = 60
    plan_memory_bytes: Annotated[int, Field(gt=0, description="address space of a dry run")] = 8 << 30
    plans_at_once: Annotated[int, Field(gt=0, description="most dry runs at one time in one process of the api")] = 2

    reconcile_seconds: Annotated[int, Field(gt=0, description="how often an idle worker looks for lost jobs")] = 10
    progress_seconds: Annotated[float, Field(ge=0, description="least time between two progress records")] = 0.2
    log_level: Annotated[str, Field(pattern="^(DEBUG|INFO|WARNING|ERROR)$")] = "INFO"

    @property
    def store_dir(self) -> Path:
        """Where the objects of the store lie."""
        return self.data / "store"

    @property
    def scratch_dir(self) -> Path:
        """Where uploads and running jobs keep their temporary files."""
        return self.data / "scratch"

    @property
    def redis_dir(self) -> Path:
        """Where the Redis that we start keeps its append-only file."""
        return self.data / "redis"
