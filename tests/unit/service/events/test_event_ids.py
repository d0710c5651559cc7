import re

import pytest

from service.events.event_ids import (
    END,
    EVENT_ID_PATTERN,
    QUEUED,
    START,
    EventCursor,
    ResumePoint,
    cursor_of,
    resume_point_of,
)
from worker.records.event_journal import END_ID


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (None, ResumePoint(START)),
        ("queued", ResumePoint(QUEUED)),
        ("queued-0", ResumePoint(QUEUED, 0)),
        ("queued-12", ResumePoint(QUEUED, 12)),
        ("1-0", ResumePoint(EventCursor(1, 0))),
        ("2-57", ResumePoint(EventCursor(2, 57))),
        ("end", ResumePoint(END)),
    ],
)
def test_where_a_client_is(text: str | None, place: ResumePoint) -> None:
    assert resume_point_of(text) == place
    assert text is None or re.search(EVENT_ID_PATTERN, text)


@pytest.mark.parametrize("text", ["", "0-1", "queued-", "1", "1-", "-1", "1-x", "1-0-0", "end-1", "1-0\n", "9" * 20])
def test_what_is_no_id(text: str) -> None:
    assert not re.fullmatch(EVENT_ID_PATTERN.strip("^$"), text)


def test_events_in_their_order() -> None:
    order = [START, QUEUED, EventCursor(1, 0), EventCursor(1, 9), EventCursor(1, 10), EventCursor(2, 0), END]
    assert sorted(order) == order
    assert [cursor.text for cursor in order[1:]] == ["queued", "1-0", "1-9", "1-10", "2-0", "end"]


def test_the_places_of_redis() -> None:
    assert cursor_of(END_ID) == END
    assert END.key == END_ID
    assert cursor_of(b"3-14") == EventCursor(3, 14)
    assert START.key == QUEUED.key == "0-0"
