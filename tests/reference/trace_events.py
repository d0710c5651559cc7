"""The Trace Event Format, as far as our documents use it: a schema, and the rules between events."""

from collections import defaultdict
from typing import Any

from jsonschema import Draft202012Validator

_TIME = {"type": "number", "minimum": 0}
_COMMON = {
    "pid": {"enum": [1, 2]},
    "tid": {"type": "integer", "minimum": 0},
    "name": {"type": "string", "minLength": 1},
}
_WORDS = {
    "cat": {"enum": ["launch", "host", "instruction", "stall", "token", "address", "modelled"]},
    "args": {"type": "object"},
}


def _event(phase: str, required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["ph", "pid", "name", *required],
        "properties": {"ph": {"const": phase}, **_COMMON, **_WORDS, **properties},
        "additionalProperties": False,
    }


_METADATA = {"enum": ["process_name", "thread_name", "thread_sort_index"]}
SCHEMA = {
    "type": "object",
    "required": ["traceEvents", "displayTimeUnit", "otherData"],
    "additionalProperties": False,
    "properties": {
        "displayTimeUnit": {"enum": ["ns", "ms"]},
        "otherData": {"type": "object", "required": ["merged", "begin", "end", "instructions", "slices"]},
        "traceEvents": {
            "type": "array",
            "items": {
                "oneOf": [
                    _event("X", ["tid", "ts", "dur", "cat"], ts=_TIME, dur=_TIME),
                    _event("M", ["args"], name=_METADATA),
                    _event("i", ["tid", "ts", "s"], ts=_TIME, s={"const": "t"}),
                    _event("C", ["ts", "args"], ts=_TIME, args={"additionalProperties": {"type": "number"}}),
                    _event("s", ["tid", "ts", "id", "cat"], ts=_TIME, id={"type": "integer"}),
                    _event("f", ["tid", "ts", "id", "cat", "bp"], ts=_TIME, id={"type": "integer"}, bp={"const": "e"}),
                ]
            },
        },
    },
}


def check(document: dict[str, Any]) -> None:
    """AssertionError where a rule is broken."""
    error = next(Draft202012Validator(SCHEMA).iter_errors(document), None)
    assert error is None, error
    events = document["traceEvents"]
    named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    assert len({tid for _, tid in named}) == len(named)  # viewers may know threads by these alone
    tracks: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["ph"] in "Xsfi":
            tracks[event["pid"], event["tid"]].append(event)
            assert (event["pid"] == 2) == (event.get("cat") == "modelled"), event
    assert tracks.keys() <= named
    for track in tracks.values():
        _check_track(track)
    _check_arrows(events)
    _check_counters(events)


def _check_track(events: list[dict[str, Any]]) -> None:
    """Times never go back; slices nest; an arrow's end lies in the slice that is written before it."""
    last, stack, before = 0.0, [], {}
    for event in events:
        assert event["ts"] >= last, event
        last = event["ts"]
        if event["ph"] == "X":
            while stack and stack[-1] <= event["ts"]:
                stack.pop()
            end = _round(event["ts"] + event["dur"])
            assert not stack or end <= stack[-1], event
            stack.append(end)
            if event["cat"] == "instruction":
                before = event
        elif event["ph"] in "sf":
            assert before["ts"] <= event["ts"] <= before["ts"] + before["dur"], event


def _check_arrows(events: list[dict[str, Any]]) -> None:
    begun = {event["id"]: event["name"] for event in events if event["ph"] == "s"}
    ended = {event["id"]: event["name"] for event in events if event["ph"] == "f"}
    assert begun == ended
    assert len(begun) + len(ended) == sum(event["ph"] in "sf" for event in events)


def _check_counters(events: list[dict[str, Any]]) -> None:
    times: dict[str, float] = {}
    for event in events:
        if event["ph"] == "C":
            assert event["ts"] > times.get(event["name"], -1), event
            times[event["name"]] = event["ts"]


def _round(time: float) -> float:
    return round(time, 3)
