"""Recordings of hardware: streams of instructions, and the cycles that registers of a design took for them.

A folder holds ``index.json`` (a list, one object a stream), ``streams.npz`` (the instructions as they were sent, and as
the design's controllers got them), and ``events_L.npz`` for each latency L of its memory.
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
        words: (n, 3) as the processor sent them.
        primitives: (m, 3) as the controllers got them: loads, then products, then stores, each in their order.
        cycles: by latency: from the cycle that accepts the first instruction to the first in which all is done.
        times: by latency: (m, 3) cycles in which each primitive one entered the station, was handed to its controller,
            and was complete (-1: with being handed over).
        accepted: by latency: (n,) cycles in which each instruction was accepted.
    """

    name: str
    kind: str
    spacing: int
    in_flight: int
    page_walk_latency: int | None
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
    index = _read_index(folder / "index.json")
    streams = _read_arrays(folder / "streams.npz", ("words", "first", "primitive_words", "primitive_first"))
    latencies = sorted(int(found[1]) for path in folder.iterdir() if (found := _EVENTS.fullmatch(path.name)))
    if not latencies:
        raise RecordingError("there is no events_L.npz for any latency L", field="events")
    events = {latency: _read_arrays(folder / f"events_{latency}.npz", ("times", "accepted")) for latency in latencies}
    first, primitive_first = streams["first"], streams["primitive_first"]
    _check_bounds("first", first, len(index), len(streams["words"]))
    _check_bounds("primitive_first", primitive_first, len(index), len(streams["primitive_words"]))
    for latency, arrays in events.items():
        _check_shape(f"events_{latency}.npz: times", arrays["times"], (len(streams["primitive_words"]), 3))
        _check_shape(f"events_{latency}.npz: accepted", arrays["accepted"], (len(streams["words"]),))
    recorded = []
    for number, entry in enumerate(index):
        sent = slice(int(first[number]), int(first[number + 1]))
        made = slice(int(primitive_first[number]), int(primitive_first[number + 1]))
        recorded.append(
            Recording(
                name=_string(entry, "name", number),
                kind=_string(entry, "kind", number),
                spacing=_count(entry, "spacing", number, 1),
                in_flight=_count(entry, "in_flight", number, 1 << 20),
                page_walk_latency=_count(entry, "ptw_latency", number, 0) if "ptw_latency" in entry else None,
                words=streams["words"][sent],
                primitives=streams["primitive_words"][made],
                cycles={latency: _cycles(entry, latency, number) for latency in latencies},
                times={latency: arrays["times"][made].astype(np.int64) for latency, arrays in events.items()},
                accepted={latency: arrays["accepted"][sent].astype(np.int64) for latency, arrays in events.items()},
            )
        )
    return Recordings(tuple(recorded), tuple(latencies))


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
            return {name: arrays[name] for name in names}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise RecordingError(f"{path.name}: {error}", field=path.name) from error


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
