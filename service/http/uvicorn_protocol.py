"""HTTP/1.1 connections and the server on uvicorn: every wait for a client ends, and bad requests get problems.

All that Cyclops uses of uvicorn's private interface is in this module; ``test_uvicorn_interface.py`` fails when that
moves.
"""

import asyncio
import functools
import socket
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, cast

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from service.http.problems import MEDIA_TYPE, SERVICE_TYPES
from worker.config.settings import Settings
from worker.records.problem_details import problem

_MANY_CHUNKS = 10_000  # the parser takes some 10 us for each, in which no other request is answered
_CHUNK_BYTES = 16  # that each then has at least, on average
_TICKS_BETWEEN_CHECKS = 5  # of uvicorn, ten a second


@dataclass(frozen=True)
class ConnectionTimeouts:
    """How long a connection waits for its client.

    Attributes:
        head: seconds from a connection's, or a head's, beginning to the head's end.
        body: seconds without a byte of a body that is being read.
        rate: bytes a second that a body has at least, after as many seconds.
        answer: seconds in which the client takes nothing of an answer.
    """

    head: float
    body: float
    rate: int
    answer: float

    @classmethod
    def of(cls, settings: Settings) -> "ConnectionTimeouts":
        """Returns the timeouts in the settings."""
        return cls(
            head=settings.connection_head_seconds,
            body=settings.connection_body_seconds,
            rate=settings.connection_body_rate,
            answer=settings.connection_answer_seconds,
        )


class StrictParser(h11.Connection):
    """h11's parser, which refuses requests that two readers may frame differently (RFC 9112, section 6.1).

    Nor does it read on in a body that is cut so small that to parse it would keep the loop from other requests.
    """

    fault: str | None = None
    _chunks = 0  # of the body that comes
    _chunked = 0  # bytes in them

    def next_event(self) -> Any:
        """Returns the next event.

        Raises:
            h11.RemoteProtocolError: what the client sends has more readings than one, or is not worth its reading.
        """
        event = super().next_event()
        if isinstance(event, h11.Data):
            self._weigh(event)
        elif isinstance(event, h11.Request):
            self._chunks = self._chunked = 0
            names = {name for name, _ in event.headers}
            if b"transfer-encoding" in names and (b"content-length" in names or event.http_version < b"1.1"):
                other = "Content-Length" if b"content-length" in names else f"HTTP/{event.http_version.decode()}"
                self.fault = f"Transfer-Encoding and {other} do not go together."
                raise h11.RemoteProtocolError(self.fault)
        return event

    def _weigh(self, data: h11.Data) -> None:
        """Refuses a body in many tiny chunks, each of which takes time to parse."""
        self._chunks += data.chunk_start
        self._chunked += len(data.data)
        if self._chunks > _MANY_CHUNKS and self._chunked < self._chunks * _CHUNK_BYTES:
            self.fault = f"The body has more than {_MANY_CHUNKS} chunks, of less than {_CHUNK_BYTES} bytes on average."
            raise h11.RemoteProtocolError(self.fault)


class TimeLimitedProtocol(H11Protocol):
    """A connection that ends when its client keeps it waiting; the server calls :meth:`check` now and then.

    No application sees a request that cannot be parsed, or is never whole, so that this is where it is answered.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        timeouts: ConnectionTimeouts,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.conn = self._parser = StrictParser(h11.SERVER)
        self._timeouts = timeouts
        self._phase: object = None
        self._began = self._heard = self._taken = self._checked = self.loop.time()
        self._bytes = self._unsent = 0

    def data_received(self, data: bytes) -> None:
        """Takes data from the client."""
        now = self.loop.time()
        self._enter(now)
        if not self._bytes and self.cycle is not None and self._awaits_head():
            self._began = now  # before that it was silent, and allowed to be
        self._bytes += len(data)
        self._heard = now
        super().data_received(data)
        self._enter(now)

    def resume_writing(self) -> None:
        """Resumes a response once the client has taken most of what was sent."""
        self._taken = self.loop.time()
        super().resume_writing()

    def check(self) -> None:
        """Closes the connection if its client has kept it waiting for too long."""
        now = self.loop.time()
        self._enter(now)
        unsent = self.transport.get_write_buffer_size()
        if not unsent or unsent < self._unsent:
            self._taken = now
        self._unsent = unsent
        if now - self._taken > self._timeouts.answer:
            self.transport.abort()
        elif not self.transport.is_closing():
            if self._awaits_head():
                self._check_head(now)
            elif self.conn.their_state is h11.SEND_BODY:
                self._check_body(now)
        self._checked = now

    def _check_head(self, now: float) -> None:
        if not self._bytes and self.cycle is not None:
            return  # uvicorn's own timer ends a silence between requests
        if now - self._began > self._timeouts.head:
            detail = f"The head of the request was not there within {self._timeouts.head:g} s."
            self._give_up(detail if self._bytes else None)

    def _check_body(self, now: float) -> None:
        if self.flow.read_paused or self.cycle.waiting_for_100_continue:  # it is the client that waits for us
            self._heard = now
            self._began += now - self._checked
            return
        timeouts = self._timeouts
        if now - self._heard > timeouts.body:
            self._give_up(f"Nothing came of the body for {timeouts.body:g} s.")
        elif now - self._began > timeouts.body + self._bytes / timeouts.rate:
            self._give_up(f"The body came with less than {timeouts.rate} bytes a second.")

    def _awaits_head(self) -> bool:
        return self.conn.their_state is h11.IDLE and self.conn.our_state is h11.IDLE

    def _enter(self, now: float) -> None:
        """Restarts the measurement with each head and each body."""
        phase = (self.cycle, self.conn.their_state)
        if phase != self._phase:
            self._phase = phase
            self._began = self._heard = now
            self._bytes = 0

    def _give_up(self, detail: str | None) -> None:
        """Closes the connection, with a problem if there is a detail and no response has begun."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # the application hears of it, and what it still answers goes nowhere
            self.cycle.message_event.set()
        if detail is not None:
            self._refuse("request-timeout", detail)
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answers 400, unless a response has begun already, and closes the connection."""
        self._refuse("bad-request", self._parser.fault or msg)
        self.transport.close()

    def _refuse(self, slug: str, detail: str) -> None:
        status, title = SERVICE_TYPES[slug]
        body = problem(slug, title, detail, status=status).model_dump_json().encode()
        headers = [
            ("Date", formatdate(usegmt=True)),
            ("Content-Type", MEDIA_TYPE),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ]
        events = (
            h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        try:
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            self.logger.debug("an answer had begun")

    def _should_upgrade(self) -> bool:
        """Returns False: a request that offers an upgrade is answered without one."""
        return False


def with_date_header(app: ASGIApp) -> ASGIApp:
    """Returns the app with a Date header of the time of each response; uvicorn's is the time of the request."""

    async def made(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_dated(message: Message) -> None:
            if message["type"] == "http.response.start":
                date = (b"date", formatdate(usegmt=True).encode())
                message = {**message, "headers": [date, *message.get("headers", ())]}
            await send(message)

        await app(scope, receive, send_dated)

    return made


class TimeLimitedServer(Server):
    """A uvicorn server that checks its connections, and ends at its shutdown what clients would not end.

    Args:
        app: what is served.
        settings: how long a connection waits for its client.
        level: the least level that uvicorn logs.
        on_shutdown: called before the server waits for open requests.
    """

    def __init__(self, app: ASGIApp, settings: Settings, level: str, on_shutdown: Callable[[], None]) -> None:
        config = Config(
            with_date_header(app),
            http=cast(
                "type[TimeLimitedProtocol]",
                functools.partial(TimeLimitedProtocol, timeouts=ConnectionTimeouts.of(settings)),
            ),
            timeout_keep_alive=settings.connection_idle_seconds,
            log_config=None,  # its loggers hand their records on to ours
            log_level=level.lower(),
            access_log=False,  # ``service/middleware/observation.py`` has one
            timeout_graceful_shutdown=5,
            server_header=False,
            date_header=False,
        )
        super().__init__(config)
        self._on_shutdown = on_shutdown

    async def on_tick(self, counter: int) -> bool:
        """Checks the connections, and returns whether to stop; uvicorn calls it ten times a second."""
        if counter % _TICKS_BETWEEN_CHECKS == 0:
            for connection in list(self.server_state.connections):
                cast("TimeLimitedProtocol", connection).check()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends event streams, then stops as uvicorn does."""
        self._on_shutdown()
        await super().shutdown(sockets)
