"""The trace as a file: an npz archive whose rows are records of one size, so that any page is one read.

``rows.npy`` is an array of records, a field a column that is not the same in all rows; ``spans.npy`` and
``tokens.npy`` are the index; ``names.json`` has the rest. Nothing is compressed.
"""

import io
import json
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from accel.errors import CyclopsError
from accel.trace.names import FIXED, Names
from accel.trace.ranges import Ranges, RangesFile
from accel.trace.rows import Rows
from accel.trace.source import STRETCH, Index, Source, stretches

_HEADER = 1 << 16  # most bytes of the description of the records
_TYPES = (np.int8, np.int16, np.int32, np.int64)
# what a damaged archive, array or document raises
_DAMAGE = (zipfile.BadZipFile, ValueError, KeyError, EOFError, SyntaxError, TypeError, NotImplementedError)


def save(source: Source, path: Path) -> None:
    """Write all rows."""
    limits = _limits(source)
    stored = {name: (low, high) for name, (low, high) in limits.items() if name in FIXED or low != high}
    constants = {name: low for name, (low, _) in limits.items() if name not in stored}
    record = np.dtype([(name, _narrow(*stored[name])) for name in stored])
    index = source.index()
    with zipfile.ZipFile(path, "w") as archive:
        with _member(archive, "rows.npy") as file:
            npy.write_array_header_2_0(file, {"descr": record.descr, "fortran_order": False, "shape": (len(source),)})
            for rows in stretches(source):
                file.write(_records(rows, record).tobytes())
        for name, array in (("spans.npy", index.spans), ("tokens.npy", index.tokens)):
            with _member(archive, name) as file:
                npy.write_array(file, array, allow_pickle=False)
        names = {"names": source.names.model_dump(mode="json"), "constants": constants}
        archive.writestr(zipfile.ZipInfo("names.json"), json.dumps(names))


def _member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    return archive.open(zipfile.ZipInfo(name), "w", force_zip64=True)


def _limits(source: Source) -> dict[str, tuple[int, int]]:
    """The lowest and the highest value of each column; 0 and 0 of none."""
    limits: dict[str, tuple[int, int]] = {}
    for rows in stretches(source):
        for name, column in rows.columns.items():
            low, high = int(column.min()), int(column.max())
            before = limits.get(name, (low, high))
            limits[name] = (min(before[0], low), max(before[1], high))
    return {name: limits.get(name, (0, 0)) for name in source.names.columns}


def _narrow(low: int, high: int) -> type[np.signedinteger[Any]]:
    return next(kind for kind in _TYPES if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)


def _records(rows: Rows, record: np.dtype[Any]) -> npt.NDArray[np.void]:
    records = np.empty(len(rows), record)
    for name in record.names or ():
        records[name] = rows[name]
    return records


class _File:
    """The rows of a file."""

    def __init__(self, ranges: Ranges, names: Names, constants: dict[str, int], place: "_Place") -> None:
        self.names = names
        self._ranges = ranges
        self._constants = constants
        self._place = place

    def __len__(self) -> int:
        return self._place.count

    def read(self, begin: int, end: int) -> Rows:
        """Rows ``[begin, end)``.

        Raises:
            CyclopsError: they refer to names that there are not.
        """
        at, record = self._place.at, self._place.record
        data = self._ranges.read(at + begin * record.itemsize, at + end * record.itemsize)
        records = np.frombuffer(data, record, end - begin)
        columns = {
            name: np.broadcast_to(np.int64(self._constants[name]), end - begin)
            if name in self._constants
            else records[name]
            for name in self.names.columns
        }
        rows = Rows.run(self.names, begin, columns)
        _check(rows, "launch", 0, len(self.names.launches))
        _check(rows, "kind", 0, len(self.names.operations))
        _check(rows, "origin", -1, len(self.names.origins))
        return rows

    def index(self) -> Index:
        """What was written beside the rows.

        Raises:
            CyclopsError: it is damaged.
        """
        with _reading(self._ranges) as archive:
            spans, tokens = (_array(archive, name) for name in ("spans.npy", "tokens.npy"))
        count = -(-len(self) // STRETCH)
        if spans.shape != (count, 2) or tokens.shape != (count, 2, len(self.names.queues)):
            raise _damaged("the index has another number of stretches or queues")
        return Index(spans, tokens)


@dataclass(frozen=True)
class _Place:
    """Where the rows lie: ``count`` records from byte ``at``."""

    at: int
    count: int
    record: np.dtype[Any]


def _check(rows: Rows, name: str, low: int, end: int) -> None:
    column = rows[name]
    if len(column) and not (low <= int(column.min()) and int(column.max()) < end):
        raise _damaged(f"rows from {rows.index[0]} on have a {name} that is not between {low} and {end - 1}")


def open_file(ranges: Ranges) -> Source:
    """The rows of a file that :func:`save` wrote.

    Raises:
        CyclopsError: it is damaged, or of another version.
    """
    with _reading(ranges) as archive:
        found = json.loads(archive.read("names.json"))
        names = Names.model_validate(found["names"])
        constants = {name: int(found["constants"][name]) for name in found["constants"]}
        place = _place(ranges, archive)
        stored = set(place.record.names or ())
        if stored & constants.keys() or stored | constants.keys() != set(names.columns):
            raise ValueError("the columns are not those that its names ask for")
    return _File(ranges, names, constants, place)


def _place(ranges: Ranges, archive: zipfile.ZipFile) -> _Place:
    info = archive.getinfo("rows.npy")
    with archive.open(info) as file:
        if npy.read_magic(file) != (2, 0) or info.compress_type != zipfile.ZIP_STORED:
            raise ValueError("its rows are stored in another way")
        shape, _, record = npy.read_array_header_2_0(file, max_header_size=_HEADER)
        header = file.tell()
    if len(shape) != 1 or header + shape[0] * record.itemsize != info.file_size:
        raise ValueError("its rows are not all there")
    if any(record[name].kind != "i" for name in record.names or ()):
        raise ValueError("a column is not of whole numbers")
    # a local header: 26 bytes, the lengths of name and extra field, both
    lengths = ranges.read(info.header_offset + 26, info.header_offset + 30)
    at = info.header_offset + 30 + sum(struct.unpack("<HH", lengths)) + header
    return _Place(at, shape[0], record)


def _array(archive: zipfile.ZipFile, name: str) -> npt.NDArray[np.int64]:
    array = npy.read_array(io.BytesIO(archive.read(name)), allow_pickle=False)
    return np.asarray(array, np.int64)


@contextmanager
def _reading(ranges: Ranges) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(RangesFile(ranges)) as archive:
            yield archive
    except _DAMAGE as error:
        raise _damaged(str(error)) from error


def _damaged(reason: str) -> CyclopsError:
    return CyclopsError(f"the trace cannot be read: {reason}", field="trace")
