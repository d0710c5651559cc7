from typing import get_args

import pytest

from worker.identity.ownership import Ownership
from worker.identity.secret_tokens import KEY, make_token
from worker.identity.share_links import ShareLinks, ShareTarget
from worker.storage.identifiers import ObjectKind
from worker.storage.object_store import Store


def thing(kind: ObjectKind, digit: str) -> ShareTarget:
    return ShareTarget(kind, digit * (32 if kind == "jobs" else 64))


def shares_of(store: Store, *owners: str) -> ShareLinks:
    """The links of a store where these owners have the first two of each kind."""
    for owner in owners:
        for kind in get_args(ObjectKind):
            for digit in "12":
                Ownership(store, owner).add(kind, thing(kind, digit).id)
    return ShareLinks(store)


@pytest.mark.parametrize("kind", get_args(ObjectKind))
def test_a_link_opens_its_thing_until_it_is_revoked(any_store: Store, kind: ObjectKind) -> None:
    one, two = thing(kind, "1"), thing(kind, "2")
    shares = shares_of(any_store, "a")
    first, again, other = shares.add(one, "a"), shares.add(one, "a"), shares.add(two, "a")
    assert shares.resolve(first, one)
    assert shares.resolve(again, one)
    assert not shares.resolve(first, two)
    assert not shares.resolve(make_token(KEY), one)
    for elsewhere in get_args(ObjectKind):
        assert elsewhere == kind or not shares.resolve(first, ShareTarget(elsewhere, one.id))
    shares.revoke(one, "a")
    assert not shares.resolve(first, one)
    assert not shares.resolve(again, one)
    assert shares.resolve(other, two)
    shares.revoke(one)


@pytest.mark.parametrize("kind", [kind for kind in get_args(ObjectKind) if kind != "jobs"])
def test_what_two_have_sent_each_shares_for_itself(any_store: Store, kind: ObjectKind) -> None:
    one, shares = thing(kind, "1"), shares_of(any_store, "a", "b")
    by_a, by_b = shares.add(one, "a"), shares.add(one, "b")
    shares.revoke(one, "a")
    assert (bool(shares.resolve(by_a, one)), bool(shares.resolve(by_b, one))) == (False, True)
    Ownership(any_store, "b").remove(kind, one.id)
    assert not shares.resolve(by_b, one)


def test_the_store_has_digests_only(store: Store) -> None:
    texts = [shares_of(store, "a").add(thing(kind, "1"), "a") for kind in get_args(ObjectKind)]
    for folder in ("jobs", "shares"):
        for key in store.sizes(folder):
            assert not [text for text in texts if text in key or text.encode() in store.read(key)]
