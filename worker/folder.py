"""What a store in a folder does by itself: its backend asks a thread for each file, which takes much longer."""

import os
import secrets
import stat
from pathlib import Path


def read(path: Path) -> bytes:
    """The bytes of an object; FileNotFoundError if there is none, and where there is a folder."""
    try:
        return path.read_bytes()
    except IsADirectoryError as error:
        raise FileNotFoundError(error.errno, error.strerror, error.filename) from error


def size(path: Path) -> int:
    """Bytes of an object; FileNotFoundError if there is none, and where there is a folder."""
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise FileNotFoundError(path)
    return status.st_size


def link(path: Path, target: Path) -> None:
    """Make an object of a file, by a second name, in place of what is there; who may read the store may read it.

    Raises:
        OSError: the file is on another disk, or on one where a file has one name.
    """
    staged = target.with_name(f"{target.name}#{secrets.randbits(63)}")  # of what is called so the backend lists nothing
    target.parent.mkdir(parents=True, exist_ok=True)
    path.chmod(0o644)
    os.link(path, staged)
    try:
        staged.replace(target)
    finally:
        staged.unlink(missing_ok=True)  # it is there still if the file had the name already
