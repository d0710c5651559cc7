"""A client of server-sent events."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import httpx2


class Told(NamedTuple):
    """An event as it came."""

    id: str
    kind: str
    data: Any


def events_of(lines: Iterable[str]) -> Iterator[Told]:
    """The events in the lines of an answer; comments are passed over."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "event" in fields:
            yield Told(fields["id"], fields["event"], json.loads(fields["data"]))
            fields = {}


def follow(client: httpx2.Client, location: str, last: str | None = None, most: int = 10**6) -> list[Told]:
    """What a client is told that leaves after so many events, if not at the end."""
    headers = {"Last-Event-ID": last} if last else {}
    found: list[Told] = []
    with client.stream("GET", f"{location}/events", headers=headers, timeout=60) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-accel-buffering"] == "no"
        for event in events_of(answer.iter_lines()):
            found.append(event)
            if len(found) == most:
                break
    return found
