"""Rendering of pages: the templates' environment, their filters for numbers and units, and the response."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import version
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from service.auth.caller import LOCAL_CALLER, NO_OWNER, Caller
from service.context import app_context
from service.http.conditional import etag_matches
from service.web.bundle import Bundle
from service.web.static_files import static_url

_KIBI = 1024
_SECONDS = ((1.0, "s", 1.0), (1e-3, "ms", 1e3), (1e-6, "µs", 1e6), (0.0, "ns", 1e9))
_MINUTE, _HOUR = 60, 3600
_FACTOR = 9  # so many times more are told as a factor
_SHORT = 12  # digits that tell uploads and jobs apart
_HEADERS = {"Cache-Control": "private, no-cache", "Vary": "Accept, Authorization, Cookie"}


def count(number: float) -> str:
    """Returns an integer with its thousands set apart: ``1,234,567``."""
    return f"{number:,.0f}"


def size(number: float) -> str:
    """Returns bytes with a binary unit: ``12.5 KiB``."""
    for unit in ("B", "KiB", "MiB"):
        if number < _KIBI:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= _KIBI
    return f"{number:,.1f} GiB"


def quantity(number: float) -> str:
    """Returns a large number in three digits with its prefix: ``12.5 M``."""
    for prefix in ("", "k", "M", "G"):
        if number < 1000:
            return f"{number:.3g} {prefix}".rstrip()
        number /= 1000
    return f"{number:,.3g} T"


def duration(seconds: float) -> str:
    """Returns a time in a unit of its size: ``1.25 ms``, ``12 min 5 s``."""
    if seconds >= _HOUR:
        return f"{seconds // _HOUR:.0f} h {seconds % _HOUR // _MINUTE:.0f} min"
    if seconds >= _MINUTE:
        return f"{seconds // _MINUTE:.0f} min {seconds % _MINUTE:.0f} s"
    if seconds == 0:
        return "0 s"
    _, unit, factor = next(entry for entry in _SECONDS if seconds >= entry[0])
    return f"{seconds * factor:.3g} {unit}"


def energy(picojoules: float) -> str:
    """Returns an energy in a unit of its size: ``2.70 mJ``."""
    for unit in ("pJ", "nJ", "µJ", "mJ"):
        if picojoules < 1000:
            return f"{picojoules:.3g} {unit}"
        picojoules /= 1000
    return f"{picojoules:,.3g} J"


def percent(share: float) -> str:
    """Returns a share as a percentage: ``12.5 %``; one that rounds to nothing and is something as ``< 0.1 %``."""
    if 0 < abs(share) < 0.0005:
        return "< 0.1 %" if share > 0 else "> -0.1 %"
    return f"{share:.1%}".replace("%", "\N{NO-BREAK SPACE}%")


def change(share: float) -> str:
    """Returns a change as a percentage with its sign, ``+12.5 %``; one of ten times and more as a factor, ``x 18``."""
    if share >= _FACTOR:
        return f"\N{MULTIPLICATION SIGN}\N{NO-BREAK SPACE}{share + 1:,.0f}"
    text = percent(share)
    return text if share <= 0 or text.startswith("<") else f"+{text}"


def when(time: datetime) -> Markup:
    """Returns a time of the day in UTC, as a ``<time>`` that machines read too."""
    return Markup('<time datetime="{}">{}</time>').format(
        time.isoformat(timespec="seconds"), f"{time:%d %b %Y, %H:%M:%S} UTC".lstrip("0")
    )


def short(digest: str) -> str:
    """Returns the first digits of an id, which tell it from others at a glance."""
    return digest[:_SHORT]


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("service.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    filters = (count, size, quantity, duration, energy, percent, change, when, short)
    environment.filters.update({each.__name__: each for each in filters})
    environment.filters["path"] = quote
    environment.globals.update({"static": static_url, "island": Bundle.read().island, "version": version("cyclops")})
    return environment


_ENVIRONMENT = _environment()


class Frame:
    """What every page says around its content.

    Attributes:
        keys: whether keys are needed.
        member: whether the reader has a key, or needs none; else a link let him in, or nothing.
        share: the token of the share link by which the reader came; None where none was needed.
        path: the address of the page, without its query.
        here: the same with its query.
    """

    def __init__(self, request: Request) -> None:
        self.here = f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
        self.keys = app_context(request).settings.auth != "off"
        self.path = request.url.path
        caller = getattr(request.state, "caller", None) or (None if self.keys else LOCAL_CALLER)
        self.member = isinstance(caller, Caller) and caller.owner != NO_OWNER
        by_link = isinstance(caller, Caller) and caller.shared is not None
        self.share = request.query_params.get("share") if by_link else None

    def link(self, path: str, **query: object) -> str:
        """Returns an address on this service, with the token of the share link by which the reader came."""
        given = {name: value for name, value in query.items() if value is not None}
        if self.share is not None:
            given["share"] = self.share
        return f"{path}?{urlencode(given, doseq=True)}" if given else path


def frame_of(request: Request) -> Frame:
    """Returns what the page that answers ``request`` says around its content, and the links that it makes."""
    return Frame(request)


def render(
    request: Request, template: str, status: int = 200, headers: Mapping[str, str] | None = None, **values: Any
) -> Response:
    """Returns a page; 304 to a reader who has it.

    Args:
        request: the request that it answers.
        template: the name of its template.
        status: its HTTP status.
        headers: more of them.
        values: what the template names.
    """
    frame = frame_of(request)
    text = _ENVIRONMENT.get_template(template).render(frame=frame, link=frame.link, **values)
    if status != 200:
        return HTMLResponse(text, status, {**_HEADERS, **(headers or {})})
    etag = f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'
    given = {**_HEADERS, "ETag": etag, **(headers or {})}
    if etag_matches(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=given)
    return HTMLResponse(text, status, given)


def see_other(path: str) -> RedirectResponse:
    """Returns the answer that leads from a form to the page at ``path``, which the browser asks for with GET."""
    return RedirectResponse(path, 303)


def local_path(text: str | None, default: str = "/") -> str:
    """Returns ``text`` if it is a path on this service, with a query or without; else ``default``.

    Browsers take a backslash for a slash, two slashes for the begin of a host's name, and leave control characters out.
    """
    if text is None or not text.startswith("/") or text.startswith("//") or "\\" in text:
        return default
    return text if text.isascii() and text.isprintable() and " " not in text else default
