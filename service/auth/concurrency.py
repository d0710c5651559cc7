"""Concurrency limits: a fair semaphore that requests wait for, and slots that they take or are refused.

The semaphore's next turn goes to the waiting owner who holds the fewest, and of those to the one who has waited longest
since the last: an owner with sixty requests delays another's single one by a turn, not by sixty. Who waits takes no
thread.
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
    """The turns of one process of the api, for one kind of work.

    Args:
        at_once: how many there are at one time.
        patience: seconds that a request waits for one.
        doing: what is being done, as a refusal says it.
    """

    def __init__(self, at_once: int, patience: float, doing: str) -> None:
        self._at_once = at_once
        self._patience = patience
        self._doing = doing
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._begun = 0
        self._last: dict[str, int] = {}  # which turn was the last of those who have one or wait

    async def run(self, work: Callable[[], Result], owner: str) -> Result:
        """What ``work`` gives, in a thread, once it is the owner's turn.

        Raises:
            ProblemError: it was not in time.
        """
        async with self._taken(owner):
            return await run_in_threadpool(work)

    @contextlib.asynccontextmanager
    async def _taken(self, owner: str) -> AsyncIterator[None]:
        if self._running.total() < self._at_once and not self._waiting:
            self._begin(owner)
        else:
            await self._wait(owner)
        try:
            yield
        finally:
            self._leave(owner)

    async def _wait(self, owner: str) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            async with asyncio.timeout(self._patience):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # it came at the same moment
                self._leave(owner)
            else:
                self._forget(owner, turn)
            if not isinstance(error, TimeoutError):
                raise
            detail = f"{self._at_once} {self._doing}, as many as may be, and no turn came in {self._patience:g} s"
            raise ProblemError("busy", f"{detail}; try again", headers={"Retry-After": "5"}) from None

    def _begin(self, owner: str) -> None:
        self._begun += 1
        self._running[owner] += 1
        self._last[owner] = self._begun

    def _forget(self, owner: str, turn: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(owner, deque())
        if turn in waiting:
            waiting.remove(turn)
        self._tidy(owner)

    def _leave(self, owner: str) -> None:
        """Give the turn to the next."""
        self._running[owner] -= 1
        self._tidy(owner)
        while self._waiting:
            following = min(self._waiting, key=lambda each: (self._running[each], self._last.get(each, 0)))
            turn = self._waiting[following].popleft()
            found = not turn.done()  # one that has given up may not have left yet
            if found:
                self._begin(following)
                turn.set_result(None)
            self._tidy(following)
            if found:
                return

    def _tidy(self, owner: str) -> None:
        """Remember nothing of an owner who has no turn and waits for none."""
        if not self._waiting.get(owner):
            self._waiting.pop(owner, None)
            if not self._running[owner]:
                del self._running[owner]
                self._last.pop(owner, None)


class OwnerSlots:
    """So many at a time, and of them so many for one owner.

    Attributes:
        most: how many in all.
        of_owner: how many of one owner, one at least.
    """

    def __init__(self, most: int, share: float) -> None:
        self.most = most
        self.of_owner = max(1, int(most * share))
        self._taken: Counter[str] = Counter()

    def left(self, owner: str) -> int:
        """How many more of the owner's may come."""
        return min(self.most - self._taken.total(), self.of_owner - self._taken[owner])

    @property
    def full(self) -> bool:
        """Whether all places are taken."""
        return self._taken.total() >= self.most

    @contextlib.contextmanager
    def taken(self, owner: str) -> Iterator[None]:
        """Take one of the places, be it one too many."""
        self._taken[owner] += 1
        try:
            yield
        finally:
            self._taken[owner] -= 1
            if not self._taken[owner]:
                del self._taken[owner]


def check_stream_slots(places: OwnerSlots, owner: str) -> None:
    """See that there is a place for one of the owner's.

    Raises:
        ProblemError: there is none.
    """
    if places.left(owner) > 0:
        return
    if places.full:
        slug, detail = "busy", f"{places.most} streams of events are open, as many as may be in all"
    else:
        slug, detail = "too-many-at-once", f"{places.of_owner} streams of events of yours are open, as many as may be"
    raise ProblemError(slug, f"{detail}; end one or try again", headers={"Retry-After": "5"})
