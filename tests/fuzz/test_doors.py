"""Every operation of the API, by schemathesis: valid and invalid requests, and only documented answers."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.doors import Doors, doors, tried


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with doors(tmp_path_factory.mktemp("doors")) as there:
        yield there


def check(at: Doors, directory: Path, *options: str, seconds: float, cases: int) -> None:
    status, said = tried(at, directory, *options, seconds=seconds)
    assert status == 0, said
    counted = re.search(r"(\d+) generated", said)
    assert counted, said
    assert int(counted[1]) >= cases, said
    assert at.service.client.get("/healthz").status_code == 200
    assert not [line for line in at.service.lines if "Traceback" in line]


@pytest.mark.slow
def test_every_operation_answers_as_it_is_documented(at: Doors, tmp_path: Path) -> None:
    check(at, tmp_path, "--phases", "coverage", "--seed", "1", seconds=240, cases=800)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_many_requests_and_sequences_of_them(at: Doors, tmp_path: Path) -> None:
    options = ("--phases", "examples,coverage,fuzzing,stateful", "--max-examples", "60", "--seed", "2")
    check(at, tmp_path, *options, "--max-time", "180", seconds=400, cases=3000)
