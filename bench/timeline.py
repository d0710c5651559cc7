"""What a timeline of a million instructions costs: built, cut into windows, sent over HTTP, and moved in a browser.

The stream is the recordings' largest, 401,419 instructions of a convolution in single pixels, three launches of it;
without the recordings, random launches of the same size. Beside a window stands the same by the plain way in NumPy: all
slices are clipped to the window, and counted in the bin of their start, which does not even add up. A frame is what the
main thread of Chromium does from one frame to the next, by the browser's own trace, while a script pans and zooms.
``server`` or ``browser`` on the command line runs one part.
"""

import json
import shutil
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from trace import stream  # ours, not Python's
from typing import Any

import numpy as np
from loading.service import Service, service
from timing import least

from accel.program.program_model import Launch, Program
from accel.report.documents.memory_documents import Allocation, LayerMemory, MemoryPlan, OnChipMemory
from accel.report.documents.memory_occupancy import memory_occupancy
from accel.simulate.engine import simulate
from accel.trace.program_trace import Trace
from accel.trace.timeline import Timeline
from accel.trace.trace_builder import make_trace
from accel.util.arrays import Float64
from worker.examples import example_id
from worker.records.job_artifacts import publish
from worker.storage.object_store import Store

LAUNCHES = 3
MEMORIES, LAYERS = 4, 500  # of a memory plan larger than that of any network here: a buffer a memory and layer
BINS = 2400  # of a view of 1,200 pixels, and as much beside it
SHARES = (1.0, 0.5, 0.1, 0.01, 0.0001)
_GOAL, _FRAME = 50.0, 16.0  # ms
_MOVES = 240


def million() -> tuple[str, Program]:
    """Where the stream comes from, and a program of several launches of it."""
    source, program = stream()
    (launch,) = program.steps
    assert isinstance(launch, Launch)
    count = len(program.words)
    steps = tuple(replace(launch, name=f"conv{number}", begin=number * count) for number in range(LAUNCHES))
    words, origin = np.tile(program.words, (LAUNCHES, 1)), np.tile(program.origin, LAUNCHES)
    return source, replace(program, steps=steps, words=words, origin=origin)


def busy_plan(cycles: int) -> MemoryPlan:
    """A memory plan in which each memory is used to another extent by each of many layers."""
    memories = [OnChipMemory(name=f"memory{number}", elements=2048, element_bytes=16) for number in range(MEMORIES)]
    edges = np.linspace(0, cycles, LAYERS + 1).astype(int).tolist()
    layers = []
    for number, (begin, end) in enumerate(pairwise(edges)):
        buffers = [
            Allocation(
                memory=memory.name,
                begin=0,
                end=1 + (number * 37 + place * 501) % memory.elements,
                copies=1,
                buffer="buffer",
                role="data",
                tensors=[],
                first_instruction=None,
                last_instruction=None,
                begin_cycle=begin,
                end_cycle=end - (end - begin) // 9,
            )
            for place, memory in enumerate(memories)
        ]
        layers.append(LayerMemory(name=f"layer{number}", begin_cycle=begin, end_cycle=end, allocations=buffers))
    return MemoryPlan(memories=memories, layers=layers)


def windows(timeline: Timeline) -> Iterator[tuple[str, int, int]]:
    """The windows to measure: a share of the whole, from its middle on."""
    for share in SHARES:
        length = max(int(timeline.cycles * share), 1)
        begin = (timeline.cycles - length) // 2
        yield f"{length:,} cycles", begin, begin + length


def plain(timeline: Timeline, begin: int, end: int) -> None:
    """Every slice of every track, clipped and counted."""
    for track in timeline.tracks:
        for slices in track.values():
            first, last = slices.spans(np.arange(len(slices.start)))
            first, last = np.maximum(first, begin), np.minimum(last, end)
            inside = last > first
            np.bincount((first[inside] - begin) * BINS // (end - begin), last[inside] - first[inside], BINS)


def line(name: str, milliseconds: float, note: str = "") -> None:
    print(f"{name:44} {milliseconds:9.1f}   {note}".rstrip())


def server(trace: Trace) -> None:
    """The library's part: it is built once, and then windows are cut."""
    line("build it from the file", 1000 * least(trace.timeline), "in the first request for a job")
    timeline = trace.timeline()
    line("memory, MB", timeline.nbytes / 1e6, f"{timeline.nbytes / len(trace):.0f} bytes an instruction")
    counters = [memory.held for memory in memory_occupancy(busy_plan(timeline.cycles))]
    worst = 0.0
    for name, begin, end in windows(timeline):
        fast = least(lambda: timeline.window(begin, end, BINS, counters))  # noqa: B023
        slow = least(lambda: plain(timeline, begin, end))  # noqa: B023
        size = len(timeline.window(begin, end, BINS, counters))
        worst = max(worst, 1000 * fast)
        line(
            f"a window of {name}",
            1000 * fast,
            f"{size / 1e3:.0f} kB; plain {1000 * slow:.0f} ms, {slow / fast:.1f} times",
        )
    print(f"every window within {_GOAL:.0f} ms: {'yes' if worst < _GOAL else 'no'}, {worst:.1f} ms at most")


@contextmanager
def served(file: Path, plan: MemoryPlan, data: Path) -> Iterator[tuple[str, str]]:
    """A service that has a job with this trace and memory plan: its address, and the job's."""
    with service(data, 1, CYCLOPS_WARM_UP="none") as running:
        base = f"http://127.0.0.1:{running.port}"
        wanted = json.dumps({"program": example_id("programs")}).encode()
        request = urllib.request.Request(  # noqa: S310
            f"{base}/v1/jobs", wanted, {"Content-Type": "application/json", "Prefer": "wait=60"}
        )
        with urllib.request.urlopen(request) as answer:  # noqa: S310
            job = json.load(answer)["id"]
        publish_trace(running, job, file, plan)
        yield base, job


def publish_trace(running: Service, job: str, file: Path, plan: MemoryPlan) -> None:
    """Puts another trace in the place of the job's own, as a job publishes its artifacts."""
    deadline = time.monotonic() + 60
    address = f"http://127.0.0.1:{running.port}/v1/jobs/{job}"
    while time.monotonic() < deadline:
        with urllib.request.urlopen(address) as answer:
            if json.load(answer)["state"] == "succeeded":
                break
        time.sleep(0.1)
    copy, memory = file.with_name("published.npz"), file.with_name("memory.json")
    shutil.copy(file, copy)
    memory.write_text(plan.model_dump_json())
    publish(Store(running.data / "store"), job, 1, {"trace.npz": copy, "memory.json": memory})


def over_http(base: str, job: str, cycles: int) -> None:
    def fetch(begin: int, end: int) -> bytes:
        address = f"{base}/v1/jobs/{job}/timeline?begin={begin}&end={end}&bins={BINS}"
        with urllib.request.urlopen(address) as answer:  # noqa: S310
            data: bytes = answer.read()
        return data

    began = time.perf_counter()
    fetch(0, cycles)
    line("the first window over HTTP", 1000 * (time.perf_counter() - began), "the timeline is built")
    worst = 0.0
    for share in SHARES:
        length = max(int(cycles * share), 1)
        begin = (cycles - length) // 2
        seconds = least(lambda: fetch(begin, begin + length))  # noqa: B023
        worst = max(worst, 1000 * seconds)
        line(f"over HTTP, a window of {length:,} cycles", 1000 * seconds)
    print(f"every window over HTTP within {_GOAL:.0f} ms: {'yes' if worst < _GOAL else 'no'}, {worst:.1f} ms at most")


def browser(base: str, job: str) -> None:
    """The main thread's work a frame, from the browser's own trace."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - of the developers' requirements

    program = shutil.which("chromium")
    if program is None:
        print("no frames: there is no chromium")
        return
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = chromium.new_page(base_url=base, viewport={"width": 1280, "height": 900})
        page.goto(f"/jobs/{job}/timeline")
        page.wait_for_selector('canvas[data-detail="fine"]')
        box = page.locator("canvas").bounding_box()
        assert box is not None
        middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        for name, move in (("zoom", zoom), ("pan", pan)):
            chromium.start_tracing(page=page, categories=["devtools.timeline", "devtools.timeline.frame", "toplevel"])
            move(page, middle)
            frames, processor = frames_of(json.loads(chromium.stop_tracing()))
            quiet = float(np.percentile(frames, 95))
            note = f"median {np.median(frames):.1f}, most {frames.max():.1f}, {len(frames)} frames; "
            note += f"of the processor {np.percentile(processor, 95):.1f}"
            line(f"main thread a frame while it {name}s, 95 %", quiet, note)
            print(f"frames of {name} within {_FRAME:.0f} ms: {'yes' if quiet < _FRAME else 'no'}")
        chromium.close()


def zoom(page: Any, middle: tuple[float, float]) -> None:
    """In to a few instructions, and out again."""
    page.mouse.move(*middle)
    for number in range(_MOVES):
        page.mouse.wheel(0, -120 if number < _MOVES // 2 else 120)


def pan(page: Any, middle: tuple[float, float]) -> None:
    """At an eighth of the whole, to and fro."""
    for _ in range(11):
        page.mouse.wheel(0, -120)
    page.mouse.down()
    for number in range(_MOVES):
        page.mouse.move(middle[0] + 300 * np.sin(number / 12), middle[1])
    page.mouse.up()


def frames_of(trace: dict[str, Any]) -> tuple[Float64, Float64]:
    """Milliseconds of the page's main thread from each frame that it drew to the next: its tasks', the processor's."""
    events = trace["traceEvents"]
    thread = {(e["pid"], e["tid"]) for e in events if e["name"] == "FireAnimationFrame"}
    mine = [event for event in events if (event["pid"], event["tid"]) in thread]
    drawn = np.array(sorted(event["ts"] for event in mine if event["name"] == "FireAnimationFrame"))
    tasks = [event for event in mine if event["ph"] == "X" and event["name"] == "ThreadControllerImpl::RunTask"]
    found = np.zeros((2, len(drawn)))
    # the work up to a frame and the frame's own
    for event in tasks:
        place = np.searchsorted(drawn, event["ts"] + event["dur"] / 2)
        if place < len(drawn):
            found[:, place] += event["dur"] / 1000, event.get("tdur", 0) / 1000
    return found[0, 1:], found[1, 1:]


def main() -> None:
    parts = sys.argv[1:] or ["server", "browser"]
    source, program = million()
    simulation = simulate(program, {}, function=False)
    print(f"{f'{len(program.words):,} instructions, {source}':44} {'ms':>9}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_trace(program, simulation).save(folder)
        trace = Trace.load(folder)
        if "server" in parts:
            server(trace)
        if "browser" in parts:
            cycles = trace.timeline().cycles
            with served(folder / "trace.npz", busy_plan(cycles), folder / "data") as (base, job):
                over_http(base, job, cycles)
                browser(base, job)


if __name__ == "__main__":
    main()
