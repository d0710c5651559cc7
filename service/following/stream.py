"""Server-sent events: an answer that goes on while there is somebody to hear it."""

import contextlib
from collections.abc import AsyncGenerator, Iterator

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from service.following.follower import Event
from service.problems import ProblemError
from worker.store import StoreUnavailableError

MEDIA_TYPE = "text/event-stream"
_HEADERS = {"Content-Type": MEDIA_TYPE, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_RETRY_MILLISECONDS = 1000
_HEARTBEAT = b":\n\n"


class Places:
    """So many at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0

    @property
    def left(self) -> int:
        """How many may still come."""
        return self._most - self._taken

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Take one of the places, be it one too many."""
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1


class EventStream(StreamingResponse):
    """Sends events until they are over or the client has gone away, and holds one of the places for so long."""

    media_type = MEDIA_TYPE

    def __init__(self, events: AsyncGenerator[list[Event], None], places: Places) -> None:
        self._encoded = _encoded(events)
        super().__init__(self._encoded, headers=_HEADERS)
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them."""
        with self._places.taken():
            async with contextlib.aclosing(self._encoded):
                await super().__call__(scope, receive, send)


def check_room(places: Places) -> None:
    """See that there is a place.

    Raises:
        ProblemError: there is none.
    """
    if places.left <= 0:
        raise ProblemError("busy", "too many streams of events are open; try again", headers={"Retry-After": "5"})


async def _encoded(events: AsyncGenerator[list[Event], None]) -> AsyncGenerator[bytes, None]:
    """As the client reads them; where the store is away it ends, and the client comes again."""
    yield f"retry: {_RETRY_MILLISECONDS}\n\n".encode()
    # the job may have been removed meanwhile
    with contextlib.suppress(StoreUnavailableError, KeyError):
        async with contextlib.aclosing(events):
            async for some in events:
                text = "".join(f"id: {event.id}\nevent: {event.kind}\ndata: {event.data}\n\n" for event in some)
                yield text.encode() or _HEARTBEAT
