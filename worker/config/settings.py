"""Settings of the worker and the service, from ``CYCLOPS_*`` environment variables."""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from accel.frontend.onnx_model.model_limits import LIMITS
from worker.config.webhook_settings import WebhookSettings

_MIB = 1 << 20
_PREFIX = "CYCLOPS_"


class Settings(WebhookSettings):
    """Every setting; each is the variable ``CYCLOPS_<NAME>``. Sizes are in bytes, times in seconds."""

    queue: Annotated[str, Field(description="name of the RQ queue")] = "cyclops"

    max_model_bytes: Annotated[
        int, Field(gt=0, description="largest model upload, all its files together, packed and unpacked")
    ] = 640 * _MIB
    max_model_nodes: Annotated[int, Field(gt=0, le=LIMITS.nodes, description="most operators of a model")] = (
        LIMITS.nodes
    )
    max_model_files: Annotated[
        int, Field(gt=0, description="most files of a model upload: the model, and those that it keeps data in")
    ] = 1024
    max_tensors_bytes: Annotated[int, Field(gt=0, description="largest npz upload, packed and unpacked")] = 256 * _MIB
    max_arrays: Annotated[int, Field(gt=0, description="most arrays in one npz")] = 256
    max_program_bytes: Annotated[int, Field(gt=0, description="largest program upload, all its files together")] = (
        256 * _MIB
    )
    max_program_files: Annotated[int, Field(gt=0, description="most files of a program upload")] = 1024
    max_cache_entry_bytes: Annotated[
        int, Field(ge=0, description="largest compiled function or simulation kernel that is kept; 0: none")
    ] = 64 * _MIB
    max_body_bytes: Annotated[int, Field(gt=0, description="largest body of any other request")] = 64 << 10

    job_seconds: Annotated[int, Field(gt=0, description="wall time of a job")] = 900
    job_cpu_seconds: Annotated[int, Field(gt=0, description="processor time of a job's process, all threads")] = 1800
    job_memory_bytes: Annotated[int, Field(gt=0, description="address space of a job's process")] = 16 << 30
    job_assistant: Annotated[
        bool,
        Field(
            description="whether a second process, with the same limits, lowers beside a job's, if there are two "
            "processors: answers come sooner, and a machine whose processors are all busy does a little less"
        ),
    ] = True
    job_file_bytes: Annotated[int, Field(gt=0, description="largest file a job may write")] = 2 << 30
    job_tasks: Annotated[int, Field(gt=0, description="threads of a job, and processes where it may start any")] = 512
    job_output_bytes: Annotated[int, Field(gt=0, description="all files that a job may leave, together")] = 4 << 30
    job_scratch_bytes: Annotated[
        int, Field(gt=0, description="all that a job may have on the disk while it runs, its inputs among it")
    ] = 16 << 30
    job_log_bytes: Annotated[int, Field(gt=0, description="most that is kept of what a job logs")] = _MIB
    job_open_files: Annotated[int, Field(gt=0, description="files a job may hold open")] = 1024

    running_of_owner: Annotated[
        int,
        Field(
            ge=0,
            description="jobs of one owner that run at one time while jobs of others wait; 0: half of the workers, "
            "rounded up",
        ),
    ] = 0

    plan_seconds: Annotated[int, Field(gt=0, description="wall time of a dry run")] = 30
    plan_cpu_seconds: Annotated[int, Field(gt=0, description="processor time of a dry run, all threads")] = 60
    plan_memory_bytes: Annotated[int, Field(gt=0, description="address space of a dry run")] = 8 << 30
    plans_at_once: Annotated[int, Field(gt=0, description="most dry runs at one time in one process of the api")] = 2

    plan_wait_seconds: Annotated[
        float, Field(gt=0, description="how long a dry run waits for its turn; turns go round by owner")
    ] = 60

    inspection_seconds: Annotated[int, Field(gt=0, description="wall time of examining an upload")] = 60
    inspection_cpu_seconds: Annotated[int, Field(gt=0, description="processor time of the same, all threads")] = 60
    inspection_memory_bytes: Annotated[int, Field(gt=0, description="address space of the same")] = 4 << 30
    inspections_at_once: Annotated[
        int, Field(gt=0, description="most uploads that are examined at one time in one process of the api")
    ] = 4

    connection_head_seconds: Annotated[
        float,
        Field(
            gt=0,
            description="how long the head of a request may take, from its first byte, and how long a new connection "
            "may be silent",
        ),
    ] = 15
    connection_idle_seconds: Annotated[
        int, Field(gt=0, description="how long a connection may be silent after an answer")
    ] = 5
    connection_body_seconds: Annotated[
        float, Field(gt=0, description="how long a request whose body is not whole may be silent")
    ] = 30
    connection_body_rate: Annotated[
        int,
        Field(gt=0, description="least bytes a second of a request's body on average, once that time has passed"),
    ] = 240
    connection_answer_seconds: Annotated[
        float, Field(gt=0, description="how long a client may take nothing of an answer that is there for it")
    ] = 60

    inspection_wait_seconds: Annotated[
        float,
        Field(gt=0, description="how long an upload waits to be examined, and then to be kept; turns go so, too"),
    ] = 60

    idempotency_seconds: Annotated[
        int, Field(gt=0, description="how long a submission with the same `Idempotency-Key` has the same job")
    ] = 24 * 3600

    keep_jobs_seconds: Annotated[
        int | None,
        Field(ge=0, description="how long a job is kept after its end, unless it is pinned; without it for ever"),
    ] = None
    keep_uploads_seconds: Annotated[
        int | None,
        Field(
            ge=0,
            description="how long an upload that no job needs is kept, from when it was sent last; without it for ever",
        ),
    ] = None
    keep_cache_seconds: Annotated[
        int | None,
        Field(
            ge=0,
            description="how long what the compiler keeps between jobs is kept, from when it was made; without it "
            "for ever",
        ),
    ] = 30 * 24 * 3600
    collect_seconds: Annotated[
        int, Field(gt=0, description="how often an api begins to look for what need not be kept")
    ] = 3600
    streams_at_once: Annotated[
        int,
        Field(
            gt=0,
            description="most streams of events, and as many requests that wait for a job's end, at one time in one "
            "process of the api",
        ),
    ] = 500
    streams_share: Annotated[
        float,
        Field(gt=0, le=1, description="the part of either that one owner may have where keys are needed; one at least"),
    ] = 0.25
    stream_heartbeat_seconds: Annotated[
        float, Field(gt=0, description="how often a stream of events says something, be it a comment")
    ] = 15
    wait_seconds: Annotated[
        int, Field(ge=0, description="longest that a request with `Prefer: wait` waits for a job's end")
    ] = 60

    reconcile_seconds: Annotated[
        int, Field(gt=0, le=60, description="how often the api and the idle workers, together, look for lost jobs")
    ] = 2
    warm_up: Annotated[
        str,
        Field(
            pattern=r"^(all|none|[a-z0-9-]+( *, *[a-z0-9-]+)*)$",
            description="presets whose simulators a worker loads as it starts, and compiles while it is idle, once an "
            "installation: `all`, `none`, or names as `vta, gemmini`; with `none`, the first job that needs one waits",
        ),
    ] = "all"
    progress_seconds: Annotated[float, Field(ge=0, description="least time between two progress records")] = 0.2
    log_level: Annotated[
        str,
        Field(
            pattern="^(DEBUG|INFO|WARNING|ERROR)$",
            description="which messages are logged: `DEBUG`, `INFO`, `WARNING` or `ERROR`, and worse",
        ),
    ] = "INFO"
    log_format: Annotated[
        Literal["text", "json"],
        Field(description="what a message is logged as: `text`, or `json`, one object a line; the image sets `json`"),
    ] = "text"

    def limits(self) -> dict[str, Any]:
        """Returns the settings of a process that works on an upload: limits and directories, no address or secret."""
        known = ("data", "job_", "plan_", "inspection_", "max_")
        return self.model_dump(mode="json", include={name for name in Settings.model_fields if name.startswith(known)})

    @classmethod
    def with_limits(cls, limits: Mapping[str, Any]) -> "Settings":
        """Returns settings with these :meth:`limits`, which another process has checked; no environment is read."""
        return cls.model_construct(**{**limits, "data": Path(limits["data"])})

    @property
    def scratch_dir(self) -> Path:
        """Where uploads and running jobs keep their temporary files."""
        return self.data / "scratch"


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Returns a sentence for each unknown ``CYCLOPS_*`` variable, without its value, which may be a secret."""
    known = [name.upper() for name in Settings.model_fields]
    sentences = []
    for variable in sorted(environment):
        name = variable.upper().removeprefix(_PREFIX)
        if name != variable.upper() and name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {_PREFIX}{near[0]}?" if near else "; docs/settings.md lists them"
            sentences.append(f"{variable} is no setting and does nothing{hint}")
    return sentences
