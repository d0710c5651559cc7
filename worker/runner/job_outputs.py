"""What the process of a job left in its directory, as found by one that trusts it with nothing.

Links, pipes and sockets are passed over: to publish one would be to publish what it leads to. The process must have
ended, or it could still exchange one for the other.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

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
    """Check all that lies under a directory, which may change meanwhile, links and all.

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
    """The regular files under a directory by their names in it, sorted; those whose names are no key are left out."""
    found = {}
    for entry in _entries(directory):
        status = entry.stat(follow_symlinks=False)
        name = os.path.relpath(entry.path, directory)
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and _is_key(name):
            found[name] = Path(entry.path)
    return dict(sorted(found.items()))


def ensure_real_directory(directory: Path) -> None:
    """See that it is a directory, and no link to another one."""
    if directory.is_symlink() or not directory.is_dir():
        remove_path(directory)
        directory.mkdir()


def _entries(directory: Path) -> Iterator["os.DirEntry[str]"]:
    """All but directories, which are gone into."""
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


def _is_key(name: str) -> bool:
    try:
        Store.check(f"x/{name}")
    except ValueError:
        return False
    return len(name) <= 400
