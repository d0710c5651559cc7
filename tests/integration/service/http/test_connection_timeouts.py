"""Connections whose clients keep us waiting, on bare sockets."""

import contextlib
import io
import socket
import time
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import h11
import numpy as np
import pytest

from service.http.uvicorn_protocol import StrictParser
from tests.helpers.idle_service import Quiet, quiet_service

HEAD, BODY, ANSWER = 0.6, 0.8, 1.5
RATE = 2000
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /v1/tensors HTTP/1.1\r\nHost: localhost\r\n"
LARGE = 24 << 20  # more than the system's buffers hold of an answer
Connect = Callable[[], socket.socket]
HALF_HEADS = [b"G", b"GET / HT", GET, GET + b"A: b\r\n"]
HALF_BODIES = [
    POST + begin
    for begin in (
        b"Content-Length: 100\r\n\r\n",
        b"Content-Length: 100\r\n\r\nhalf",
        b"Transfer-Encoding: chunked\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nha",
        b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n",
        b"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 100\r\n\r\n--x\r\n",
        b"Content-Encoding: gzip\r\nContent-Length: 100\r\n\r\nhalf",
        b"Expect: 100-continue\r\nContent-Length: 100\r\n\r\n",
    )
]
UNREAD_BODIES = [
    b"PUT %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf" % path
    for path in (b"/v1/jobs", b"/v1/jobs/none/cancel", b"/healthz")
]


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quiet]:
    made = quiet_service(
        tmp_path_factory.mktemp("quiet"),
        connection_head_seconds=HEAD,
        connection_idle_seconds=2,
        connection_body_seconds=BODY,
        connection_body_rate=RATE,
        connection_answer_seconds=ANSWER,
        stream_heartbeat_seconds=2 * ANSWER,
    )
    with made as running:
        yield running


@pytest.fixture(scope="module")
def connect(quiet: Quiet) -> Iterator[Connect]:
    address = urlsplit(str(quiet.client.base_url))
    opened: list[socket.socket] = []

    def opened_connection() -> socket.socket:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(20)
        connection.connect((address.hostname, address.port))
        opened.append(connection)
        return connection

    yield opened_connection
    for connection in opened:
        connection.close()


def rest(connection: socket.socket) -> bytes:
    """All that comes until the service hangs up; it must do so."""
    received = bytearray()
    try:
        while chunk := connection.recv(1 << 20):
            received += chunk
    except ConnectionResetError:
        pass
    return bytes(received)


def drip(connection: socket.socket, data: bytes, seconds: float) -> bytes:
    """A byte at a time, until the service hangs up; what it said."""
    connection.settimeout(seconds)
    received = b""
    for byte in data:
        try:
            connection.sendall(bytes([byte]))
            chunk = connection.recv(1 << 16)
        except TimeoutError:
            continue
        except ConnectionError:
            return received
        if not chunk:
            return received
        received += chunk
    raise AssertionError("the service takes it all")


def assert_timed_out(answer: bytes) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 "), answer
    assert b"connection: close" in head.lower()
    assert b"\r\ndate: " in head.lower()
    assert b'"/problems/request-timeout"' in body


@pytest.fixture(scope="module")
def waiting(connect: Connect) -> dict[bytes, socket.socket]:
    """Connections that have sent so much, all at one time: each is timed out by itself."""
    begun = {begin: connect() for begin in (*HALF_HEADS, *HALF_BODIES, *UNREAD_BODIES)}
    for begin, connection in begun.items():
        connection.sendall(begin)
    return begun


@pytest.mark.parametrize("begin", HALF_HEADS)
def test_half_a_head(waiting: dict[bytes, socket.socket], begin: bytes) -> None:
    assert_timed_out(rest(waiting[begin]))


@pytest.mark.slow
def test_a_head_that_drips(connect: Connect) -> None:
    assert_timed_out(drip(connect(), GET + b"A: " + b"b" * 100, 0.1))


@pytest.mark.slow
def test_silence(connect: Connect) -> None:
    assert rest(connect()) == b""
    connection = connect()
    connection.sendall(GET + b"\r\n")
    answer = rest(connection)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.slow
def test_half_a_head_after_an_answer(connect: Connect) -> None:
    connection = connect()
    for _ in range(3):
        connection.sendall(GET + b"\r\n")
        answer = b""
        while not answer.endswith(b'{"status":"ok"}'):
            answer += connection.recv(1 << 16)
        time.sleep(HEAD)  # the silence between two requests is none of a head's
    connection.sendall(GET)
    assert_timed_out(rest(connection))


@pytest.mark.parametrize("begin", HALF_BODIES)
def test_half_a_body(waiting: dict[bytes, socket.socket], begin: bytes) -> None:
    answer = rest(waiting[begin]).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert_timed_out(answer)


@pytest.mark.parametrize("begin", UNREAD_BODIES)
def test_half_a_body_that_nobody_reads(waiting: dict[bytes, socket.socket], begin: bytes) -> None:
    assert rest(waiting[begin]).startswith((b"HTTP/1.1 405 ", b"HTTP/1.1 408 "))


@pytest.mark.slow
def test_a_body_that_drips(connect: Connect) -> None:
    connection = connect()
    connection.sendall(POST + b"Content-Length: 1000\r\n\r\n")
    assert_timed_out(drip(connection, b"x" * 1000, 0.1))


@pytest.mark.slow
def test_a_body_that_is_slow_but_steady(connect: Connect) -> None:
    connection = connect()
    piece = b"x" * (RATE // 4)
    connection.sendall(POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % (20 * len(piece)))
    for _ in range(20):
        time.sleep(0.1)
        connection.sendall(piece)
    assert rest(connection).startswith(b"HTTP/1.1 422 ")


@pytest.mark.slow
def test_a_client_that_never_reads_its_answer(quiet: Quiet, connect: Connect) -> None:
    """And one that does so slowly has all of it."""
    file = io.BytesIO()
    np.savez(file, x=np.zeros(LARGE, np.uint8))
    posted = quiet.client.post("/v1/tensors", content=file.getvalue())
    assert posted.status_code == 201, posted.text
    asked = f"GET {posted.headers['Location']}/content HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    deaf, slow = connect(), connect()
    deaf.sendall(asked.encode())
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
    slow.sendall(asked.encode())
    received, begin = 0, time.monotonic()
    while chunk := slow.recv(LARGE // 64):
        received += len(chunk)
        time.sleep(0.06)
    assert time.monotonic() - begin > 2 * ANSWER  # else it was none of the slow
    assert received > LARGE
    assert len(rest(deaf)) < LARGE


@pytest.mark.slow
def test_what_waits_for_us_may_be_silent(quiet: Quiet, connect: Connect) -> None:
    job = quiet.post(quiet.request(seed=8))["id"]
    stream, waiter, begin = connect(), connect(), time.time()
    stream.sendall(f"GET /v1/jobs/{job}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    waiter.sendall(f"GET /v1/jobs/{job} HTTP/1.1\r\nHost: localhost\r\nPrefer: wait=3\r\n\r\n".encode())
    received = b""
    while b"\r\n:\n\n\r\n" not in received:  # longer than any limit
        chunk = stream.recv(1 << 16)
        assert chunk, received
        received += chunk
    head = waiter.recv(1 << 16).partition(b"\r\n\r\n")[0].decode().lower().split("\r\n")
    assert "preference-applied: wait=3" in head
    (date,) = [line.removeprefix("date: ") for line in head if line.startswith("date: ")]
    assert parsedate_to_datetime(date).timestamp() >= int(begin) + 3  # of the answer's making, not of the request


@pytest.mark.parametrize(
    "framing",
    [
        b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        b"Content-Length: 4\r\ntransfer-encoding: Chunked\r\n",
        b"Content-Length: 4\r\nContent-Length: 5\r\n",
        b"Content-Length: 4, 5\r\n",
        b"Content-Length: +4\r\n",
        b"Transfer-Encoding: gzip\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: chunked, chunked\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    ],
)
@pytest.mark.parametrize("method", [b"GET", b"POST"])
def test_a_body_with_two_ends(connect: Connect, method: bytes, framing: bytes) -> None:
    connection = connect()
    first = b"%b /v1/jobs HTTP/1.1\r\nHost: localhost\r\n%b\r\n" % (method, framing)
    connection.sendall(first + b"0\r\n\r\n" + GET + b"\r\n")
    answer = rest(connection)
    assert answer.startswith(b"HTTP/1.1 400 "), answer
    assert b"connection: close" in answer.lower()
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("size", [15, 16])
def test_a_body_in_crumbs(size: int) -> None:
    connection = StrictParser(h11.SERVER)
    connection.receive_data(POST + b"Transfer-Encoding: chunked\r\n\r\n")
    connection.receive_data((b"%x\r\n%b\r\n" % (size, bytes(size))) * 10_001 + b"0\r\n\r\n")
    with pytest.raises(h11.RemoteProtocolError, match="10000 chunks") if size < 16 else contextlib.nullcontext():
        while not isinstance(connection.next_event(), h11.EndOfMessage):
            pass


def test_a_coding_that_http_1_0_does_not_have(connect: Connect) -> None:
    connection = connect()
    connection.sendall(b"POST /v1/jobs HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    assert rest(connection).startswith(b"HTTP/1.1 400 ")
