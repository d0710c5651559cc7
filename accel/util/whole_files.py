"""Files that are there whole or not at all, whenever the process that writes them is stopped.

What is being written has a hidden name, one that begins with a dot, beside the file's own place; no artifact's name
does.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

UNFINISHED = "."
"""What the names of files and folders begin with that are no artifacts yet, or never will be."""


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yields where to write; at the end that is moved to ``path``, or removed if there was an exception.

    Raises:
        OSError: it cannot be moved.
    """
    unfinished = path.with_name(f"{UNFINISHED}{path.name}")
    try:
        yield unfinished
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def write_whole(path: Path, data: bytes | memoryview | str) -> None:
    """Writes ``data``, text as UTF-8.

    Raises:
        OSError: it cannot be written.
    """
    with whole_file(path) as unfinished:
        unfinished.write_bytes(data.encode() if isinstance(data, str) else data)
