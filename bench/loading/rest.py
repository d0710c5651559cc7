"""How long the service takes to start, and what its processes hold, at rest and with ResNet-8."""

import contextlib

from loading.cached import done
from loading.connection import Connection
from loading.figures import MB, heading, row
from loading.service import Service
from loading.usage import Watched

from examples.resnet8 import resnet8


async def rest(service: Service) -> None:
    """Print the table. Memory counts what processes share in parts: all of them together hold the sum."""
    heading("start, and memory")
    row("from the command until the api answers", f"{service.api_seconds:.1f} s")
    row("until a worker listens", f"{service.worker_seconds:.1f} s")
    (worker, *_) = service.workers()
    first = Watched(worker, tree=True).now()
    service.settle()
    row("", "pss MB", "rss MB")
    row("the api", *_mb(service.api))
    for pid in service.inspectors():
        row("its process for uploads", *_mb(pid))
    row("a worker, as it begins", f"{first.pss / MB:.0f}", f"{first.rss / MB:.0f}")
    row("a worker that has compiled ahead", *_mb(worker))
    connection = await Connection.to(service.port)
    model = await connection.ask("POST", "/v1/models", resnet8().SerializeToString())
    job = {"model": model.document()["id"], "accelerator": "vta", "fresh": True}
    for name in ("its first ResNet-8", "another one"):
        with contextlib.ExitStack() as stack:
            watched = [stack.enter_context(Watched(pid, tree=True, every=0.1)) for pid in service.workers()]
            record = await done(connection, job)
        row(f"the worker and its processes, {name}", f"{max(each.most.pss for each in watched) / MB:.0f}")
        if record["result"]["verified"] is not True:
            raise RuntimeError(record)
    connection.close()


def _mb(pid: int) -> tuple[str, str]:
    now = Watched(pid).now()
    return f"{now.pss / MB:.0f}", f"{now.rss / MB:.0f}"
