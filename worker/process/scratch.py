"""Directories for temporary files on the local disk, and the removal of those whose process was killed.

A directory is locked by its process, and the kernel takes the lock back when that ends, however it ends: so a process
in another container that shares the disk can tell too.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_YOUNG = 5.0  # seconds in which a directory may not be locked yet


@contextlib.contextmanager
def scratch_directory(root: Path, name: str) -> Iterator[Path]:
    """Yields a new locked directory under ``root``, removed at the end; its name begins with ``name``."""
    directory = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=root))
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # a file system without such locks: there nothing is swept
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def sweep_scratch(root: Path) -> None:
    """Removes the directories whose process has ended."""
    try:
        found = list(root.iterdir())
    except OSError:  # it is not there, or not now
        return
    for directory in found:
        with contextlib.suppress(OSError):  # another worker sweeps too
            if time.time() - directory.stat().st_mtime > _YOUNG:
                _remove_unlocked(directory)


def _remove_unlocked(directory: Path) -> None:
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    else:
        shutil.rmtree(directory, ignore_errors=True)
    finally:
        os.close(lock)


def remove_path(path: Path) -> None:
    """Removes a file, link or directory, if it exists; links are not followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
