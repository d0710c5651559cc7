"""One attempt to deliver a webhook: the signed body (standardwebhooks.com), sent by HTTPS to a checked address.

The name is resolved once, where the connection is made, and the connection goes to what was found and permitted, so
that no second answer of a name server counts. The certificate is that of the name. Redirects are answers like others,
proxies of the environment are not asked, and of the body of an answer no more is read than good manners ask for.
"""

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Executor
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import httpcore2
import pydantic
from standardwebhooks import Webhook

from worker.records.job_record import Job
from worker.webhooks.targets import Address, Destinations, WebhookTarget


class Message(pydantic.BaseModel):
    """The body."""

    type: str = "job.ended"
    timestamp: datetime
    data: Job


def body_of(job: Job) -> bytes:
    """Returns the request's body for a job that has ended."""
    assert job.finished is not None
    # how far a canceled job came is forgotten once its process is dead: each attempt sends the same bytes
    told = job.model_copy(update={"stage": None}) if job.state == "canceled" else job
    return Message(timestamp=job.finished, data=told).model_dump_json().encode()


def signed(order_id: str, secret: str, body: bytes, when: datetime) -> dict[str, str]:
    """Returns the headers of an attempt.

    Args:
        order_id: the same for all attempts.
        secret: ``whsec_`` and Base64.
        body: of the request.
        when: the time of this attempt, in UTC.
    """
    return {
        "webhook-id": order_id,
        "webhook-timestamp": str(int(when.timestamp())),
        "webhook-signature": Webhook(secret).sign(order_id, when, body.decode()),
    }


_ADDRESSES_TRIED = 3
_GONE = 410
# who still writes when we have left may take that for a failure
_POLITE_BYTES, _POLITE_SECONDS = 64 << 10, 2.0
_AGENT = f"Cyclops/{version('cyclops')}"
Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]


# it would be the same next time, and the receiver's operator is not who could change it
_FINAL = {"address-refused", "port-refused"}


class AttemptOutcome(NamedTuple):
    """The outcome of an attempt: the status of the answer, or the reason that there was none."""

    status: int | None
    error: str | None = None

    @property
    def delivered(self) -> bool:
        """Whether the receiver has it."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def final(self) -> bool:
        """Whether there are no further attempts: the receiver answered 410, or its address is not permitted."""
        return self.status == _GONE or self.error in _FINAL


class _RefusedError(Exception):
    """No address of the host is one that webhooks may go to, for the reason given."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _UnresolvedError(Exception):
    """There is no host of this name."""


class _Checked(httpcore2.AsyncNetworkBackend):
    """Connects to addresses that webhooks may go to, and to no others."""

    def __init__(self, resolve: Resolve, destinations: Destinations) -> None:
        self._resolve = resolve
        self._destinations = destinations
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connects to one of the host's addresses."""
        del local_address
        found = {each: self._destinations.refusal(each, port) for each in await self._resolve(host, port)}
        permitted = [address for address, refusal in found.items() if refusal is None]
        if not permitted:
            raise _RefusedError("port-refused" if "port-refused" in found.values() else "address-refused")
        for address in permitted[: _ADDRESSES_TRIED - 1]:
            with contextlib.suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                return await self._inner.connect_tcp(str(address), port, timeout, None, socket_options)
        return await self._inner.connect_tcp(str(permitted[-1]), port, timeout, None, socket_options)


def system_resolver(threads: Executor) -> Resolve:
    """Returns the system's resolver. It runs in ``threads``, as a look-up cannot be stopped."""

    def found(host: str, port: int) -> list[Address]:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        # an interface after a % is no part of an address that may be gone to
        return [ipaddress.ip_address(str(answer[4][0]).partition("%")[0]) for answer in answers]

    async def resolve(host: str, port: int) -> Sequence[Address]:
        with contextlib.suppress(ValueError):
            return [ipaddress.ip_address(host)]
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, found, host, port)
        except (OSError, UnicodeError):
            raise _UnresolvedError from None

    return resolve


def trusted_certificates(ca_file: Path | None) -> ssl.SSLContext:
    """Returns a TLS context that trusts the system's authorities and those in the file."""
    context = httpcore2.default_ssl_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context


async def send_webhook(
    target: WebhookTarget,
    headers: dict[str, str],
    body: bytes,
    *,
    seconds: float,
    trusted: ssl.SSLContext,
    resolve: Resolve,
    destinations: Destinations,
) -> AttemptOutcome:
    """Sends the body and returns the outcome, including any failure.

    Args:
        target: where to.
        headers: further headers.
        body: JSON.
        seconds: how long it may take, in all.
        trusted: see :func:`trusted_certificates`.
        resolve: gives the addresses of a host.
        destinations: where it may go.
    """
    url = httpcore2.URL(scheme=b"https", host=target.host.encode(), port=target.port, target=target.path.encode())
    given = {"Host": target.authority, "Content-Type": "application/json", "User-Agent": _AGENT, **headers}
    status: int | None = None
    try:
        async with (
            asyncio.timeout(seconds),
            httpcore2.AsyncConnectionPool(
                ssl_context=trusted, network_backend=_Checked(resolve, destinations), max_keepalive_connections=0
            ) as pool,
            pool.stream("POST", url, headers=list(given.items()), content=body) as response,
        ):
            status = response.status
            await _listen(response)
    except Exception as error:  # noqa: BLE001 - the receiver's affair, and told
        return AttemptOutcome(status, None if status is not None else _reason(error))
    return AttemptOutcome(status)


async def _listen(response: httpcore2.Response) -> None:
    heard = 0
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_POLITE_SECONDS):
            async for chunk in response.aiter_stream():
                heard += len(chunk)
                if heard > _POLITE_BYTES:
                    return


def _reason(error: Exception) -> str:
    """Returns one of the values of ``Delivery.last_error``; the system's own message may be confidential."""
    causes = [error, error.__cause__, error.__context__]
    if isinstance(error, _RefusedError):
        return error.reason
    if isinstance(error, _UnresolvedError):
        return "name-not-resolved"
    if isinstance(error, TimeoutError | httpcore2.TimeoutException):
        return "timed-out"
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return "tls-failed"
    return "connection-failed" if isinstance(error, httpcore2.ConnectError) else "no-answer"
