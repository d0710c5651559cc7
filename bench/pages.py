"""What a page costs whoever opens it: first paint, and bytes before anything is touched, in Chromium on loopback.

The job is a ResNet-50 on ``vta``. Every page is opened in a fresh profile with nothing in a cache, three times; the
middle one counts. Beside it stands the same of an empty page of the service's own (a problem page that says that there
is nothing at an address), as a browser needs time for any page. Bytes are those of bodies and heads as the network had
them, compressed where they were. ``--model`` names another of ``examples.networks``.
"""

import argparse
import json
import shutil
import statistics
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loading.service import service
from playwright.sync_api import Browser, sync_playwright

from examples.networks import build

_PAINT, _BYTES = 1000.0, 500.0  # ms, kB
_RUNS = 3
_QUIET = 700  # ms without a request: islands in view have loaded
_NOTHING = "/nothing-here"


@dataclass(frozen=True)
class Opened:
    """A page as it was opened: first contentful paint, ms, kilobytes received, and requests."""

    paint: float
    kilobytes: float
    requests: int


def submit(base: str, model: bytes) -> str:
    """Runs the model; returns the job's id."""
    sent = urllib.request.Request(f"{base}/v1/models", model)  # noqa: S310
    with urllib.request.urlopen(sent) as answer:  # noqa: S310
        digest = json.load(answer)["id"]
    wanted = json.dumps({"model": digest, "accelerator": "vta"}).encode()
    heads = {"Content-Type": "application/json", "Prefer": "wait=300"}
    with urllib.request.urlopen(urllib.request.Request(f"{base}/v1/jobs", wanted, heads)) as answer:  # noqa: S310
        job = json.load(answer)
    if job["state"] != "succeeded":
        raise RuntimeError(job)
    return str(job["id"])


def open_page(chromium: Browser, address: str) -> Opened:
    """Opens a page in a fresh profile, and touches nothing."""
    with chromium.new_context(viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        network = context.new_cdp_session(page)
        network.send("Network.enable")
        received: list[float] = []
        network.on("Network.loadingFinished", lambda event: received.append(event["encodedDataLength"]))
        page.goto(address)
        # the pages' policy lets no condition be evaluated in the page, as waiting for a function would
        while (paint := page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")) is None:
            page.wait_for_timeout(20)
        seen = -1
        while seen != len(received):
            seen = len(received)
            page.wait_for_timeout(_QUIET)
        return Opened(paint, sum(received) / 1000, len(received))


def middle(chromium: Browser, address: str) -> Opened:
    """Returns the middle of several."""
    found = [open_page(chromium, address) for _ in range(_RUNS)]
    return Opened(
        statistics.median(each.paint for each in found),
        statistics.median(each.kilobytes for each in found),
        found[0].requests,
    )


def measure(chromium: Any, base: str, job: str) -> None:
    """Prints a line a page, and whether all are within the limits."""
    open_page(chromium, base + _NOTHING)  # whatever a browser loads at its first page
    empty = middle(chromium, base + _NOTHING)
    print(f"{'':24} {'ms':>7} {'kB':>7} {'requests':>9} {'x empty':>8}")
    print(f"{'an empty page':24} {empty.paint:7.0f} {empty.kilobytes:7.1f} {empty.requests:9}")
    within = True
    pages = ("", "/passes", "/timeline", "/graph")
    for path in [
        "/",
        "/jobs",
        "/jobs/chart",
        "/accelerators/vta",
        *(f"/jobs/{job}{page}" for page in pages),
        f"/compare?a={job}&b={job}",
        f"/jobs/{job}/passes?view=editor",
    ]:
        found = middle(chromium, base + path)
        within &= found.paint < _PAINT and found.kilobytes < _BYTES
        name = path.replace(job, "ID")
        print(
            f"{name:24} {found.paint:7.0f} {found.kilobytes:7.1f} {found.requests:9} {found.paint / empty.paint:8.1f}",
            flush=True,
        )
    print(f"every page painted within {_PAINT:.0f} ms and {_BYTES:.0f} kB: {'yes' if within else 'no'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50")
    given = parser.parse_args()
    program = shutil.which("chromium")
    if program is None:
        print("nothing is measured: there is no chromium")
        return
    with tempfile.TemporaryDirectory(prefix="cyclops-pages-") as folder, service(Path(folder), 1) as running:
        base = f"http://127.0.0.1:{running.port}"
        job = submit(base, build(given.model).SerializeToString())
        running.settle()
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            measure(chromium, base, job)
            chromium.close()


if __name__ == "__main__":
    main()
