"""Server-sent events: an answer that goes on while there is somebody to hear it."""

import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Iterator

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from service.following.follower import Event
from service.problems import ProblemError
from worker.storage.object_store import StoreUnavailableError

MEDIA_TYPE = "text/event-stream"
_HEADERS = {"Content-Type": MEDIA_TYPE, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_RETRY_MILLISECONDS = 1000
_HEARTBEAT = b":\n\n"


class Places:
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


class EventStream(StreamingResponse):
    """Sends events until they are over or the client has gone away, and holds one of the places for so long."""

    media_type = MEDIA_TYPE

    def __init__(self, events: AsyncGenerator[list[Event], None], places: Places, owner: str) -> None:
        self._encoded = _encoded(events)
        super().__init__(self._encoded, headers=_HEADERS)
        self._places = places
        self._owner = owner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them."""
        with self._places.taken(self._owner):
            async with contextlib.aclosing(self._encoded):
                await super().__call__(scope, receive, send)


def check_room(places: Places, owner: str) -> None:
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


async def _encoded(events: AsyncGenerator[list[Event], None]) -> AsyncGenerator[bytes, None]:
    """As the client reads them; where the store is away it ends, and the client comes again."""
    yield f"retry: {_RETRY_MILLISECONDS}\n\n".encode()
    # the job may have been removed meanwhile
    with contextlib.suppress(StoreUnavailableError, KeyError):
        async with contextlib.aclosing(events):
            async for some in events:
                text = "".join(f"id: {event.id}\nevent: {event.kind}\ndata: {event.data}\n\n" for event in some)
                yield text.encode() or _HEARTBEAT
