"""The files that a job's process left in its directory, read without trusting the process.

Links, pipes and sockets are skipped: publishing one would publish its target. The process must have
ended, or it could still exchange one for the other.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from accel.util.whole_files import UNFINISHED
from worker.process.scratch import remove_path
from worker.records.problem_details import Problem, problem
from worker.storage.object_store import Store

MOST_FILES = 20_000


class OutputLimitError(Exception):
    """The files of a job are more or larger than they may be."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.problem: Problem = problem("output-limit", "The job wrote more than the limit.", detail)


def check_outputs(directory: Path, most_bytes: int) -> None:
    """Checks the number and size of all files under a directory, which may change meanwhile.

    Raises:
        OutputLimitError: there are too many files, or too many bytes in them.
    """
    total = files = 0
    for entry in _entries(directory):
        try:
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        files += 1
        # a file with holes is no larger than its blocks on the disk, and as large as it says for who reads it
        total += max(found.st_size, found.st_blocks * 512) if stat.S_ISREG(found.st_mode) else 0
        if total > most_bytes:
            raise OutputLimitError(f"its files have more than {most_bytes} bytes together")
        if files > MOST_FILES:
            raise OutputLimitError(f"it wrote more than {MOST_FILES} files")


def output_files(directory: Path) -> dict[str, Path]:
    """Returns the regular files under a directory by relative name, sorted.

    Names that are no store key are skipped, and what was not finished when the process was stopped.
    """
    found = {}
    for entry in _entries(directory):
        status = entry.stat(follow_symlinks=False)
        name = os.path.relpath(entry.path, directory)
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and _is_key(name) and not _is_unfinished(name):
            found[name] = Path(entry.path)
    return dict(sorted(found.items()))


def ensure_real_directory(directory: Path) -> None:
    """Replaces anything but a real directory, such as a link, by an empty directory."""
    if directory.is_symlink() or not directory.is_dir():
        remove_path(directory)
        directory.mkdir()


def _entries(directory: Path) -> Iterator["os.DirEntry[str]"]:
    """Yields all entries but directories, recursively."""
    try:
        with os.scandir(directory) as found:
            entries = list(found)
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _entries(Path(entry.path))
        else:
            yield entry


def _is_unfinished(name: str) -> bool:
    return any(part.startswith(UNFINISHED) for part in Path(name).parts)


def _is_key(name: str) -> bool:
    try:
        Store.check(f"x/{name}")
    except ValueError:
        return False
    return len(name) <= 400
