"""The id of a request: the client's, or one of ours; it stands in the answer, in problems, and in every line logged."""

import re
import secrets
from collections.abc import Iterable

from worker.telemetry.logs import bound_fields

HEADER = "X-Request-Id"
FIELD = "request_id"
_SAFE = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._\-]{0,63}")


def chosen_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The client's own, if it is of 64 harmless characters at most and the only one; else a random one."""
    given = [value for name, value in headers if name == HEADER.lower().encode()]
    if len(given) == 1 and _SAFE.fullmatch(given[0]):
        return given[0].decode()
    return secrets.token_hex(16)


def request_id() -> str | None:
    """That of the request that is answered here."""
    found = bound_fields().get(FIELD)
    return str(found) if found is not None else None
