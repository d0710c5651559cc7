import re

import pytest

from service.following.ids import END, PATTERN, QUEUED, START, Cursor, Place, cursor_of, place_of
from worker.records.event_journal import END_ID


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (None, Place(START)),
        ("queued", Place(QUEUED)),
        ("queued-0", Place(QUEUED, 0)),
        ("queued-12", Place(QUEUED, 12)),
        ("1-0", Place(Cursor(1, 0))),
        ("2-57", Place(Cursor(2, 57))),
        ("end", Place(END)),
    ],
)
def test_where_a_client_is(text: str | None, place: Place) -> None:
    assert place_of(text) == place
    assert text is None or re.search(PATTERN, text)


@pytest.mark.parametrize("text", ["", "0-1", "queued-", "1", "1-", "-1", "1-x", "1-0-0", "end-1", "1-0\n", "9" * 20])
def test_what_is_no_id(text: str) -> None:
    assert not re.fullmatch(PATTERN.strip("^$"), text)


def test_events_in_their_order() -> None:
    order = [START, QUEUED, Cursor(1, 0), Cursor(1, 9), Cursor(1, 10), Cursor(2, 0), END]
    assert sorted(order) == order
    assert [cursor.text for cursor in order[1:]] == ["queued", "1-0", "1-9", "1-10", "2-0", "end"]


def test_the_places_of_redis() -> None:
    assert cursor_of(END_ID) == END
    assert END.key == END_ID
    assert cursor_of(b"3-14") == Cursor(3, 14)
    assert START.key == QUEUED.key == "0-0"
