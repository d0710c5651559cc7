import hashlib

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.identity.api_keys import ApiKeys
from worker.identity.secret_tokens import KEY, make_token
from worker.storage.object_store import Store


def test_a_key_lets_in_until_it_is_revoked(any_store: Store) -> None:
    keys = ApiKeys(any_store)
    key, text = keys.add("alice's laptop", "alice")
    other, other_text = keys.add("bob's")
    assert keys.find(text) == key
    assert (key.owner, other.owner) == ("alice", other.id)
    keys.revoke(key.id)
    keys.revoke(key.id)
    assert keys.find(text) is None
    assert keys.find(other_text) == other
    assert keys.all() == [(key, True), (other, False)]


def test_the_store_has_digests_only(store: Store) -> None:
    key, text = ApiKeys(store).add("one")
    (name,) = store.sizes("keys")
    data = store.read(name)
    assert text.encode() not in data
    assert text[len(KEY) :].encode() not in data
    assert key.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert key.sha256.startswith(key.id)
    assert name == f"keys/{key.id}.json"


def test_the_whole_digest_counts(store: Store) -> None:
    """An id is 64 bits of it: another key with the same id would not do."""
    key, text = ApiKeys(store).add("one")
    store.write(f"keys/{key.id}.json", key.model_copy(update={"sha256": key.id + "0" * 48}).model_dump_json().encode())
    assert ApiKeys(store).find(text) is None


@given(st.text())
def test_other_texts_ask_the_store_nothing(text: str) -> None:
    class NoStore:
        pass

    keys = ApiKeys(NoStore())  # type: ignore[arg-type]
    assert keys.find(text) is None
    assert keys.find(KEY + text) is None


def test_a_key_that_was_never_made(store: Store) -> None:
    assert ApiKeys(store).find(make_token(KEY)) is None
    for key_id in ("0" * 16, "", "../store", "*"):
        with pytest.raises(KeyError):
            ApiKeys(store).revoke(key_id)


@pytest.mark.parametrize("owner", ["", " ", "a b", "../a", "a/b", "-a", "a" * 65, "é"])
def test_owners_that_cannot_be(store: Store, owner: str) -> None:
    with pytest.raises(pydantic.ValidationError):
        ApiKeys(store).add("name", owner)
    assert store.sizes("keys") == {}
