"""The session cookie, in which a browser keeps the key of whoever has logged in."""

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response

COOKIE = "cyclops-key"
LOGIN_PATH = "/login"


def key_in_cookie(headers: Headers) -> str | None:
    """Returns the key in the request's session cookie; None without one, or if it has an ``Authorization`` header."""
    if "authorization" in headers:
        return None
    return cookie_parser("; ".join(headers.getlist("cookie"))).get(COOKIE) or None


def forget_key(answer: Response) -> None:
    """Takes the session cookie away from the browser that gets the answer."""
    answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="lax")
