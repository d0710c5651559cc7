"""The session cookie, in which a browser keeps the key of whoever has logged in."""

from starlette.datastructures import Headers
from starlette.requests import cookie_parser

COOKIE = "cyclops-key"
LOGIN_PATH = "/login"


def key_in_cookie(headers: Headers) -> str | None:
    """Returns the key in the request's session cookie; None without one, or if it has an ``Authorization`` header."""
    if "authorization" in headers:
        return None
    return cookie_parser("; ".join(headers.getlist("cookie"))).get(COOKIE) or None
