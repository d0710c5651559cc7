"""What one job compiles the next one finds, across the workers of a service."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from examples.single import Conv, conv_model
from tests.conftest import Service, running_service

pytestmark = pytest.mark.slow
MODEL = conv_model(Conv(channels=16, filters=32, height=10, width=10), seed=3).SerializeToString()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Two workers over one store, which is empty."""
    with running_service(tmp_path_factory.mktemp("cache"), workers=2) as running:
        yield running


def artifacts(service: Service, job: dict) -> dict[str, bytes]:
    """Every file of the job but those that have times in them."""
    items = service.client.get(job["links"]["artifacts"]).json()["artifacts"]
    timed = {"report.json", "events.jsonl", "log.txt"}
    return {one["name"]: service.client.get(one["href"]).content for one in items if one["name"] not in timed}


def cached(service: Service, job: dict) -> list[bool]:
    assert job["state"] == "succeeded", job
    return [one["cached"] for one in service.client.get(job["links"]["report"]).json()["functions"]]


def entries(data: Path) -> dict[Path, bytes]:
    """What is kept: a function with its texts, and the words and cycles of tilings that were tried."""
    files = (path for path in (data / "store" / "cache").rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in sorted(files)}


def test_workers_share_what_they_compile(service: Service) -> None:
    together = [service.submit(MODEL), service.submit(MODEL)]  # both may compile, and write the same entries
    jobs = [service.wait(location) for location in together]
    kept = entries(service.data)
    found = [service.wait(service.submit(MODEL)) for _ in range(2)]
    assert kept == entries(service.data) != {}
    assert [cached(service, job) for job in found] == [[True], [True]]
    first, *others = [artifacts(service, job) for job in (*jobs, *found)]
    assert {"program.zip", "instructions.bin", "outputs.npz", "tir/08-allocate.txt"} <= first.keys()
    for other in others:
        assert {name for name in first | other if first.get(name) != other.get(name)} == set()


def test_a_poisoned_entry_is_compiled_again_and_mended(service: Service) -> None:
    before = service.wait(service.submit(MODEL))
    kept = entries(service.data)
    largest = sorted(kept, key=lambda path: len(kept[path]))[-2:]  # the function, and the program of it
    damages: list[Callable[[bytes], bytes]] = [
        lambda whole: whole[:-7],
        lambda _: b"",
        lambda whole: whole[:-9] + bytes([whole[-9] ^ 8]) + whole[-8:],
    ]
    for damage in damages:
        for entry in largest:
            entry.write_bytes(damage(kept[entry]))
        job = service.wait(service.submit(MODEL))
        assert cached(service, job) == [False]
        assert artifacts(service, job) == artifacts(service, before)
        assert entries(service.data) == kept
