"""What is kept of a failure that is ours."""

import json
import logging
import zipfile
from pathlib import Path

import pytest

from accel.catalog.load_accelerator import accelerator_id, load_accelerator, parse_accelerator
from accel.errors import InternalError, InvalidModel
from worker.config.settings import Settings
from worker.execution.job_failure import INCIDENT, failure_problem, write_incident
from worker.execution.job_inputs import ModelJobInputs
from worker.records.job_record import Stage
from worker.records.job_request import JobOptions

STAGE = Stage(name="verify", step=12, total=13)
LIMIT = 16 << 20


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "program.zip").write_bytes(b"compiled")
    return tmp_path


def incident(out: Path, error: Exception, **settings: int) -> dict[str, bytes]:
    """The members of what is kept of the error."""
    found = failure_problem(error)
    write_incident(
        found, error, STAGE, ModelJobInputs(out / "m.onnx", "vta", JobOptions(seed=3)), out, Settings(**settings)
    )
    with zipfile.ZipFile(out / INCIDENT) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_report_has_all_that_is_needed_to_see_it_again(out: Path) -> None:
    kept = incident(out, InternalError("it is wrong", field="y", kind="deadlock", instruction=7))
    said = json.loads(kept["incident.json"])
    assert kept["program.zip"] == b"compiled"
    assert accelerator_id(parse_accelerator(kept["accelerator.json"])) == accelerator_id(load_accelerator("vta"))
    assert said["stage"] == "verify"
    assert said["problem"]["diagnosis"] == "deadlock"
    assert said["problem"]["instruction"] == 7
    assert said["provenance"]["options"]["seed"] == 3
    assert said["provenance"]["versions"]["cyclops"]


def test_a_program_that_would_exceed_the_limits_is_left_out(out: Path) -> None:
    (out / "program.zip").write_bytes(bytes(LIMIT))
    kept = incident(out, AssertionError(), job_output_bytes=2 * LIMIT)
    assert "program.zip" not in kept
    assert "too large" in json.loads(kept["incident.json"])["program"]


def test_what_cannot_be_kept_hides_nothing(out: Path, caplog: pytest.LogCaptureFixture) -> None:
    (out / INCIDENT).mkdir()
    error = AssertionError("lanes")
    found = failure_problem(error)
    with caplog.at_level(logging.ERROR):
        write_incident(found, error, None, ModelJobInputs(out, "vta", JobOptions()), out, Settings())
    assert str(found.incident) in caplog.text


@pytest.mark.parametrize(
    ("error", "slug"),
    [
        (InternalError("x"), "internal-error"),
        (AssertionError(), "internal-error"),
        (InvalidModel("x"), "invalid-model"),
        (MemoryError(), "memory-limit"),
    ],
)
def test_an_incident_is_of_what_is_ours(error: Exception, slug: str) -> None:
    found = failure_problem(error)
    assert found.type == f"/problems/{slug}"
    assert (found.incident is not None) == (slug == "internal-error")
