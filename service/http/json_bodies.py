"""JSON in requests: what has two readings is refused, as it is in documents of accelerators.

Python reads UTF-16 and UTF-32 too, takes the last of two values of a key, and knows NaN. Others read, and sign or
check, something else then, or nothing (RFC 8259, sections 4, 6 and 8.1).
"""

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from accel.util.strict_json import ObjectReader, repeated_key
from service.http.problems import ProblemError


class JsonRoute(APIRoute):
    """A route that refuses ambiguous JSON bodies."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Returns the handler of a request."""
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handle(_Request(request.scope, request.receive))

        return strict


class _Request(Request):
    async def json(self) -> Any:
        """Returns the body, parsed by :func:`parsed`."""
        if not hasattr(self, "_json"):
            self._json = parsed(await self.body())
        return self._json


def parsed(body: bytes) -> Any:
    """Returns the value of a JSON body.

    Raises:
        ProblemError: it is not in UTF-8, has a key twice or a number that is none, or is nested too deeply.
        json.JSONDecodeError: it is no JSON.
    """
    try:
        text = body.decode(json.detect_encoding(body))
    except UnicodeDecodeError:
        text = None
    if text is None or not json.detect_encoding(body).startswith("utf-8"):
        raise ProblemError("invalid-request", "the body is not in UTF-8, as JSON is", field="body")
    reader = ObjectReader()
    try:
        document = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=reader)
    except json.JSONDecodeError:
        raise
    except (RecursionError, ValueError) as error:  # Python's limits, of depth and of the digits of an integer
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else "a number has too many digits"
        raise ProblemError("invalid-request", f"the body cannot be read: {reason}", field="body") from error
    if reader.repeated and (path := repeated_key(document)) is not None:
        raise ProblemError("invalid-request", f"{path}: the key is there twice", field=path)
    return document


def _refuse_constant(name: str) -> None:
    raise ProblemError("invalid-request", f"{name} is no number of JSON", field="body")
