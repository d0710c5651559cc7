"""Recordings of hardware: streams of instructions, and the cycles that registers of a design took for them.

A folder holds ``index.json`` (a list, one object a stream, with its cycles by latency of the memory) and
``streams.npz`` (the instructions as they were sent). Where the design's controllers were watched, ``streams.npz`` has
what they got as well, and ``events_L.npz`` for each latency L when.
"""

import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from accel.errors import CyclopsError
from accel.util.arrays import Int64, Words

_EVENTS = re.compile(r"events_(\d+)\.npz")


class RecordingError(CyclopsError):
    """A folder that is not a recording; ``field`` is the file, and what is wrong in it."""


@dataclass(frozen=True)
class Recording:
    """One stream of n instructions, which the design made m primitive ones of.

    Attributes:
        name: ``kind/rest``.
        kind: what the stream is about.
        spacing: least cycles from one instruction that is accepted to the next that is offered.
        in_flight: requests that the memory takes before it has answered.
        page_walk_latency: cycles that a page walk takes; None: addresses are not translated.
        tokens: those that it finds in queues, by name.
        words: (n, 64-bit words of an instruction) as the processor sent them.
        primitives: (m, 3) as the controllers got them: loads, then products, then stores, each in their order.
        cycles: by latency: from the cycle that accepts the first instruction to the first in which all is done.
        times: by latency: (m, 3) cycles in which each primitive one entered the station, was handed to its controller,
            and was complete (-1: with being handed over); empty where the controllers were not watched.
        accepted: by latency: (n,) cycles in which each instruction was accepted; empty likewise.
    """

    name: str
    kind: str
    spacing: int
    in_flight: int
    page_walk_latency: int | None
    tokens: Mapping[str, int]
    words: Words
    primitives: Words
    cycles: Mapping[int, int]
    times: Mapping[int, Int64]
    accepted: Mapping[int, Int64]


@dataclass(frozen=True)
class Recordings:
    """What a folder holds: its streams in order, and the latencies of the memory that each was run with."""

    streams: tuple[Recording, ...]
    latencies: tuple[int, ...]


def read_recordings(folder: Path) -> Recordings:
    """Read a folder of recordings.

    Raises:
        RecordingError: a file is missing, or does not hold what it must.
    """
    if not folder.is_dir():
        raise RecordingError(f"{folder} is no folder", field="folder")
    index = _read_index(folder / "index.json")
    latencies = _latencies(index)
    streams = _read_arrays(folder / "streams.npz", ("words", "first"))
    first = streams["first"]
    _check_bounds("first", first, len(index), len(streams["words"]))
    watched = _read_events(folder, index, latencies, len(streams["words"]))
    recorded = []
    for number, entry in enumerate(index):
        sent = slice(int(first[number]), int(first[number + 1]))
        primitives, times, accepted = watched.of(number, sent)
        recorded.append(
            Recording(
                name=_string(entry, "name", number),
                kind=_string(entry, "kind", number),
                spacing=_count(entry, "spacing", number, 1),
                in_flight=_count(entry, "in_flight", number, 1 << 20),
                page_walk_latency=_count(entry, "ptw_latency", number, 0) if "ptw_latency" in entry else None,
                tokens=_tokens(entry, number),
                words=streams["words"][sent],
                primitives=primitives,
                cycles={latency: _cycles(entry, latency, number) for latency in latencies},
                times=times,
                accepted=accepted,
            )
        )
    return Recordings(tuple(recorded), tuple(latencies))


@dataclass(frozen=True)
class _Watched:
    """What controllers got, and when, of all streams; ``events`` are empty where nobody watched."""

    words: Words
    first: Int64
    events: Mapping[int, Mapping[str, Any]]

    def of(self, number: int, sent: slice) -> tuple[Words, dict[int, Int64], dict[int, Int64]]:
        """Returns a stream's primitive instructions, their times, and when its ``sent`` ones were accepted."""
        made = slice(int(self.first[number]), int(self.first[number + 1]))
        times = {latency: arrays["times"][made].astype(np.int64) for latency, arrays in self.events.items()}
        accepted = {latency: arrays["accepted"][sent].astype(np.int64) for latency, arrays in self.events.items()}
        return self.words[made], times, accepted


def _read_events(folder: Path, index: list[dict[str, Any]], latencies: list[int], sent: int) -> _Watched:
    there = {int(found[1]) for path in folder.iterdir() if (found := _EVENTS.fullmatch(path.name))}
    if not there:
        return _Watched(np.zeros((0, 3), np.uint64), np.zeros(len(index) + 1, np.int64), {})
    for latency in latencies:
        if latency not in there:
            name = f"events_{latency}.npz"
            raise RecordingError(f"there is no {name}, and there is one of another latency", field=name)
    streams = _read_arrays(folder / "streams.npz", ("primitive_words", "primitive_first"))
    made = len(streams["primitive_words"])
    _check_bounds("primitive_first", streams["primitive_first"], len(index), made)
    events = {latency: _read_arrays(folder / f"events_{latency}.npz", ("times", "accepted")) for latency in latencies}
    for latency, arrays in events.items():
        _check_shape(f"events_{latency}.npz: times", arrays["times"], (made, 3))
        _check_shape(f"events_{latency}.npz: accepted", arrays["accepted"], (sent,))
    return _Watched(streams["primitive_words"], streams["primitive_first"], events)


def _latencies(index: list[dict[str, Any]]) -> list[int]:
    """The latencies for which the first stream has cycles; all others must have the same."""
    cycles = index[0].get("cycles") if index else None
    if not isinstance(cycles, dict) or not cycles or not all(str(key).isdecimal() for key in cycles):
        raise RecordingError("index.json: there are no cycles by latency of stream 0", field="index.0.cycles")
    return sorted(map(int, cycles))


def _tokens(entry: dict[str, Any], number: int) -> dict[str, int]:
    tokens = entry.get("initial_tokens", {})
    if not isinstance(tokens, dict) or not all(isinstance(count, int) and count >= 0 for count in tokens.values()):
        message = f"index.json: initial_tokens of stream {number} must be counts by queue"
        raise RecordingError(message, field=f"index.{number}.initial_tokens")
    return tokens


def _read_index(path: Path) -> list[dict[str, Any]]:
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordingError(f"{path.name}: {error}", field=path.name) from error
    if not isinstance(index, list) or not all(isinstance(entry, dict) for entry in index):
        raise RecordingError(f"{path.name}: it must be a list of objects, one a stream", field=path.name)
    return index


def _read_arrays(path: Path, names: tuple[str, ...]) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            missing = [name for name in names if name not in arrays]
            if missing:
                raise RecordingError(f"{path.name}: there is no array {', '.join(missing)}", field=path.name)
            found = {name: arrays[name] for name in names}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise RecordingError(f"{path.name}: {error}", field=path.name) from error
    for name, array in found.items():
        if not np.issubdtype(array.dtype, np.integer):
            raise RecordingError(f"{path.name}: {name} must be integers; it is {array.dtype}", field=path.name)
    return found


def _check_bounds(name: str, first: Int64, streams: int, count: int) -> None:
    fine = first.shape == (streams + 1,) and first[0] == 0 and first[-1] == count and bool((np.diff(first) >= 0).all())
    if not fine:
        message = f"streams.npz: {name} must cut {count} instructions into the {streams} streams of the index"
        raise RecordingError(message, field="streams.npz")


def _check_shape(name: str, array: Any, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise RecordingError(f"{name} is {array.shape}; it must be {shape}", field=name.split(":", maxsplit=1)[0])


def _string(entry: dict[str, Any], key: str, number: int) -> str:
    value = entry.get(key)
    if not isinstance(value, str):
        raise RecordingError(f"index.json: {key} of stream {number} must be a string", field=f"index.{number}.{key}")
    return value


def _count(entry: dict[str, Any], key: str, number: int, default: int) -> int:
    value = entry.get(key, default)
    if not isinstance(value, int) or value < 0:
        raise RecordingError(f"index.json: {key} of stream {number} is no count", field=f"index.{number}.{key}")
    return value


def _cycles(entry: dict[str, Any], latency: int, number: int) -> int:
    cycles = entry.get("cycles")
    value = cycles.get(str(latency)) if isinstance(cycles, dict) else None
    if not isinstance(value, int):
        message = f"index.json: there are no cycles of stream {number} at latency {latency}"
        raise RecordingError(message, field=f"index.{number}.cycles")
    return value
