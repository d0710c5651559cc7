"""A cache in a directory of this machine, for the command line."""

import contextlib
import os
import tempfile
from pathlib import Path


class FolderCache:
    """One file an entry. What cannot be read or written is not kept."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, key: str) -> bytes | None:
        """The entry, or None."""
        try:
            return (self._directory / key).read_bytes()
        except OSError:
            return None

    def put(self, key: str, data: bytes) -> None:
        """Write the entry beside its place, then move it there: nobody reads half of it."""
        with contextlib.suppress(OSError):
            self._directory.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._directory)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                Path(name).replace(self._directory / key)
            except OSError:
                Path(name).unlink(missing_ok=True)
