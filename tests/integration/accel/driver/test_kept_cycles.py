"""Cycles of trials, kept as one entry of a document."""

from pathlib import Path

import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.trials import kept_cycles
from accel.driver.trials.kept_cycles import KeptCycles
from accel.util.content_cache import FolderCache

VTA = load_accelerator("vta")


def test_cycles_are_of_one_document_and_the_latest_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches cycles that another latency is believed of, a job that forgets those before it, and an endless entry."""
    monkeypatch.setattr(kept_cycles, "_MOST", 2)
    cache = FolderCache(tmp_path)
    slower = VTA.model_copy(update={"dram": VTA.dram.model_copy(update={"read_latency": 99})})
    for number, attribute in enumerate(("first", "second", "third")):
        known = KeptCycles(VTA, cache)
        known.learn(attribute, number)
        assert KeptCycles(VTA, cache).find(attribute) is None  # not before they are kept
        known.keep()
    assert [KeptCycles(VTA, cache).find(attribute) for attribute in ("first", "second", "third")] == [None, 1, 2]
    assert KeptCycles(slower, cache).find("third") is None
    assert len(list(tmp_path.iterdir())) == 1


def test_without_a_cache_nothing_is_known() -> None:
    """A placement by cycles needs the regions that it times, lowered: none may be known."""
    known = KeptCycles(VTA, None)
    known.learn("first", 1)
    known.keep()
    assert known.find("first") is None
