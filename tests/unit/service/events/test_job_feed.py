import asyncio
import json

from service.events.event_ids import BEFORE_END, END, QUEUED, EventCursor
from service.events.job_feed import JobFeed, JournalEntry


def log(number: int, text: str = "x", attempt: int = 1) -> JournalEntry:
    return JournalEntry(EventCursor(attempt, number), "log", json.dumps({"line": text}))


def numbers(entries: list[JournalEntry] | None) -> list[int] | None:
    return None if entries is None else [entry.cursor.number for entry in entries]


async def make() -> JobFeed:
    return JobFeed("0" * 32)


def test_who_listens_gets_what_comes_after() -> None:
    feed = asyncio.run(make())
    assert feed.subscribe(QUEUED)
    feed.queued = True
    feed.append([log(0), log(1)])
    feed.append([log(1), log(2)])  # read from an earlier place
    assert numbers(feed.since(QUEUED)) == [0, 1, 2]
    assert numbers(feed.since(EventCursor(1, 1))) == [2]
    assert numbers(feed.since(EventCursor(1, 2))) == []
    assert not feed.queued


def test_another_who_has_less_must_ask_elsewhere() -> None:
    feed = asyncio.run(make())
    feed.subscribe(EventCursor(1, 5))
    assert not feed.subscribe(QUEUED)
    feed.append([log(6)])
    assert feed.since(QUEUED) is None
    assert numbers(feed.since(EventCursor(1, 5))) == [6]


def test_so_much_is_kept() -> None:
    feed = asyncio.run(make())
    feed.subscribe(QUEUED)
    feed.append(log(number, "x" * 1000) for number in range(1000))
    assert feed.since(QUEUED) is None
    assert numbers(feed.since(EventCursor(1, 990))) == list(range(991, 1000))
    assert sum(len(entry.data) for entry in feed._recent) < 64 << 10
    feed.append([log(1000, "x" * (1 << 20))])
    assert feed.since(EventCursor(1, 999)) is None
    assert feed.since(EventCursor(1, 1000)) == []


def test_who_waits_for_the_end_reads_nothing_else() -> None:
    feed = asyncio.run(make())
    assert feed.read == BEFORE_END
    feed.append([JournalEntry(END, "end", '{"last":"1-7"}')])
    assert feed.ended
    assert feed.last == EventCursor(1, 7)


def test_a_listener_after_a_waiter() -> None:
    feed = asyncio.run(make())
    assert feed.subscribe(QUEUED)
    assert feed.read == QUEUED
    feed.append([log(0), JournalEntry(END, "end", '{"last":null}')])
    assert numbers(feed.since(QUEUED)) == [0]
    assert feed.ended
    assert feed.last is None


def test_all_who_wait_hear_of_a_change() -> None:
    async def scenario() -> list[bool]:
        feed = JobFeed("0" * 32)
        waiting = [asyncio.create_task(feed.change.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        feed.notify()
        return await asyncio.gather(*waiting) + [feed.change.is_set()]

    assert asyncio.run(scenario()) == [True, True, True, False]
