"""The real service under load: each figure beside the limit that it is to keep.

``cyclops serve`` runs in processes of its own, with its Redis and workers, over a directory that is new; the clients
are this process. Wall times depend on who else uses the machine; processor times less so.

``python bench/load.py PART...`` measures some of the parts alone; ``--jobs`` says how many wait to be drained.
"""

import argparse
import asyncio
import os
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from loading.cached import cached
from loading.drain import drain
from loading.listeners import listeners
from loading.rest import rest
from loading.service import Service, service
from loading.uploads import uploads

_WORKERS = 2  # and processor cores, for which the limits are stated


def main() -> None:
    parser = argparse.ArgumentParser(description="The service under load.")
    parser.add_argument("--jobs", type=int, default=200, help="that wait; the limit is stated for 1000")
    parts: dict[str, Callable[[Service], Coroutine[Any, Any, None]]] = {
        "rest": rest,
        "cached": lambda one: cached(one, seconds=2, runs=3),
        "uploads": lambda one: uploads(one, serial=3, at_once=3),
        "listeners": lambda one: listeners(one, count=200, jobs=20),
        "drain": lambda one: drain(one, chosen.jobs),
    }
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(parts)}; else all")
    chosen = parser.parse_args()
    print(f"{os.cpu_count()} processor cores, load {os.getloadavg()[0]:.1f} before")
    with tempfile.TemporaryDirectory(prefix="cyclops-load-") as name, service(Path(name), _WORKERS) as one:
        for part in chosen.parts or parts:
            asyncio.run(parts[part](one))


if __name__ == "__main__":
    main()
