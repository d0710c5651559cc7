"""What the process of a job may do, tried by one."""

import contextlib
import json
import os
import threading
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.errors import InvalidProgram
from accel.lowering.ir.function_attributes import REGION
from accel.util.helper_process import may_help
from examples.single import Conv, conv_model
from tests.helpers.confined import need
from tests.helpers.models.build_models import lower, regions
from worker.config.settings import Settings
from worker.execution.job_failure import INCIDENT
from worker.execution.job_inputs import ProgramJobInputs
from worker.records.job_record import Summary
from worker.records.job_request import JobOptions
from worker.runner import job_process as module
from worker.runner.job_monitor import JobMonitor, JobOutcome
from worker.runner.job_process import ASSISTANT_NAME, OUTPUT_FOLDER, start_job_process
from worker.runner.job_reporting import JobLog
from worker.sandbox.confinement import TEMPORARY

RESULT = Summary(verified=True, cycles=1, macs_share=None)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(data=tmp_path / "data")
    settings.scratch_dir.mkdir(parents=True)
    settings.store_dir.mkdir()
    (settings.store_dir / "model").write_text("another's")
    return settings


def outcome_of(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[Path, Mapping[str, Any]], object],
    look: Callable[[int], object] = lambda _: None,
) -> JobOutcome:
    """How a job ends whose execution is ``work``, which is told its directory, and has what ``execute`` is given.

    ``look`` is called beside it with the number of its process.
    """
    scratch = settings.scratch_dir / "job-1"
    scratch.mkdir()

    def execute(*_: object, **links: object) -> Summary:
        work(scratch, links)
        return RESULT

    monkeypatch.setattr(module, "execute", execute)
    process = start_job_process(settings, scratch)
    looking = threading.Thread(target=look, args=[process.pid])
    looking.start()
    try:
        (scratch / "program.zip").write_text("the input")
        watch = JobMonitor(
            process,
            scratch,
            settings,
            cache=None,
            kernels=None,
            stage=lambda _: None,
            log=JobLog("job", 1000, lambda _: None),
            stopped=lambda: False,
        )
        return watch.run(ProgramJobInputs(scratch / "program.zip", None, JobOptions()), time.monotonic() + 20)
    finally:
        process.close()
        looking.join()


@pytest.fixture
def tried(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Path], object]], JobOutcome]:
    """How a job ends whose execution is what is given, which is told its directory."""
    return lambda work: outcome_of(settings, monkeypatch, lambda scratch, _links: work(scratch))


def test_it_reads_its_inputs_and_writes_beside_them(tried: Callable[..., JobOutcome], settings: Settings) -> None:
    def work(scratch: Path) -> None:
        assert (scratch / "program.zip").read_text() == "the input"
        for folder in (OUTPUT_FOLDER, TEMPORARY):
            (scratch / folder / "deep").mkdir()
            (scratch / folder / "deep/file").write_text("x")
        assert os.environ["TMPDIR"] == str(scratch / TEMPORARY)

    assert tried(work) == JobOutcome(result=RESULT)
    assert (settings.scratch_dir / "job-1" / OUTPUT_FOLDER / "deep/file").read_text() == "x"


@pytest.mark.parametrize(
    "forbidden",
    [
        lambda scratch: (scratch / "program.zip").write_text("x"),
        lambda scratch: (scratch / "program.zip").unlink(),
        lambda scratch: (scratch / "more").touch(),
        lambda scratch: (scratch / OUTPUT_FOLDER).rename(scratch / "other"),
        lambda scratch: (scratch.parent / "another").mkdir(),
        lambda scratch: (scratch.parent.parent / "store/model").read_text(),
    ],
    ids=["overwrite an input", "remove one", "add one", "exchange a folder", "another job's", "the store"],
)
def test_it_does_no_more(tried: Callable[..., JobOutcome], tmp_path: Path, forbidden: Callable[[Path], object]) -> None:
    need(tmp_path, "files")
    problem = tried(forbidden).problem
    assert problem is not None
    assert "PermissionError" in problem.detail


def test_an_error_of_ours_is_an_incident_and_keeps_what_a_report_needs(
    tried: Callable[..., JobOutcome], settings: Settings
) -> None:
    def work(_: Path) -> None:
        raise AssertionError("no such lane")

    problem = tried(work).problem
    assert problem is not None
    assert (problem.type, problem.detail) == ("/problems/internal-error", "AssertionError: no such lane")
    with zipfile.ZipFile(settings.scratch_dir / "job-1" / OUTPUT_FOLDER / INCIDENT) as kept:
        assert kept.read("program.zip") == b"the input"
        said = json.loads(kept.read("incident.json"))
    assert said["incident"] == problem.incident
    assert said["problem"] == problem.model_dump(mode="json")
    assert said["traceback"].endswith("AssertionError: no such lane\n")
    assert said["versions"]["tvm"]
    assert said["options"] == JobOptions().model_dump(mode="json")


def test_an_error_of_the_input_is_no_incident(tried: Callable[..., JobOutcome], settings: Settings) -> None:
    def work(_: Path) -> None:
        raise InvalidProgram("it is none", field="program")

    problem = tried(work).problem
    assert problem is not None
    assert (problem.type, problem.incident) == ("/problems/invalid-program", None)
    assert not (settings.scratch_dir / "job-1" / OUTPUT_FOLDER / INCIDENT).exists()


def test_nothing_is_open_but_the_line(tried: Callable[..., JobOutcome], settings: Settings) -> None:
    receiver, sender = os.pipe()  # as those by which a worker sees its process end

    def work(scratch: Path) -> None:
        found = set()
        for path in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # the listing's own
                found.add(str(path.readlink()).split(":")[0])
        (scratch / OUTPUT_FOLDER / "open").write_text(" ".join(sorted(found)))

    with os.fdopen(receiver), os.fdopen(sender, "wb"), (settings.store_dir / "model").open():
        assert tried(work).problem is None
    # what it writes to, and the line
    assert (settings.scratch_dir / "job-1" / OUTPUT_FOLDER / "open").read_text() == "/dev/null pipe socket"


def _assistants(session: int) -> list[Path]:
    """Folders in ``/proc`` of the assistants of a job's session."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            name = status.read_text().split(maxsplit=2)[1]
            if name == ASSISTANT_NAME and os.getsid(int(status.parent.name)) == session:
                found.append(status.parent)
    return found


@pytest.mark.skipif(not may_help(), reason="there is one processor, or no fork")
def test_an_assistant_lowers_in_confinement_and_ends_with_its_job(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that could reach the store, or outlived its job, would be a way around the job's walls."""
    packed = lower(conv_model(Conv(channels=16, filters=16, height=4, width=4)), load_accelerator("vta"), "pack")
    (function,) = regions(packed)
    folder = settings.scratch_dir / "job-1" / OUTPUT_FOLDER
    session, seen = 0, ""

    def work(_scratch: Path, links: Mapping[str, Any]) -> None:
        answer = links["helpers"].assistant.lower(Target(load_accelerator("vta")), str(function.attrs[REGION])).result()
        (folder / "told").write_text(str(answer.entry is not None))
        while not (folder / "seen").exists():
            time.sleep(0.01)

    def look(process: int) -> None:
        nonlocal session, seen
        session = process
        while not (folder / "told").exists():
            time.sleep(0.01)
        (assistant,) = _assistants(process)
        seen = (assistant / "status").read_text()
        (folder / "seen").touch()

    assert outcome_of(settings, monkeypatch, work, look) == JobOutcome(result=RESULT)
    assert (folder / "told").read_text() == "True"
    assert "\nNoNewPrivs:\t1\n" in seen
    assert "\nSeccomp:\t2\n" in seen
    assert _assistants(session) == []
