"""Access control: authenticates the caller before anything else is done for a request, and limits request rates.

Each route says whether it needs a key (``service/auth/route_policy.py``); a path without a route needs one. What a
request may see is then up to the context (``service/context.py``), which is restricted to its caller.
"""

import ipaddress
import logging
import re
import socket
from collections.abc import Mapping
from typing import Literal
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.auth.caller import ANONYMOUS, LOCAL_CALLER, NO_OWNER, Caller
from service.auth.rate_limits import UNCOUNTED, RateCounter, RateLimit, RateName
from service.auth.route_policy import MatchedPolicy, RoutePolicies
from service.auth.session_cookie import key_in_cookie
from service.context import AccessContext, Context
from service.http.problems import ProblemError, problem_response, store_unavailable_response
from worker.config.settings import Settings
from worker.examples import is_example
from worker.identity import secret_tokens
from worker.identity.api_keys import ApiKeys
from worker.identity.share_links import ShareTarget
from worker.storage.object_store import StoreUnavailableError

_log = logging.getLogger(__name__)
_SHAREABLE_ID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{64}")  # of a job, of an upload


class AccessControl:
    """ASGI middleware: answers 401 without a key where one is needed, and 429 above a rate limit."""

    def __init__(self, app: ASGIApp, settings: Settings, policies: RoutePolicies) -> None:
        self._app = app
        self._policies = policies
        # where it is not known who can reach the api, keys are needed
        self._keys_needed = settings.auth != "off"
        self._counting = self._keys_needed or settings.rate_by_address
        self._metrics_open = settings.metrics_open
        self._rates: dict[RateName, RateLimit] = {
            "uploads": RateLimit("uploads", settings.rate_uploads),
            "submissions": RateLimit("submissions", settings.rate_submissions),
            "reads": RateLimit("reads", settings.rate_reads),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on with its caller, or refuses it."""
        if scope["type"] == "websocket":  # there is none
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        matched = self._policies.match(scope)
        try:
            caller = await self._caller(scope, matched)
            counter = self._counter(scope, caller, matched)
            rate = matched.policy.rate if matched.has_method else "reads"
            taken = await run_in_threadpool(counter.take, rate) if counter.is_limited(rate) else None
        except ProblemError as error:
            await problem_response(error.problem, error.headers)(scope, receive, send)
            return
        except StoreUnavailableError as error:
            await store_unavailable_response(scope["method"], scope["path"], error)(scope, receive, send)
            return
        scope.setdefault("state", {}).update(caller=caller, counter=counter)
        await self._app(scope, receive, send if taken is None else _with_headers(send, taken.headers))

    async def _caller(self, scope: Scope, matched: MatchedPolicy) -> Caller:
        """Returns the caller of the request.

        Raises:
            ProblemError: the route needs a key or a link, and the request has none that is valid.
            StoreUnavailableError: the store cannot be reached to look it up.
        """
        if not self._keys_needed:
            return LOCAL_CALLER
        headers = Headers(scope=scope)
        given = _bearer_token(headers) or key_in_cookie(headers)
        owner = await self._owner(scope, given)
        if shared := await self._shared(scope, given, matched):
            thing, link = shared
            return Caller(owner or NO_OWNER, thing, owner or f"link:{link}")
        if owner is not None:
            return Caller(owner, counted_as=owner)
        if self._is_open(matched):
            return ANONYMOUS
        raise _unauthorized(given)

    def _is_open(self, matched: MatchedPolicy) -> bool:
        policy = matched.policy
        if policy.access == "metrics":
            return self._metrics_open
        if policy.example and policy.kind is not None:
            return is_example(policy.kind, matched.path_params["id"])
        return policy.access == "open"

    @staticmethod
    async def _owner(scope: Scope, given: str | None) -> str | None:
        if given is None or not secret_tokens.is_well_formed(given, secret_tokens.KEY):
            return None
        keys = _access_context(scope).keys
        key = keys.get(given) or await run_in_threadpool(keys.find, given)
        return None if key is None else key.owner

    @staticmethod
    async def _shared(scope: Scope, given: str | None, matched: MatchedPolicy) -> tuple[ShareTarget, str] | None:
        """Returns what a link of the request opens for reading, and the link's digest."""
        if matched.policy.kind is None or not matched.has_method:
            return None
        if not _SHAREABLE_ID.fullmatch(matched.path_params["id"]):
            return None
        shared = ShareTarget(matched.policy.kind, matched.path_params["id"])
        for text in [given, *parse_qs(scope["query_string"].decode("latin-1")).get("share", [])[:1]]:
            if text and (opened := await run_in_threadpool(_access_context(scope).shares.resolve, text, shared)):
                return opened, secret_tokens.token_digest(text)
        return None

    def _counter(self, scope: Scope, caller: Caller, matched: MatchedPolicy) -> RateCounter:
        """Returns what counts the request, and what it does beside that, against the caller's rate limits."""
        if not self._counting or caller is ANONYMOUS or self._is_open(matched):
            return UNCOUNTED
        who = caller.counted_as or f"address:{(scope.get('client') or ('',))[0]}"
        return RateCounter(_access_context(scope).rates, self._rates, who)


def resolve_auth(auth: Literal["auto", "keys", "off"], bound: socket.socket) -> Literal["keys", "off"]:
    """Returns what ``auto`` means for an api that listens on this address: ``off`` on the loopback, else ``keys``."""
    if auth != "auto":
        return auth
    address = ipaddress.ip_address(bound.getsockname()[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return "off" if (mapped or address).is_loopback else "keys"


def warn_without_keys(keys: ApiKeys) -> None:
    """Logs how to make a key, if there is none."""
    try:
        if not any(not revoked for _, revoked in keys.all()):
            _log.warning("Keys are needed and there is none: make one with `cyclops keys add NAME`")
    except StoreUnavailableError as error:
        _log.warning("whether there are keys cannot be seen: %s", error)


def _access_context(scope: Scope) -> AccessContext:
    context = scope["app"].state.context
    assert isinstance(context, Context)
    return context.access


def _bearer_token(headers: Headers) -> str | None:
    """Returns the bearer token of the request (RFC 6750, section 2.1)."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else None


def _unauthorized(given: str | None) -> ProblemError:
    if given is None:
        detail = "send a key: Authorization: Bearer ..."
    elif not secret_tokens.is_well_formed(given, secret_tokens.KEY):
        detail = "the bearer token does not have the form of a key: it is cut or mistyped"
    else:
        detail = "the key is unknown or revoked"
    return ProblemError("unauthorized", detail, headers={"WWW-Authenticate": "Bearer"})


def _with_headers(send: Send, headers: Mapping[str, str]) -> Send:
    async def telling(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(headers)
        await send(message)

    return telling
