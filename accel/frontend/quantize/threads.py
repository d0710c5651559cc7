"""Work on many tensors in a few threads: onnxruntime and numpy compute without Python's lock."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

THREADS = 2


def in_threads(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Returns what ``function`` makes of each of ``items``; a thread takes the next when it has done one.

    To hand on a task for each takes as long as many of them do.

    Raises:
        Exception: as ``function`` does, when the other threads are done.
    """
    given = list(items)
    found: list[Result | None] = [None] * len(given)
    pending = iter(enumerate(given))  # all threads may ask a list's

    def work() -> None:
        for at, item in pending:
            found[at] = function(item)

    with ThreadPoolExecutor(THREADS, "quantisation") as pool:
        for done in [pool.submit(work) for _ in range(min(THREADS, len(given)))]:
            done.result()
    return found  # type: ignore[return-value]  # all are there
