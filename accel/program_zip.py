"""Reading zips that strangers made: bounded, and every fault an InvalidProgram."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from accel.errors import InvalidProgram

_MOST_ENTRIES = 1 << 17
_MOST_BYTES = 1 << 32
_ENCRYPTED = 1


class ZipParts:
    """The parts of a zip by name. ``folder`` is what stands before the names of all of them."""

    def __init__(self, archive: zipfile.ZipFile, folder: str = "") -> None:
        self._archive = archive
        self._folder = folder
        self._left = _MOST_BYTES

    def within(self, folder: str) -> "ZipParts":
        """The parts of a folder, which count to the same limit only if nothing was read before."""
        return ZipParts(self._archive, folder)

    def names(self) -> list[str]:
        """The names of all entries."""
        return self._archive.namelist()

    def is_stored(self, name: str) -> bool:
        """Whether the part is not compressed, so that others can read it at an offset."""
        return self._info(name).compress_type == zipfile.ZIP_STORED

    def read(self, name: str) -> bytes:
        """The bytes of a part.

        Raises:
            InvalidProgram: there is none, it is damaged, or there is more than the limit.
        """
        info = self._info(name)
        if info.flag_bits & _ENCRYPTED:
            raise InvalidProgram(f"{name} is encrypted", field=name)
        try:
            with self._archive.open(info) as entry:
                data = entry.read(self._left + 1)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
            raise InvalidProgram(f"{name} cannot be read from the zip: {error}", field=name) from error
        self._left -= len(data)
        if self._left < 0:
            raise InvalidProgram(f"the parts have more than {_MOST_BYTES} bytes", field=name)
        return data

    def _info(self, name: str) -> zipfile.ZipInfo:
        try:
            return self._archive.getinfo(self._folder + name)
        except KeyError as error:
            raise InvalidProgram(f"the part {name} is missing", field=name) from error


@contextmanager
def open_zip(file: Path | BinaryIO) -> Iterator[ZipParts]:
    """The parts of a zip.

    Raises:
        InvalidProgram: it is none, or has too many entries.
        OSError: the file cannot be opened.
    """
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, UnicodeDecodeError, ValueError) as error:
        raise InvalidProgram(f"not a zip: {error}") from error
    with archive:
        if len(archive.infolist()) > _MOST_ENTRIES:
            raise InvalidProgram(f"the zip has {len(archive.infolist())} entries; the limit is {_MOST_ENTRIES}")
        yield ZipParts(archive)
