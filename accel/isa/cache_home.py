"""Where machine code is kept between processes; apart from what compiles it, which takes long to load."""

import os
from pathlib import Path


def cache_home() -> Path:
    """The folder of all versions, below the user's cache directory; it need not be there.

    Raises:
        RuntimeError: the user has no home.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cyclops"
