from pathlib import Path

import pytest

from service.auth.key_cache import KeyCache
from worker.identity.api_keys import ApiKeys
from worker.storage.object_store import Store, StoreUnavailableError


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Counted(ApiKeys):
    asked = 0

    def find(self, text: str):
        self.asked += 1
        return super().find(text)


@pytest.fixture
def keys(tmp_path: Path) -> Counted:
    return Counted(Store(tmp_path / "store"))


def test_a_revoked_key_is_let_in_no_longer_than_that(keys: Counted) -> None:
    clock = Clock()
    ring = KeyCache(keys, 2.0, clock)
    key, text = keys.add("one")
    assert ring.get(text) is None
    assert ring.find(text) == key
    keys.revoke(key.id)
    clock.now += 1.9
    assert ring.get(text) == key
    clock.now += 0.2
    assert ring.get(text) is None
    assert ring.find(text) is None
    assert ring.get(text) is None


def test_what_is_no_key_is_not_remembered(keys: Counted) -> None:
    ring = KeyCache(keys, 60.0, Clock())
    assert ring.find("nonsense") is None
    assert ring.get("nonsense") is None
    assert ring._known == {}


def test_it_remembers_so_many(keys: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.auth.key_cache._MOST", 3)
    ring = KeyCache(keys, 60.0, Clock())
    texts = [keys.add("one")[1] for _ in range(5)]
    for text in texts:
        ring.find(text)
    assert [ring.get(text) is not None for text in texts] == [False, False, True, True, True]


def test_while_the_store_is_away_nobody_new_is_let_in(keys: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    ring = KeyCache(keys, 2.0, clock)
    key, text = keys.add("one")
    ring.find(text)

    def away(_text: str) -> None:
        raise StoreUnavailableError("away")

    monkeypatch.setattr(keys, "find", away)
    assert ring.get(text) == key
    clock.now += 3
    assert ring.get(text) is None
    with pytest.raises(StoreUnavailableError):
        ring.find(text)
