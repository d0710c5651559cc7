"""Work that a thread does while the one that asks for it goes on."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Self, TypeVar

T = TypeVar("T")

_MOST = 2  # that wait to be done: what each holds on to may be large


class PendingWork(Generic[T]):
    """A thread that works without Python's lock, on one piece after the other, beside the thread that adds them.

    Used as a context manager it ends when all is done.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, name)
        self._pending: deque[Future[T]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._thread.shutdown(cancel_futures=True)

    def add(self, work: Callable[[], T]) -> Future[T]:
        """Has a piece of work done, and waits while more than a few others are not.

        Raises:
            Exception: as a piece that was added before did.
        """
        added = self._thread.submit(work)
        self._pending.append(added)
        while len(self._pending) > _MOST:
            self._pending.popleft().result()
        return added

    def finish(self) -> None:
        """Waits until all is done.

        Raises:
            Exception: as a piece did.
        """
        while self._pending:
            self._pending.popleft().result()
