"""Accelerators in the store."""

from pathlib import Path

import pytest

from accel.catalog.load_accelerator import accelerator_id, load_accelerator, parse_accelerator, preset_names
from accel.isa.vta.document.vta_configuration import Variant, VtaConfig
from accel.isa.vta.document.vta_document import vta_accelerator
from worker.examples import example
from worker.execution.job_inputs import fetch_inputs
from worker.records.accelerator_store import Accelerators
from worker.records.job_record import Document
from worker.records.job_request import JobRequest
from worker.storage.object_store import Store

WIDE = vta_accelerator(VtaConfig(), Variant(bus_bytes=16), name="wide")


@pytest.fixture
def accelerators(tmp_path: Path) -> Accelerators:
    return Accelerators(Store(tmp_path / "store"))


def test_a_document_is_found_by_its_digest(accelerators: Accelerators, tmp_path: Path) -> None:
    digest = accelerators.add(WIDE)
    assert digest == accelerators.add(WIDE) == accelerator_id(WIDE)
    assert accelerators.ids() == [*preset_names(), digest]
    assert accelerators.get(digest) == WIDE
    assert accelerators.summary(digest) == (WIDE.title, "vta")
    path = tmp_path / "accelerator.json"
    assert accelerators.fetch(digest, path) == str(path)
    assert load_accelerator(str(path)) == WIDE


def test_a_preset_is_found_by_its_name(accelerators: Accelerators, tmp_path: Path) -> None:
    assert accelerators.ids() == preset_names()
    assert accelerators.get("vta") == load_accelerator("vta")
    assert accelerators.summary("vta") == ("VTA 16x16", "vta")
    assert accelerators.fetch("vta", tmp_path / "accelerator.json") == "vta"
    assert not (tmp_path / "accelerator.json").exists()


def test_each_owner_has_a_document_in_a_file_of_its_own(accelerators: Accelerators) -> None:
    mine, theirs = accelerators.seen_by("me"), accelerators.seen_by("them")
    digest = mine.add(WIDE, "1" * 64)
    assert theirs.add(WIDE, "2" * 64) == digest
    assert (mine.source(digest).sha256, theirs.source(digest).sha256) == ("1" * 64, "2" * 64)
    assert mine.add(WIDE, "3" * 64) == digest
    assert mine.source(digest).sha256 == "3" * 64
    for others in (accelerators, accelerators.seen_by("nobody")):
        assert others.source(digest) == Document()
    assert accelerators.source(None) == Document()


def test_a_job_repeats_only_the_checks_of_other_sources(accelerators: Accelerators, tmp_path: Path) -> None:
    """Catches a document that is checked in every job, and one that another version's checks let through."""
    mine = accelerators.seen_by("me")
    digest, store = mine.add(WIDE, "1" * 64), Store(tmp_path / "store")
    request = JobRequest(model=example("models").id, accelerator=digest)

    def checked(document: Document) -> bool:
        return fetch_inputs(request, tmp_path, store, document).checked

    assert checked(mine.source(digest))
    assert not checked(mine.source(digest).model_copy(update={"checked": "0" * 64}))
    assert not checked(Document())


@pytest.mark.parametrize("name", ["", "tpu", "0" * 64, "0" * 63, "../vta", "vta.json", "A" * 64])
def test_what_is_not_there(accelerators: Accelerators, tmp_path: Path, name: str) -> None:
    assert not accelerators.exists(name)
    for act in (accelerators.get, accelerators.summary, lambda key: accelerators.fetch(key, tmp_path / "a.json")):
        with pytest.raises(KeyError):
            act(name)


def test_a_damaged_document_is_noticed(accelerators: Accelerators, tmp_path: Path) -> None:
    digest = accelerators.add(WIDE)
    (stored,) = (tmp_path / "store").rglob("document.json")
    stored.write_bytes(stored.read_bytes().replace(b"wide", b"wild"))
    with pytest.raises(OSError, match="damaged"):
        accelerators.get(digest)
    with pytest.raises(OSError, match="damaged"):
        accelerators.fetch(digest, tmp_path / "a.json")


def test_what_was_uploaded_reads_as_a_document(accelerators: Accelerators) -> None:
    digest = accelerators.add(parse_accelerator({"vta_config": VtaConfig().model_dump()}))
    assert accelerators.get(digest).name == "1x16_i8w8a32_15_15_18_17"
