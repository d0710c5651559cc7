"""Every route says who may use it, so that none is open, or unlimited, by accident."""

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from accel.accelerator.text.document_text import MAX_BYTES
from service.app import create_app
from service.auth.route_policy import MatchedPolicy, RoutePolicies, RoutePolicy
from worker.config.settings import Settings

JOB, UPLOAD = "a" * 32, "b" * 64


@pytest.fixture(scope="module")
def app() -> FastAPI:
    return create_app(Settings())


@pytest.fixture(scope="module")
def policies(app: FastAPI) -> RoutePolicies:
    [found] = {middleware.kwargs["policies"] for middleware in app.user_middleware if "policies" in middleware.kwargs}
    assert isinstance(found, RoutePolicies)
    return found


def match(policies: RoutePolicies, method: str, path: str) -> MatchedPolicy:
    return policies.match({"type": "http", "method": method, "path": path, "root_path": "", "headers": []})


def test_a_route_without_a_policy_is_refused(app: FastAPI) -> None:
    with pytest.raises(TypeError, match="declares no policy"):
        RoutePolicies(app.routes)
    RoutePolicies(app.routes, [route for route in app.routes if not hasattr(route, "original_router")])


def test_what_is_open_to_everybody(app: FastAPI, policies: RoutePolicies) -> None:
    """Whoever opens a route says so here, too."""
    named = [(method, route.path_format) for route in iter_route_contexts(app.routes) for method in route.methods or ()]
    found = {path for method, path in named if policies.declared(method, str(path)).access == "open"}
    documentation = {"/docs", "/docs/oauth2-redirect", "/openapi.json"}
    reference = {"/problems", "/problems/{slug}", "/v1/about", "/v1/schemas/accelerator"}
    pages = {"/login", "/logout", "/static/{path}", "/perfetto/{path}"}
    assert found == documentation | reference | pages | {"/healthz", "/readyz"}


def test_links_open_reading_alone(app: FastAPI, policies: RoutePolicies) -> None:
    for route in iter_route_contexts(app.routes):
        for method in route.methods or ():
            policy = policies.declared(method, str(route.path_format))
            if policy.kind is not None:
                assert method == "GET"
                assert str(route.path_format).removeprefix("/v1").startswith(f"/{policy.kind}/{{id}}")
    assert policies.declared("get", "/v1/jobs/{id}/webhooks").access == "key"


@pytest.mark.parametrize(
    ("method", "path", "access", "rate"),
    [
        ("GET", "/metrics", "metrics", "reads"),
        ("POST", "/v1/jobs", "key", "submissions"),
        ("POST", "/v1/jobs/", "key", "submissions"),
        ("POST", f"/v1/jobs/{JOB}/cancel", "key", "reads"),
        ("GET", f"/v1/jobs/{JOB}/artifacts/tir/05-flatten.txt", "link", "reads"),
        ("DELETE", f"/v1/models/{UPLOAD}", "key", "reads"),
        ("GET", "/static-offline-docs/swagger-ui.css", "open", "reads"),
        ("GET", "/v1/nothing", "key", "reads"),
        *(("POST", f"/v1/{kind}", "key", "uploads") for kind in ("models", "programs", "tensors", "accelerators")),
    ],
)
def test_the_policy_of_a_request(policies: RoutePolicies, method: str, path: str, access: str, rate: str) -> None:
    found = match(policies, method, path)
    assert (found.policy.access, found.policy.rate) == (access, rate)


def test_a_link_does_not_open_another_method(policies: RoutePolicies) -> None:
    found = match(policies, "PUT", f"/v1/jobs/{JOB}/report")
    assert (found.policy.kind, found.has_method) == ("jobs", False)


def test_bodies_are_as_large_as_their_routes_say(policies: RoutePolicies) -> None:
    settings = Settings(max_model_bytes=1, max_program_bytes=2, max_tensors_bytes=3, max_body_bytes=4)

    def largest(method: str, path: str) -> int:
        return match(policies, method, path).policy.max_body(settings)

    assert [largest("POST", f"/v1/{kind}") for kind in ("models", "programs", "tensors")] == [1, 2, 3]
    assert largest("POST", "/v1/jobs") == 4 + 2 * MAX_BYTES  # a document in a text of JSON
    assert largest("POST", "/v1/accelerators") > 100_000
    assert largest("GET", "/v1/models") == RoutePolicy("key").max_body(settings) == 4
