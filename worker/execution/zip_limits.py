"""Limits of untrusted zip files, checked before they are opened."""

import zipfile
from typing import IO

_DIRECTORY_BYTES = 4 << 20  # some tens of thousands of members


def check_zip_directory(file: IO[bytes]) -> None:
    """Checks the size of the zip's directory: ``ZipFile`` creates an object for every member in it.

    Raises:
        ValueError: the directory exceeds the limit.
    """
    end = zipfile._EndRecData(file)  # type: ignore[attr-defined]  # noqa: SLF001 - what ZipFile itself goes by
    size = end[zipfile._ECD_SIZE] if end else 0  # type: ignore[attr-defined]  # noqa: SLF001
    if size > _DIRECTORY_BYTES:
        raise ValueError(f"its directory has {size} bytes; the limit is {_DIRECTORY_BYTES}")


def unpacked_bytes(file: IO[bytes]) -> int:
    """Returns the unpacked bytes of all members; ``zipfile`` yields no more of a member than its directory says.

    Raises:
        ValueError: it is no zip, or its directory is too large.
    """
    check_zip_directory(file)
    try:
        with zipfile.ZipFile(file) as archive:
            return sum(member.file_size for member in archive.infolist())
    except (OSError, EOFError, NotImplementedError, zipfile.BadZipFile) as error:
        raise ValueError(f"not a zip file: {error}") from error
