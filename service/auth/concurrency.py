"""Concurrency limits: a fair semaphore that requests wait for, and slots that are granted or refused at once.

The semaphore is granted to the waiting owner who holds it the fewest times, and of those to the one whose last grant is
the oldest: an owner with sixty requests delays another's single one by one grant, not by sixty. Requests that wait
occupy no thread.
"""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

from starlette.concurrency import run_in_threadpool

from service.http.problems import ProblemError

Result = TypeVar("Result")


class FairSemaphore:
    """Limits one kind of work in one process of the api, and serves the owners who wait in turn.

    Args:
        at_once: how many run at one time.
        wait_seconds: how long a request waits at most.
        doing: what is under way, as a refusal says it.
    """

    def __init__(self, at_once: int, wait_seconds: float, doing: str) -> None:
        self._at_once = at_once
        self._wait_seconds = wait_seconds
        self._doing = doing
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._grants = 0
        self._last: dict[str, int] = {}  # number of the last grant of each owner who runs or waits

    async def run(self, work: Callable[[], Result], owner: str) -> Result:
        """Runs ``work`` in a thread once the owner is granted the semaphore; returns its result.

        Raises:
            ProblemError: the semaphore was not granted in time.
        """
        async with self._acquired(owner):
            return await run_in_threadpool(work)

    @contextlib.asynccontextmanager
    async def _acquired(self, owner: str) -> AsyncIterator[None]:
        if self._running.total() < self._at_once and not self._waiting:
            self._grant(owner)
        else:
            await self._wait(owner)
        try:
            yield
        finally:
            self._release(owner)

    async def _wait(self, owner: str) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            async with asyncio.timeout(self._wait_seconds):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # it was granted at the same moment
                self._release(owner)
            else:
                self._forget(owner, turn)
            if not isinstance(error, TimeoutError):
                raise
            reason = f"{self._at_once} {self._doing}, as many as may be"
            detail = f"{reason}, and this request had no turn in {self._wait_seconds:g} s; try again"
            raise ProblemError("busy", detail, headers={"Retry-After": "5"}) from None

    def _grant(self, owner: str) -> None:
        self._grants += 1
        self._running[owner] += 1
        self._last[owner] = self._grants

    def _forget(self, owner: str, turn: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(owner, deque())
        if turn in waiting:
            waiting.remove(turn)
        self._drop_idle(owner)

    def _release(self, owner: str) -> None:
        """Releases the semaphore, and grant it to the next owner."""
        self._running[owner] -= 1
        self._drop_idle(owner)
        while self._waiting:
            following = min(self._waiting, key=lambda each: (self._running[each], self._last.get(each, 0)))
            turn = self._waiting[following].popleft()
            found = not turn.done()  # one that has given up may not have left yet
            if found:
                self._grant(following)
                turn.set_result(None)
            self._drop_idle(following)
            if found:
                return

    def _drop_idle(self, owner: str) -> None:
        """Forgets an owner who neither runs nor waits."""
        if not self._waiting.get(owner):
            self._waiting.pop(owner, None)
            if not self._running[owner]:
                del self._running[owner]
                self._last.pop(owner, None)


class OwnerSlots:
    """Slots that requests hold, limited in all and for each owner.

    Attributes:
        most: slots in all.
        of_owner: slots of one owner, at least one.

    Args:
        most: slots in all.
        share: the part of them that one owner may hold.
    """

    def __init__(self, most: int, share: float) -> None:
        self.most = most
        self.of_owner = max(1, int(most * share))
        self._held: Counter[str] = Counter()

    def available(self, owner: str) -> int:
        """Returns how many more slots the owner may hold."""
        return min(self.most - self._held.total(), self.of_owner - self._held[owner])

    @property
    def full(self) -> bool:
        """Whether all slots are held."""
        return self._held.total() >= self.most

    @contextlib.contextmanager
    def hold(self, owner: str) -> Iterator[None]:
        """Holds a slot inside the context, even one beyond the limits: see :meth:`available` first."""
        self._held[owner] += 1
        try:
            yield
        finally:
            self._held[owner] -= 1
            if not self._held[owner]:
                del self._held[owner]


def check_stream_slots(slots: OwnerSlots, owner: str) -> None:
    """Checks that the owner may open one more event stream.

    Raises:
        ProblemError: the owner, or all together, have as many open as may be.
    """
    if slots.available(owner) > 0:
        return
    if slots.full:
        slug, detail = "busy", f"{slots.most} streams of events are open, as many as may be in all"
    else:
        slug, detail = "too-many-at-once", f"{slots.of_owner} streams of events of yours are open, as many as may be"
    raise ProblemError(slug, f"{detail}; end one or try again", headers={"Retry-After": "5"})
