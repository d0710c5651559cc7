"""What the process of a job may do, tried by one."""

import contextlib
import json
import os
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from accel.errors import InvalidProgram
from tests.helpers.confined import need
from worker.config.settings import Settings
from worker.execution.job_failure import INCIDENT
from worker.execution.job_inputs import ProgramJobInputs
from worker.records.job_record import Summary
from worker.records.job_request import JobOptions
from worker.runner import job_process as module
from worker.runner.job_monitor import JobMonitor, JobOutcome
from worker.runner.job_process import OUTPUT_FOLDER, start_job_process
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


@pytest.fixture
def tried(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Path], object]], JobOutcome]:
    """How a job ends whose execution is what is given, which is told its directory."""

    def run(work: Callable[[Path], object]) -> JobOutcome:
        scratch = settings.scratch_dir / "job-1"
        scratch.mkdir()

        def execute(*_: object, **_links: object) -> Summary:
            work(scratch)
            return RESULT

        monkeypatch.setattr(module, "execute", execute)
        process = start_job_process(settings, scratch)
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

    return run


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
