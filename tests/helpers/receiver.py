"""Somebody who receives webhooks: an HTTPS server on the loopback address, with an authority of its own."""

import base64
import contextlib
import hashlib
import hmac
import http.server
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trustme

SECRET = "whsec_" + base64.b64encode(bytes(range(100, 132))).decode()


@dataclass(frozen=True)
class Received:
    """A request."""

    path: str
    headers: dict[str, str]
    body: bytes
    when: float

    @property
    def document(self) -> dict[str, Any]:
        return json.loads(self.body)

    def genuine(self, secret: str = SECRET) -> bool:
        """Whether it is signed as the specification of Standard Webhooks says."""
        key = base64.b64decode(secret.split("_", 1)[1])
        signed = b".".join([self.headers["webhook-id"].encode(), self.headers["webhook-timestamp"].encode(), self.body])
        right = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        recent = abs(time.time() - int(self.headers["webhook-timestamp"])) < 300
        return recent and self.headers["webhook-signature"] == f"v1,{right}"


Answer = Callable[[http.server.BaseHTTPRequestHandler, int], None]


def status(code: int, **headers: str) -> Answer:
    """Answers with a status."""

    def answer(handler: http.server.BaseHTTPRequestHandler, _number: int) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", "2")
        handler.end_headers()
        handler.wfile.write(b"ok")

    return answer


@dataclass
class Receiver:
    """It runs; ``answers``: how the paths answer, by the number of the request to each; else with 204."""

    port: int
    authority: Path
    answers: dict[str, Answer] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)
    connections: int = 0

    def url(self, path: str, host: str = "localhost") -> str:
        return f"https://{host}:{self.port}{path}"

    def at(self, path: str) -> list[Received]:
        return [each for each in self.received if each.path == path]

    def wait(self, path: str, count: int = 1, seconds: float = 60) -> list[Received]:
        deadline = time.monotonic() + seconds
        while len(self.at(path)) < count:
            assert time.monotonic() < deadline, (path, count, self.received)
            time.sleep(0.05)
        return self.at(path)


@contextlib.contextmanager
def receiver(directory: Path, *names: str) -> Iterator[Receiver]:
    """It runs inside the context, with a certificate of ``localhost``, or of these names."""
    authority = trustme.CA()
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "authority.pem"
    authority.cert_pem.write_to_path(str(file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*(names or ("localhost",))).configure_cert(context)
    made = Receiver(0, file)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            made.received.append(Received(self.path, headers, body, time.time()))
            with contextlib.suppress(OSError):
                made.answers.get(self.path, status(204))(self, len(made.at(self.path)))

        do_GET = do_POST  # noqa: N815 - the base class's names

        def log_message(self, *_: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def get_request(self) -> Any:
            made.connections += 1
            return super().get_request()

        def finish_request(self, request: Any, address: Any) -> None:
            with (
                contextlib.suppress(OSError),  # who does not trust us leaves
                context.wrap_socket(request, server_side=True) as secured,
            ):
                super().finish_request(secured, address)

        def handle_error(self, *_: object) -> None:
            pass

    with Server(("127.0.0.1", 0), Handler) as server:
        made.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()
