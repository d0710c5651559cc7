"""The trace as a file: an npz archive whose rows are records of one size, so that any page is one read.

``rows.npy`` is an array of records, a field a column that is not the same in all rows; ``spans.npy`` and
``tokens.npy`` are the index; ``names.json`` has the rest. Nothing is compressed.
"""

import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
import pydantic
from numpy.lib import format as npy
from pydantic import ConfigDict, Field

from accel.errors import CyclopsError
from accel.trace.byte_ranges import Ranges, RangesFile
from accel.trace.trace_names import FIXED, TraceNames
from accel.trace.trace_rows import (
    STRETCH,
    Index,
    IndexBuilder,
    Limits,
    Packs,
    Rows,
    RowSource,
    awaited_by,
    limits_of,
    merged_limits,
    row_stretches,
    stretches,
)
from accel.util.arrays import Int64
from accel.util.whole_files import whole_file

Type = Literal["int8", "int16", "int32", "int64"]
_TYPES: tuple[Type, ...] = ("int8", "int16", "int32", "int64")
_LENGTHS = 26  # where a member's header has the lengths of its name and of what else follows, two bytes each
# what a damaged archive or document raises
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    ValueError,
    KeyError,
    EOFError,
    NotImplementedError,
    RuntimeError,
)


class Head(pydantic.BaseModel):
    """``names.json``: what the columns mean, and how the ``count`` rows are stored.

    ``record`` gives the types of the columns that the records have, in their order; ``constants`` the values of the
    others, which are the same in all rows.
    """

    model_config = ConfigDict(extra="forbid")

    names: TraceNames
    count: Annotated[int, Field(ge=0)]
    record: dict[str, Type]
    constants: dict[str, Annotated[int, Field(ge=-(2**63), lt=2**63)]]

    @pydantic.model_validator(mode="after")
    def _is_complete(self) -> Self:
        if sorted([*self.record, *self.constants]) != sorted(self.names.columns):
            raise ValueError("the columns are not those that the names ask for")
        return self

    @property
    def dtype(self) -> np.dtype[Any]:
        """A record."""
        return np.dtype([(name, np.dtype(kind).newbyteorder("<")) for name, kind in self.record.items()])


def save(source: RowSource, path: Path) -> None:
    """Writes all rows of ``source`` to ``path``."""
    head, index = _head(source), IndexBuilder(source.names)
    with whole_file(path) as unfinished, zipfile.ZipFile(unfinished, "w") as archive:
        with _member(archive, "rows.npy") as file:
            shape = {"descr": head.dtype.descr, "fortran_order": False, "shape": (len(source),)}
            npy.write_array_header_2_0(file, shape)
            for begin, end in stretches(source):
                index.add(_written(source.runs(begin, end), head.dtype, file))
        made = index.index()
        for name, array in (("spans.npy", made.spans), ("tokens.npy", made.tokens)):
            with _member(archive, name) as file:
                npy.write_array(file, array.astype("<i8"), allow_pickle=False)
        archive.writestr(zipfile.ZipInfo("names.json"), head.model_dump_json())


def _head(source: RowSource) -> Head:
    limits = source.limits()
    constants = {name: low for name, (low, high) in limits.items() if name not in FIXED and low == high}
    record = {name: _narrow(*limits[name]) for name in source.names.columns if name not in constants}
    return Head(names=source.names, count=len(source), record=record, constants=constants)


def _narrow(low: int, high: int) -> Type:
    return next(kind for kind in _TYPES if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)


def _written(runs: Iterable[Rows], record: np.dtype[Any], file: IO[bytes]) -> Iterator[Rows]:
    """Yields the runs again, each when it is written."""
    for rows in runs:
        file.write(_records(rows, record).data)
        yield rows


def _records(rows: Rows, record: np.dtype[Any]) -> npt.NDArray[np.void]:
    records = np.zeros(len(rows), record)
    packed = rows.columns.pack(records) if isinstance(rows.columns, Packs) else ()
    for name in record.names or ():
        if name not in packed:
            records[name] = rows[name]
    return records


def _member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    return archive.open(zipfile.ZipInfo(name), "w", force_zip64=True)


class _File:
    """The rows of a file, which begin at byte ``at``."""

    def __init__(self, ranges: Ranges, head: Head, at: int) -> None:
        self.names = head.names
        self._ranges = ranges
        self._head = head
        self._record = head.dtype
        self._at = at

    def __len__(self) -> int:
        return self._head.count

    def read(self, begin: int, end: int) -> Rows:
        """Returns rows ``[begin, end)``.

        Raises:
            CyclopsError: they refer to undefined names, or the file is gone.
        """
        size = self._record.itemsize
        data = self._ranges.read(self._at + begin * size, self._at + end * size)
        if len(data) < (end - begin) * size:
            raise _damaged(f"it ends within the rows from {begin} on")
        records = np.frombuffer(data, self._record, end - begin)
        constants = self._head.constants
        columns = {
            name: np.broadcast_to(np.int64(constants[name]), end - begin) if name in constants else records[name]
            for name in self.names.columns
        }
        rows = Rows.run(self.names, begin, columns)
        _check(rows, "launch", 0, len(self.names.launches))
        _check(rows, "kind", 0, len(self.names.operations))
        _check(rows, "origin", -1, len(self.names.origins))
        for cause in self.names.causes_awaited:
            awaited = awaited_by(rows, cause)[1]
            if len(awaited) and not (int(awaited.min()) >= 0 and int(awaited.max()) < len(self)):
                raise _damaged(f"rows from {begin} on waited by {cause} for an instruction that is not there")
        return rows

    def runs(self, begin: int, end: int) -> Iterator[Rows]:
        """Yields the rows as :meth:`read` returns them."""
        yield self.read(begin, end)

    def limits(self) -> Limits:
        """Returns the least and the greatest value of each column, of which each call reads all rows."""
        return merged_limits(self.names, (limits_of(rows.columns) for rows in row_stretches(self)))

    def index(self) -> Index:
        """Returns the index that was written beside the rows.

        Raises:
            CyclopsError: it is damaged.
        """
        count, queues = -(-len(self) // STRETCH), len(self.names.queues)
        with _reading(self._ranges) as archive:
            return Index(_array(archive, "spans.npy", (count, 2)), _array(archive, "tokens.npy", (count, 2, queues)))


def _array(archive: zipfile.ZipFile, name: str, shape: tuple[int, ...]) -> Int64:
    """The numbers at the end of an array's file."""
    count = int(np.prod(shape))
    data = archive.read(name)
    if len(data) < 8 * count:
        raise ValueError(f"{name} has another shape")
    return np.frombuffer(data[len(data) - 8 * count :], "<i8").astype(np.int64).reshape(shape)


def _check(rows: Rows, name: str, low: int, end: int) -> None:
    column = rows[name]
    if len(column) and not (low <= int(column.min()) and int(column.max()) < end):
        raise _damaged(f"rows from {rows.index[0]} on have a {name} that is not between {low} and {end - 1}")


def open_file(ranges: Ranges) -> RowSource:
    """Returns the rows of a file that :func:`save` wrote.

    Raises:
        CyclopsError: it is damaged, or of another version.
    """
    with _reading(ranges) as archive:
        head = Head.model_validate_json(archive.read("names.json"))
        rows = archive.getinfo("rows.npy")
        before = rows.file_size - head.count * head.dtype.itemsize  # the array's own header
        if before < 0 or rows.compress_type != zipfile.ZIP_STORED:
            raise ValueError("its rows are not all there, or are compressed")
        lengths = ranges.read(rows.header_offset + _LENGTHS, rows.header_offset + _LENGTHS + 4)
        at = rows.header_offset + _LENGTHS + 4 + sum(struct.unpack("<HH", lengths)) + before
    return _File(ranges, head, at)


@contextmanager
def _reading(ranges: Ranges) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(RangesFile(ranges)) as archive:
            yield archive
    except _DAMAGE as error:
        raise _damaged(str(error)) from error


def _damaged(reason: str) -> CyclopsError:
    return CyclopsError(f"the trace cannot be read: {reason}", field="trace")
