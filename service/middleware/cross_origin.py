"""Cross-origin protection: host names that requests may use, writes from other sites' pages, and CORS.

A browser lets any page send us requests, with whatever power the user's place in the network gives. It tells us the
name that it asked for (``Host``) and where the page is from (``Origin``, ``Sec-Fetch-Site``), which no page can forge;
a page whose own name was made to lead to us (DNS rebinding) asks us by that name.

A session cookie comes with whatever page of the same site makes its browser ask, another port of the host among them:
what it writes, and who logs in, must come from a page of ours, and the browser must say so.
"""

import ipaddress
import re
from collections.abc import Sequence

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from service.auth.session_cookie import LOGIN_PATH, key_in_cookie
from service.http.problems import ProblemError, problem_response
from worker.config.http_settings import HttpSettings

_ALLOWED_HEADERS = (
    *("Authorization", "Content-Type", "Range", "If-None-Match", "If-Range"),
    *("Idempotency-Key", "Last-Event-ID", "Prefer", "X-Request-Id", "traceparent", "tracestate"),
)
# what scripts need beyond what they always see: all that we send and browsers do not keep for themselves
_EXPOSED_HEADERS = (
    *("Location", "ETag", "Retry-After", "Content-Range", "Accept-Ranges", "Content-Disposition"),
    *("RateLimit", "RateLimit-Policy", "WWW-Authenticate", "Preference-Applied", "Idempotent-Replayed"),
    *("X-Request-Id", "Cyclops-Label", "Allow", "Accept-Encoding"),
)
_READ_METHODS = {"GET", "HEAD", "OPTIONS"}
_PROBES = {"/healthz", "/readyz"}
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\[\]:@/\\\s]+)(?::(?P<port>[0-9]{0,5}))?")
_PORTS = {"http": "80", "https": "443"}
_LAST_PORT = 65535
_SHOWN_CHARACTERS = 100


def allow_origins(app: FastAPI, origins: Sequence[str]) -> None:
    """Allows requests from pages of these origins. Scripts send keys, not browsers: no credentials are allowed."""
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=_ALLOWED_HEADERS,
            expose_headers=_EXPOSED_HEADERS,
            max_age=600,
        )


class CrossOriginGuard:
    """ASGI middleware: answers 403 to an unknown host name, and to a write from another site's page.

    Where keys are needed any name will do unless the settings say otherwise: what a page may read then, all may.
    """

    def __init__(self, app: ASGIApp, settings: HttpSettings) -> None:
        self._app = app
        self._origins = settings.origins
        self._keys_needed = settings.auth != "off"
        self._names = AllowedHosts(settings.hosts, others=settings.auth != "off" and not settings.hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on unless its host or its origin is refused."""
        if scope["type"] == "http":
            try:
                headers = Headers(scope=scope)
                self._check_host(scope["path"], headers)
                if scope["method"] not in _READ_METHODS:
                    if self._keys_needed and (scope["path"] == LOGIN_PATH or key_in_cookie(headers) is not None):
                        _check_own_page(headers)
                    self._check_origin(headers)
            except ProblemError as error:
                await problem_response(error.problem)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check_host(self, path: str, headers: Headers) -> None:
        """Checks the request's host name; a request without one, of HTTP/1.0, does not come from a browser.

        Raises:
            ProblemError: it does not.
        """
        if (host := headers.get("host")) is None or self._names.known(host, probe=path in _PROBES):
            return
        detail = (
            f"{host[:_SHOWN_CHARACTERS]!r} is not a host name of this service; use localhost or 127.0.0.1, or have its "
            "operator add the name to CYCLOPS_ALLOWED_HOSTS"
        )
        raise ProblemError("forbidden-host", detail, field="Host")

    def _check_origin(self, headers: Headers) -> None:
        """Checks that the request does not come from another site's page.

        Raises:
            ProblemError: one did, and its origin is none of those that may.
        """
        origins, sites = headers.getlist("origin"), headers.getlist("sec-fetch-site")
        if "*" in self._origins or (len(origins) == 1 and origins[0] in self._origins):
            return
        if sites:  # the browser compared them, behind whatever proxy we are
            if all(site in {"same-origin", "none"} for site in sites):
                return
        elif all(_is_own(origin, headers.get("host", "")) for origin in origins):
            return
        source = ", ".join(origins)[:_SHOWN_CHARACTERS] or "another site"
        detail = (
            f"a page of {source} may change nothing here; its operator could add its origin to CYCLOPS_CORS_ORIGINS"
        )
        raise ProblemError("cross-origin", detail, field="Origin" if origins else "Sec-Fetch-Site")


def _check_own_page(headers: Headers) -> None:
    """Checks that the request comes from a page of this service, as its browser says.

    Raises:
        ProblemError: it does not, or the browser says nothing.
    """
    origins, sites = headers.getlist("origin"), headers.getlist("sec-fetch-site")
    # over plain HTTP browsers say Sec-Fetch-Site to the loopback address alone
    by_origin = len(origins) == 1 and _is_own(origins[0], headers.get("host", ""))
    if not (set(sites) == {"same-origin"} if sites else by_origin):
        source = ", ".join(origins)[:_SHOWN_CHARACTERS] or "another place"
        detail = (
            f"this came from {source}: who has logged in writes from the pages of this service alone; programs send "
            "the key as Authorization: Bearer ..."
        )
        raise ProblemError("cross-origin", detail, field="Sec-Fetch-Site" if sites else "Origin")


class AllowedHosts:
    """The host names that requests may use: those of the loopback address, and more.

    Args:
        hosts: further ones; ``*.name`` is all below that name, ``*`` is any.
        others: whether all others will do, too.
    """

    def __init__(self, hosts: Sequence[str], *, others: bool = False) -> None:
        self._any = others or "*" in hosts
        self._whole = {_normalized_host(host) for host in hosts if not host.startswith("*")}
        self._below = tuple(host.lower().removeprefix("*") for host in hosts if host.startswith("*."))

    def known(self, host: str, *, probe: bool = False) -> bool:
        """Returns whether a ``Host`` is allowed.

        A ``probe`` may ask by an address or a name without dots too, as those of containers do: no page has these.
        """
        if self._any:
            return True
        match = _HOST.fullmatch(host.strip().lower())
        if match is None or int(match["port"] or 0) > _LAST_PORT:
            return False
        name = _normalized_host(match["name"])
        if name in self._whole or name.endswith(self._below) or _is_loopback(name):
            return True
        return probe and ("." not in name or _address(name) is not None)


def _normalized_host(name: str) -> str:
    return name.lower().strip("[]").removesuffix(".")


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _is_loopback(name: str) -> bool:
    address = _address(name)
    if address is None:
        return name == "localhost" or name.endswith(".localhost")
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _is_own(origin: str, host: str) -> bool:
    """Returns whether ``origin`` is that of ``host``; a missing port is the default of the origin's scheme."""
    scheme, found, authority = origin.lower().partition("://")
    page, ours = _HOST.fullmatch(authority), _HOST.fullmatch(host.strip().lower())
    if not found or scheme not in _PORTS or page is None or ours is None:
        return False
    default = _PORTS[scheme]
    return page["name"] == ours["name"] and (page["port"] or default) == (ours["port"] or default)
