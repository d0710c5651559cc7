"""``cyclops demo``: the real service, ResNet-8 uploaded to it over HTTP, its job followed to the end."""

import os
import shutil
import sys
import tempfile
import time
import webbrowser
from pathlib import Path
from typing import Any

import httpx2
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from examples.resnet8 import resnet8
from service.backend import backend, listen
from service.cli.report_tables import print_report
from service.server import serving_in_thread, wait_until_stopped
from service.web.pages.report_file import folder_html
from worker.config.settings import Settings

_POLL_SECONDS = 0.1
_REQUEST_SECONDS = 30.0
_JOB_SECONDS = 300.0
_OURS = {"log_level": "WARNING", "auth": "off"}


class DemoFailedError(Exception):
    """The service answered with an error, or the job did not succeed."""


def demo(settings: Settings, out: Path, console: Console, *, keep_open: bool = False) -> None:
    """Run ResNet-8 on VTA through a service of its own, with no keys, and leave the artifacts in ``out``.

    Args:
        settings: those of the environment.
        out: the directory, which is made if need be.
        console: where to tell of it.
        keep_open: go on serving the pages, and show the job's in a browser where there is a screen, until SIGINT or
            SIGTERM.

    Raises:
        DemoFailedError: the service or the job failed.
        RedisUnavailableError: there is no Redis to be had.
        OSError: the artifacts cannot be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="cyclops-demo-") as data,
        backend(settings.model_copy(update=_OURS | {"data": Path(data)}), workers=1) as chosen,
        listen("127.0.0.1", 0) as bound,
        serving_in_thread(chosen, bound) as url,
        httpx2.Client(base_url=url, timeout=_REQUEST_SECONDS) as client,
    ):
        console.print(f"service on {url}")
        job = _follow(client, _submit(client, console), console)
        if job["state"] != "succeeded":
            raise DemoFailedError(f"the job has {job['state']}: {job['error']}")
        _download(client, job["links"]["artifacts"], out)
        print_report(_checked(client.get(job["links"]["report"])), console)
        (out / "report.html").write_text(folder_html(out, "ResNet-8 on VTA"), encoding="utf-8")
        console.print(f"every artifact is in {out}/, the report is {out}/report.json; to look at: {out}/report.html")
        if keep_open:
            page = f"{url}/jobs/{job['id']}"
            console.print(f"the job's page, until Ctrl-C stops the service: {page}", soft_wrap=True)
            if sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
                webbrowser.open(page)
            wait_until_stopped()


def _submit(client: httpx2.Client, console: Console) -> str:
    """Upload the model and post the job; gives the job's location."""
    model = _checked(client.post("/v1/models", content=resnet8().SerializeToString()))
    console.print(
        f"POST /v1/models: ResNet-8, {model['nodes']} nodes, {model['macs']:,} MACs, id {model['id'][:12]}..."
    )
    response = client.post("/v1/jobs", json={"model": model["id"], "accelerator": "vta"})
    _checked(response)
    location = response.headers["Location"]
    for labelled in (f"/v1/models/{model['id']}", location):  # what its pages call them
        _checked(client.patch(labelled, json={"label": "ResNet-8"}))
    console.print(f"POST /v1/jobs: {location}")
    return str(location)


def _follow(client: httpx2.Client, location: str, console: Console) -> dict[str, Any]:
    """Poll the job until it ends, and show its stages."""
    deadline = time.monotonic() + _JOB_SECONDS
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("queued", total=None)
        seen = "queued"
        while True:
            job = _checked(client.get(location))
            stage = job["stage"] or {"name": job["state"], "step": 0, "total": None}
            if stage["name"] != seen and not console.is_terminal:
                console.print(f"  {stage['name']}")
            seen = stage["name"]
            progress.update(task, description=seen, completed=stage["step"], total=stage["total"])
            if job["state"] not in {"queued", "running"}:
                progress.update(task, description=job["state"])
                return job
            if time.monotonic() > deadline:
                raise DemoFailedError(f"the job is still {job['state']} after {_JOB_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)


def _download(client: httpx2.Client, location: str, out: Path) -> None:
    """Every artifact of the job, under its own name. Of what else is in the directory only old dumps go."""
    shutil.rmtree(out / "tir", ignore_errors=True)
    for artifact in _checked(client.get(location))["artifacts"]:
        path = out / artifact["name"]
        path.parent.mkdir(parents=True, exist_ok=True)
        with client.stream("GET", artifact["href"]) as response, path.open("wb") as file:
            response.raise_for_status()
            for chunk in response.iter_bytes():
                file.write(chunk)


def _checked(response: httpx2.Response) -> dict[str, Any]:
    document: dict[str, Any] = response.json()
    if response.is_error:
        raise DemoFailedError(f"{response.request.method} {response.request.url}: {document}")
    return document
