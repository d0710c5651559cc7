"""Small objects of a store in a folder, without obstore's thread for each file, which takes several times as long.

An object is written beside its place, under a name of which the backend lists nothing, and then put there at once.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path


def read(path: Path) -> bytes:
    """Returns the bytes of an object; FileNotFoundError if there is none, and where there is a folder."""
    try:
        return path.read_bytes()
    except IsADirectoryError as error:
        raise FileNotFoundError(error.errno, error.strerror, error.filename) from error


def size(path: Path) -> int:
    """Returns the size of an object in bytes; FileNotFoundError if there is none, and where there is a folder."""
    return _status(path).st_size


def written(path: Path) -> datetime:
    """Returns when an object was written; FileNotFoundError if there is none, and where there is a folder."""
    return datetime.fromtimestamp(_status(path).st_mtime, UTC)


def _status(path: Path) -> os.stat_result:
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise FileNotFoundError(path)
    return status


def write(path: Path, data: bytes) -> None:
    """Writes or replaces an object; FileNotFoundError if its folder was removed meanwhile."""
    with _beside(path) as staged:
        staged.write_bytes(data)
        staged.replace(path)


def create(path: Path, data: bytes) -> None:
    """Writes a new object; FileExistsError if there is one, FileNotFoundError if its folder was removed meanwhile."""
    with _beside(path) as staged:
        staged.write_bytes(data)
        os.link(staged, path)


def link(file: Path, path: Path) -> None:
    """Makes a file an object by a hard link, replacing any other; it becomes readable for readers of the store.

    Raises:
        OSError: the file is on another disk, or on one where a file has one name; or as :func:`write`.
    """
    with _beside(path) as staged:
        file.chmod(0o644)
        os.link(file, staged)
        staged.replace(path)


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside ``path``, whose folder is made if need be; it is removed afterwards."""
    staged = path.with_name(f"{path.name}#{secrets.randbits(63)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:  # it was there when it was to be made, and gone when it was looked at
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent)) from None
    try:
        yield staged
    finally:
        # after a link it is there still, and so it is where a file took the place of itself
        staged.unlink(missing_ok=True)


def names(path: Path) -> list[str]:
    """Returns the names of the folders in ``path``, in any order; none if it does not exist."""
    try:
        with os.scandir(path) as found:
            return [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
