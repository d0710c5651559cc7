"""The file: what comes back, how little of it is read, and what is refused."""

import contextlib
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.errors import CyclopsError
from accel.trace.byte_ranges import Ranges
from accel.trace.perfetto.trace_window import TraceWindow
from accel.trace.program_trace import Trace
from tests.helpers.marking import share
from tests.helpers.programs.traces import Held, pipeline_trace, random_trace

WINDOWS = [TraceWindow(), TraceWindow(100), TraceWindow(1000, 5_000, 9_000)]


def forms(trace: Trace) -> list[bytes]:
    pieces = [trace.csv(), trace.text(), *(trace.perfetto(window) for window in WINDOWS)]
    return [json.dumps(trace.page(0, len(trace))).encode(), *map(b"".join, pieces)]


@pytest.mark.slow
@settings(max_examples=share(20), deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 200))
def test_what_is_saved_comes_back(tmp_path_factory: pytest.TempPathFactory, seed: int, count: int) -> None:
    held = random_trace(seed, count)
    directory = tmp_path_factory.mktemp("trace")
    Trace(held).save(directory)
    loaded = Trace.load(directory)
    assert loaded.names == held.names
    assert len(loaded) == count
    assert forms(loaded) == forms(Trace(held))


def test_stretches_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = random_trace(1, 1000)
    whole = forms(Trace(held))
    for module in ("trace_rows", "trace_file", "perfetto.trace_window", "perfetto.merged_slices"):
        monkeypatch.setattr(f"accel.trace.{module}.STRETCH", 64)
    Trace(held).save(tmp_path)
    assert forms(Trace.load(tmp_path)) == whole


def test_pages_of_a_file(tmp_path: Path) -> None:
    held = random_trace(2, 3000)
    Trace(held).save(tmp_path)
    loaded, records = Trace.load(tmp_path), Trace(held).page(0, 3000)
    for offset, limit in ((0, 1), (1234, 1000), (2999, 5), (3000, 5), (10**12, 5), (-3, 5)):
        assert loaded.page(offset, limit) == records[max(offset, 0) : max(offset + limit, 0)]


def test_numpy_reads_the_file(tmp_path: Path) -> None:
    held = random_trace(3, 500)
    Trace(held).save(tmp_path)
    with np.load(tmp_path / "trace.npz", allow_pickle=False) as data:
        rows, names = data["rows"], json.loads(data["names.json"])
    np.testing.assert_array_equal(rows["end"], held.columns["end"])
    np.testing.assert_array_equal(rows["wait/fetch"], held.columns["wait/fetch"])
    assert rows.dtype["kind"] == np.int8
    assert names["names"]["launches"][0]["name"] == "conv,1"


def test_a_column_of_one_value_takes_no_room(tmp_path: Path) -> None:
    held = random_trace(4, 500)
    same = held.columns | {"field/base": np.full(500, 7), "field/imm": np.zeros(500, np.int64)}
    Trace(Held(held.names, same)).save(tmp_path)
    with np.load(tmp_path / "trace.npz") as data:
        assert {"field/base", "field/imm"} & set(data["rows"].dtype.names) == set()
    assert forms(Trace.load(tmp_path)) == forms(Trace(Held(held.names, same)))


class Away:
    """A file in a store that counts what it is asked for."""

    def __init__(self, path: Path) -> None:
        self._data = path.read_bytes()
        self.requests = self.bytes = 0

    def read(self, begin: int, end: int) -> bytes:
        self.requests += 1
        self.bytes += end - begin
        return self._data[begin:end]

    def trace(self) -> Trace:
        return Trace.open(Ranges(self.read, len(self._data)))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some megabytes: a short trace, over and over."""
    short, times = pipeline_trace(5, 2000), 100
    columns = {name: np.tile(column, times) for name, column in short.columns.items()}
    later = np.repeat(np.arange(times), 2000) * short.names.cycles
    columns |= {name: columns[name] + later for name in ("start", "end")}
    launch = short.names.launches[0].model_copy(update={"end": short.names.cycles * times})
    directory = tmp_path_factory.mktemp("large")
    Trace(Held(short.names.model_copy(update={"launches": (launch,)}), columns)).save(directory)
    return directory / "trace.npz"


def test_a_cold_page_reads_little_of_a_large_file(large: Path) -> None:
    away = Away(large)
    away.trace().page(123_456, 100)
    assert away.requests <= 4
    assert away.bytes <= 4 << 16 < large.stat().st_size / 20


def test_the_next_page_is_held_already(large: Path) -> None:
    away = Away(large)
    trace = away.trace()
    trace.page(50_000, 100)
    before = away.requests
    trace.page(50_100, 100)
    assert away.requests <= before + 1


def test_a_window_reads_what_it_shows(large: Path) -> None:
    away = Away(large)
    trace = away.trace()
    middle = trace.names.cycles // 2
    assert b'"instruction"' in b"".join(trace.perfetto(TraceWindow(begin=middle, end=middle + 2000)))
    assert away.bytes < large.stat().st_size / 2  # one stretch of seven, twice


def rewritten(path: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    """The archive with one part changed, and whole as an archive."""
    with zipfile.ZipFile(path) as archive:
        parts = {item: archive.read(item) for item in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for item, data in parts.items():
            if (new := change(data) if item == name else data) is not None:
                archive.writestr(item, new)


def with_names(**changes: object) -> Callable[[bytes], bytes]:
    return lambda data: json.dumps((found := json.loads(data)) | {"names": found["names"] | changes}).encode()


FETCH = (b'"causes_awaited":[', b'"causes_awaited":["fetch",')  # the first rows waited for something before them


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("names.json", lambda _: None),
        ("rows.npy", lambda _: None),
        ("names.json", lambda _: b"[]"),
        ("names.json", lambda data: data[:-5]),
        ("names.json", lambda _: b"[" * 100_000),
        ("names.json", with_names(version=1)),
        ("names.json", with_names(colour="red")),
        ("names.json", with_names(fields=["take"])),
        ("names.json", with_names(launches=[])),
        ("names.json", with_names(operations=[])),
        ("rows.npy", lambda data: data[:500]),
        ("rows.npy", lambda data: data[:20]),
        ("names.json", with_names(causes_awaited=["fetch"])),
        ("names.json", lambda data: data.replace(b'"constants":{', b'"constants":{"awaited/fetch":7,').replace(*FETCH)),
        ("spans.npy", lambda _: None),
        ("spans.npy", lambda data: data[:8]),
        ("tokens.npy", lambda data: data[:24]),
    ],
)
def test_damage_is_named(tmp_path: Path, part: str, change: Callable[[bytes], bytes]) -> None:
    Trace(random_trace(6, 100)).save(tmp_path)
    rewritten(tmp_path / "trace.npz", part, change)
    with pytest.raises(CyclopsError, match="the trace cannot be read") as caught:
        forms(Trace.load(tmp_path))
    assert caught.value.field == "trace"


def test_a_file_of_the_version_before_opens(tmp_path: Path) -> None:
    """Catches a reader that asks an older file for whom its instructions waited."""
    held = random_trace(6, 100)
    names = held.names.model_copy(update={"version": 2, "causes_awaited": ()})
    before = Held(names, {name: held.columns[name] for name in names.columns})
    Trace(before).save(tmp_path)
    rewritten(tmp_path / "trace.npz", "names.json", lambda data: data.replace(b'"causes_awaited":[],', b""))
    opened = Trace.load(tmp_path)
    assert forms(opened) == forms(Trace(before))
    assert [wait for record in opened.page(0, 100) for wait in record["waited_for"] if "instruction" in wait] == []
    assert {each["kind"] for index in range(100) for each in opened.timeline().dependences(index)} == {"token"}


def test_an_archive_packed_anew_is_read_if_it_is_not_compressed(tmp_path: Path) -> None:
    held = random_trace(7, 100)
    Trace(held).save(tmp_path)
    rewritten(tmp_path / "trace.npz", "none", lambda data: data)
    assert forms(Trace.load(tmp_path)) == forms(Trace(held))


@pytest.mark.slow
@settings(max_examples=share(150), deadline=None)
@given(st.data())
def test_any_damage_is_refused_or_does_no_harm(damaged: tuple[Path, bytes], data: st.DataObject) -> None:
    directory, whole = damaged
    changed = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(whole)) | st.just(len(whole)))
    (directory / "trace.npz").write_bytes(changed[:end])
    with contextlib.suppress(CyclopsError):
        forms(Trace.load(directory))


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    directory = tmp_path_factory.mktemp("damaged")
    Trace(random_trace(8, 12)).save(directory)
    return directory, (directory / "trace.npz").read_bytes()


def test_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        Trace.load(tmp_path)
    shutil.rmtree(tmp_path)
    with pytest.raises(OSError, match="No such file"):
        Trace.load(tmp_path)
