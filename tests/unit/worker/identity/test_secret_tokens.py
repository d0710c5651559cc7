import binascii
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.identity.secret_tokens import KEY, LINK, is_well_formed, make_token, token_digest

ALPHABET = string.ascii_letters + string.digits
PREFIXES = st.sampled_from([KEY, LINK])


@given(PREFIXES)
def test_a_secret_is_whole_under_its_own_prefix_only(prefix: str) -> None:
    text = make_token(prefix)
    assert is_well_formed(text, prefix)
    assert not is_well_formed(text, LINK if prefix == KEY else KEY)
    assert len(text) == len(prefix) + 49
    assert set(text.removeprefix(prefix)) <= set(ALPHABET)


def test_none_is_made_twice() -> None:
    assert len({make_token(KEY) for _ in range(1000)}) == 1000


@given(PREFIXES, st.data())
def test_a_slip_is_seen(prefix: str, data: st.DataObject) -> None:
    """CRC-32 finds every change within 32 bits, so every one of a character, and of two neighbours."""
    text = make_token(prefix)
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(codec="utf-8").filter(lambda character: character != text[place]))
    assert not is_well_formed(text[:place] + other + text[place + 1 :], prefix)
    assert not is_well_formed(text[:place] + text[place + 1 :], prefix)
    assert not is_well_formed(text[:place] + other + text[place:], prefix)
    swapped = text[: place - 1] + text[place] + text[place - 1] + text[place + 1 :] if place else text[::-1]
    assert swapped == text or not is_well_formed(swapped, prefix)


@given(st.text(), PREFIXES)
def test_any_text_is_judged(text: str, prefix: str) -> None:
    assert not is_well_formed(text, prefix)
    assert not is_well_formed(prefix + text, prefix)


@given(st.text(ALPHABET, min_size=43, max_size=43))
def test_the_checksum_is_that_of_the_text_before_it(body: str) -> None:
    """CRC-32 to the base of 62, digits before letters, upper case before lower, written here once more."""
    text, left = KEY + body, binascii.crc32((KEY + body).encode())
    order = string.digits + string.ascii_uppercase + string.ascii_lowercase
    digits = [order[left // 62**power % 62] for power in range(5, -1, -1)]
    assert is_well_formed(text + "".join(digits), KEY)


@pytest.mark.parametrize("text", ["", KEY, LINK, KEY + "0" * 49, " " + KEY, "cyclops", KEY + "٣" * 49])
def test_what_is_none(text: str) -> None:
    assert not is_well_formed(text, KEY)


def test_the_digest_is_sha_256() -> None:
    assert token_digest("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
