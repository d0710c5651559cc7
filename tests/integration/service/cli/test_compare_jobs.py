"""``cyclops compare`` of jobs of a service, by id, address and link."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from accel.driver.run_options import SimulateOptions
from accel.driver.run_program import run_program
from service.cli.commands import app
from tests.helpers.idle_service import Quiet, quiet_service
from tests.helpers.programs.streams import small_program
from tests.helpers.records import RESULT, publish_all


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quiet]:
    with quiet_service(tmp_path_factory.mktemp("compared"), auth="keys") as running:
        yield running


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a run of a program leaves."""
    folder = tmp_path_factory.mktemp("out")
    run_program(small_program(), SimulateOptions(), folder)
    return folder


@pytest.fixture(scope="module")
def job(quiet: Quiet, out: Path) -> str:
    """A job that left the same."""
    job_id: str = quiet.post(quiet.request(seed=8))["id"]
    publish_all(quiet.store, job_id, 1, out)
    quiet.jobs.succeed(job_id, 1, RESULT)
    return job_id


@pytest.fixture
def key_file(quiet: Quiet, tmp_path: Path) -> str:
    path = tmp_path / "key"
    path.write_text(quiet.client.headers["Authorization"].removeprefix("Bearer ") + "\n")
    return str(path)


def compare(quiet: Quiet, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["compare", "--service", str(quiet.client.base_url), "--json", *arguments])


@pytest.mark.slow
def test_jobs_are_compared_as_the_api_does_it(quiet: Quiet, job: str, key_file: str) -> None:
    expected = quiet.client.get("/v1/compare", params={"a": job, "b": job}).json()
    page = f"{quiet.client.base_url}/jobs/{job}/timeline?select=1"
    for other in (job, "latest", page):
        found = compare(quiet, job, other, "--key-file", key_file)
        assert found.exit_code == 0, found.output
        assert json.loads(found.stdout) == expected, other


def test_a_job_and_a_folder(quiet: Quiet, job: str, out: Path, key_file: str) -> None:
    found = compare(quiet, job, str(out), "--key-file", key_file)
    document = json.loads(found.stdout)
    assert (found.exit_code, document["difference"], document["document"]) == (0, 0, [])


def test_a_link_needs_no_key(quiet: Quiet, job: str, out: Path) -> None:
    refused = compare(quiet, job, str(out))
    assert refused.exit_code == 2
    assert "--key-file" in json.loads(refused.stdout)["detail"]
    share = quiet.client.post(f"/v1/jobs/{job}/share").json()["token"]
    assert compare(quiet, f"{quiet.client.base_url}/jobs/{job}?share={share}", str(out)).exit_code == 0


def test_what_is_no_job_is_said(quiet: Quiet, out: Path, key_file: str) -> None:
    running = quiet.post(quiet.request(seed=9))["id"]
    for name, reason in (
        ("f" * 32, "no job"),
        (running, "queued"),
        ("http://127.0.0.1:9/jobs/latest", "cannot be read"),
    ):
        found = compare(quiet, str(out), name, "--key-file", key_file)
        problem = json.loads(found.stdout)
        assert (found.exit_code, problem["field"]) == (2, "b")
        assert reason in problem["detail"]
    assert compare(quiet, str(out), "latest", "--key-file", str(out / "none")).exit_code != 0
