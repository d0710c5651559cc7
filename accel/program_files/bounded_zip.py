"""Reading of untrusted zips: bounded, and with every fault as an InvalidProgram."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from accel.errors import InvalidProgram, ProgramTooLarge

_MOST_ENTRIES = 1 << 17
_MOST_BYTES = 1 << 32
_MOST_INFLATED_BYTES = 1 << 29  # what comes of compressed parts, of which a small file can hold very much
_ENCRYPTED = 1


class ZipParts:
    """The parts of a zip by name. ``folder`` is a prefix that all their names have."""

    def __init__(self, archive: zipfile.ZipFile, folder: str = "") -> None:
        self._archive = archive
        self._folder = folder
        self._left = _MOST_BYTES
        self._left_inflated = _MOST_INFLATED_BYTES

    def within(self, folder: str) -> "ZipParts":
        """Returns the parts of a folder, with a new count of the bytes read."""
        return ZipParts(self._archive, folder)

    def names(self) -> list[str]:
        """Returns the names of all entries."""
        return self._archive.namelist()

    def is_stored(self, name: str) -> bool:
        """Returns whether the part is stored without compression, so that it can be read in place at an offset."""
        return self._info(name).compress_type == zipfile.ZIP_STORED

    def read(self, name: str, most: int = _MOST_BYTES) -> bytes:
        """Returns the bytes of a part.

        Raises:
            InvalidProgram: there is none, it is damaged, it has more than ``most`` bytes, or all parts read so far are
                more than the limit.
        """
        info = self._info(name)
        if info.flag_bits & _ENCRYPTED:
            raise InvalidProgram(f"{name} is encrypted", field=name)
        stored = info.compress_type == zipfile.ZIP_STORED
        most = min(most, self._left if stored else min(self._left, self._left_inflated))
        try:
            with self._archive.open(info) as entry:
                data = entry.read(most + 1)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
            raise InvalidProgram(f"{name} cannot be read from the zip: {error}", field=name) from error
        if len(data) > most:
            raise ProgramTooLarge(f"{name} has more than {most} bytes, which is what is left of the limit", field=name)
        self._left -= len(data)
        self._left_inflated -= 0 if stored else len(data)
        return data

    def _info(self, name: str) -> zipfile.ZipInfo:
        try:
            return self._archive.getinfo(self._folder + name)
        except KeyError as error:
            raise InvalidProgram(f"the part {name} is missing", field=name) from error


@contextmanager
def open_zip(file: Path | BinaryIO) -> Iterator[ZipParts]:
    """Returns the parts of a zip.

    Raises:
        InvalidProgram: it is not a zip, or has too many entries.
        OSError: the file cannot be opened.
    """
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, UnicodeDecodeError, ValueError) as error:
        raise InvalidProgram(f"it is no zip, and a program is a zip or a directory: {error}") from error
    with archive:
        if len(archive.infolist()) > _MOST_ENTRIES:
            raise ProgramTooLarge(f"the zip has {len(archive.infolist())} entries; the limit is {_MOST_ENTRIES}")
        yield ZipParts(archive)
