"""Route policies: who may use a route, at which rate, and how large its bodies may be.

Every endpoint declares its policy with :func:`access`, beside its path. Middleware reads the policy of the matched
route before it reads the body; a FastAPI dependency would be too late, as FastAPI reads a body first.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from fastapi.routing import iter_route_contexts
from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from service.auth.rate_limits import RateName
from worker.config.settings import Settings
from worker.storage.identifiers import ObjectKind

Access = Literal["open", "metrics", "link", "key"]
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
_ATTRIBUTE = "route_policy"


def _other_body(settings: Settings) -> int:
    return settings.max_body_bytes


@dataclass(frozen=True)
class RoutePolicy:
    """What a route asks of a request before its endpoint sees it.

    Attributes:
        access: ``open`` to everybody; ``metrics``: open if the setting says so; ``link``: for a key, or a link to what
            the path names; ``key``: for a key alone.
        kind: what the path names, where a link is enough.
        example: whether the route is open for the example of its kind, to which the documentation links.
        rate: the rate limit that counts the requests.
        max_body: gives the largest body, in bytes.
    """

    access: Access
    kind: ObjectKind | None = None
    example: bool = False
    rate: RateName = "reads"
    max_body: Callable[[Settings], int] = _other_body


OPEN = RoutePolicy("open")
_Matches = Callable[[Scope], tuple[Match, Scope]]


def access(
    level: Access,
    kind: ObjectKind | None = None,
    *,
    example: bool = False,
    rate: RateName = "reads",
    max_body: Callable[[Settings], int] = _other_body,
) -> Callable[[Endpoint], Endpoint]:
    """Returns a decorator that declares the policy of an endpoint; the parameters are :class:`RoutePolicy`'s."""
    assert (level == "link") == (kind is not None)
    policy = RoutePolicy(level, kind, example, rate, max_body)

    def declare(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _ATTRIBUTE, policy)
        return endpoint

    return declare


@dataclass(frozen=True)
class MatchedPolicy:
    """The policy for one request.

    Attributes:
        policy: of the matched route; that of closed routes if there is none.
        path_params: the parameters in the request's path.
        has_method: whether the route has the request's method; else the answer is 405.
    """

    policy: RoutePolicy
    path_params: Mapping[str, str]
    has_method: bool


_UNMATCHED = MatchedPolicy(RoutePolicy("key"), {}, has_method=False)


class RoutePolicies:
    """The policies of all routes of an app.

    Args:
        routes: the app's, in the order in which they are matched.
        documentation: those that FastAPI made, which are open.

    Raises:
        TypeError: a route declares no policy.
    """

    def __init__(self, routes: Sequence[BaseRoute], documentation: Collection[BaseRoute] = ()) -> None:
        self._routes: list[tuple[_Matches, RoutePolicy]] = []
        self._declared: dict[tuple[str, str], RoutePolicy] = {}
        for route in iter_route_contexts(routes):
            policy = OPEN if route.original_route in documentation else getattr(route.endpoint, _ATTRIBUTE, None)
            if policy is None:
                raise TypeError(f"{route.path} declares no policy: mark its endpoint with @access(...)")
            self._routes.append((route.matches, policy))
            self._declared.update({(method, route.path_format or ""): policy for method in route.methods or ()})

    def match(self, scope: Scope) -> MatchedPolicy:
        """Returns the policy for a request; where a slash too many or too few leads to a redirect, its target's."""
        state = scope.setdefault("state", {})
        if _ATTRIBUTE not in state:
            path = scope["path"]
            other = path.rstrip("/") if path.endswith("/") else f"{path}/"
            state[_ATTRIBUTE] = self._match(scope) or self._match({**scope, "path": other}) or _UNMATCHED
        found = state[_ATTRIBUTE]
        assert isinstance(found, MatchedPolicy)
        return found

    def _match(self, scope: Scope) -> MatchedPolicy | None:
        partial = None
        for matches, policy in self._routes:
            match, child = matches(scope)
            if match == Match.FULL:
                return MatchedPolicy(policy, child.get("path_params", {}), has_method=True)
            if match == Match.PARTIAL and partial is None:
                partial = MatchedPolicy(policy, child.get("path_params", {}), has_method=False)
        return partial

    def declared(self, method: str, path: str) -> RoutePolicy:
        """Returns the policy of the route with this method and path template; KeyError if there is none."""
        return self._declared[method.upper(), path]
