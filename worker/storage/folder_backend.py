"""What a store in a folder does by itself: its backend asks a thread for each file, which takes several times as long.

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
    """The bytes of an object; FileNotFoundError if there is none, and where there is a folder."""
    try:
        return path.read_bytes()
    except IsADirectoryError as error:
        raise FileNotFoundError(error.errno, error.strerror, error.filename) from error


def size(path: Path) -> int:
    """Bytes of an object; FileNotFoundError if there is none, and where there is a folder."""
    return _status(path).st_size


def written(path: Path) -> datetime:
    """When an object was written; FileNotFoundError if there is none, and where there is a folder."""
    return datetime.fromtimestamp(_status(path).st_mtime, UTC)


def _status(path: Path) -> os.stat_result:
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise FileNotFoundError(path)
    return status


def write(path: Path, data: bytes) -> None:
    """Write or replace an object; FileNotFoundError if its folder went meanwhile."""
    with _beside(path) as staged:
        staged.write_bytes(data)
        staged.replace(path)


def create(path: Path, data: bytes) -> None:
    """Write an object; FileExistsError if there is one, FileNotFoundError if its folder went meanwhile."""
    with _beside(path) as staged:
        staged.write_bytes(data)
        os.link(staged, path)


def link(file: Path, path: Path) -> None:
    """Make an object of a file, by a second name, in place of what is there; who may read the store may read it.

    Raises:
        OSError: the file is on another disk, or on one where a file has one name; or as :func:`write`.
    """
    with _beside(path) as staged:
        file.chmod(0o644)
        os.link(file, staged)
        staged.replace(path)


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A name beside the path, in a folder that is made if need be; nothing has it afterwards."""
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
    """Names of the folders in one, in any order; none if it is not there."""
    try:
        with os.scandir(path) as found:
            return [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
