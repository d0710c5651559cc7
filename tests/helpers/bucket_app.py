"""An S3-like server in a process of its own: moto's, with what a real bucket promises and moto does not.

moto looks whether an object is there and then writes it: here a lock makes that one step. ``PUT /_faults?...`` sets
what goes wrong: ``delay``, seconds before every answer; ``lost``, how many creations are done and answered with 500;
``status``, the answer to everything; ``blind``, that no If-None-Match is seen.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qsl

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Faulty:
    """The application, with faults."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._creating = threading.Lock()
        self._faults = {"delay": 0.0, "lost": 0.0, "status": 0.0, "blind": 0.0}

    def __call__(self, environ: dict[str, Any], respond: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/_faults":
            self._faults |= {name: float(value) for name, value in parse_qsl(environ["QUERY_STRING"])}
            respond("200 OK", [])
            return []
        time.sleep(self._faults["delay"])
        if status := int(self._faults["status"]):
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            respond(f"{status} Faulty", [])
            return []
        if self._faults["blind"]:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        if environ.get("HTTP_IF_NONE_MATCH") != "*":
            return self._application(environ, respond)
        with self._creating:
            if not self._faults["lost"]:
                return list(self._application(environ, respond))
            self._faults["lost"] -= 1
            list(self._application(environ, lambda *_: None))
            respond("500 Internal Server Error", [])
            return []


if __name__ == "__main__":
    backend = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", int(sys.argv[1]), Faulty(backend), threaded=True)
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    server.serve_forever()
