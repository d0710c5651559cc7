"""The OpenAPI document: FastAPI's, with every error as a problem document."""

import json
import re
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from service.documents import problems
from service.openapi_examples import add_examples
from service.openapi_links import add_links
from worker.records.problem_details import FieldError, Problem

_REF = "#/components/schemas/{model}"
_UNAVAILABLE = 503
# tags of the routes that work without the store
_WITHOUT_STORE = {"health", "schemas"}
# tags of those that need no key
_OPEN = {"health", "schemas", "problems"}
_SECURITY = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "cyclops_...",
        "description": "a key, of `cyclops keys add`; where the service is its host's alone none is needed",
    },
    "link": {
        "type": "apiKey",
        "in": "query",
        "name": "share",
        "description": "the token of a link to this; it may be sent as a key is, too",
    },
}
_SHARED = re.compile(r"/v1/(jobs|models|programs|tensors|accelerators)/\{id\}.*")
_OWNERS = "/v1/jobs/{id}/webhooks"  # of it a link shows nothing: an address may be half a secret
_OF_BODIES = {str(status): answer for status, answer in problems("request-timeout", "too-large").items()}
_FOREIGN = {str(status): answer for status, answer in problems("forbidden-host").items()}
_FOREIGN_WRITE = {str(status): answer for status, answer in problems("forbidden-host", "cross-origin").items()}
_METRICS = "/metrics"  # needs a key unless a setting says otherwise


def install(app: FastAPI) -> None:
    """Have the app serve our document."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def export(app: FastAPI) -> str:
    """The document as text, the same for the same app."""
    return json.dumps(app.openapi(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    _, ours = models_json_schema([(Problem, "serialization"), (FieldError, "serialization")], ref_template=_REF)
    schemas.update(ours["$defs"])
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    invalid = problems("invalid-request")[422]
    document["components"]["securitySchemes"] = _SECURITY
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            answers = operation["responses"]
            _add_door(path, method, operation)
            answers.update(_FOREIGN if method == "get" else _FOREIGN_WRITE)
            if "422" in answers and "application/json" in answers["422"].get("content", {}):
                answers["422"] = invalid
            if not _WITHOUT_STORE & set(operation["tags"]):
                _add_unavailable(answers)
            if method != "get":
                answers.update({**_OF_BODIES, **answers})
            answers["default"] = {**invalid, "description": "Any other problem."}
    add_links(document)
    add_examples(document)
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    return document


def _add_door(path: str, method: str, operation: dict[str, Any]) -> None:
    """Say who may ask, and how those are answered who may not, or not so often."""
    if _OPEN & set(operation["tags"]) and path != _METRICS:
        operation["security"] = []
        return
    shared = method == "get" and _SHARED.fullmatch(path) is not None and path != _OWNERS
    operation["security"] = [{"key": []}, {"link": []}, {}] if shared else [{"key": []}, {}]
    answers = operation["responses"]
    answers["401"] = problems("unauthorized")[401]
    answers["401"]["headers"] = {"WWW-Authenticate": _text("`Bearer`")}
    known = answers.get("429", {}).get("description", "")
    answers["429"] = problems("rate-limited")[429]
    answers["429"]["description"] = f"{answers['429']['description']} {known}".strip()
    answers["429"]["headers"] = {
        "Retry-After": _text("seconds"),
        "RateLimit": _text("of too many requests: what is left, and for how long"),
    }


def _text(description: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}}


def _add_unavailable(answers: dict[str, Any]) -> None:
    """Say that the store may be away, beside what else the route answers then."""
    away = problems("store-unavailable")[_UNAVAILABLE]
    known = answers.get(str(_UNAVAILABLE), {}).get("description", "")
    away["description"] = f"{known} {away['description']}".strip()
    away["headers"] = {"Retry-After": {"description": "seconds", "schema": {"type": "string"}}}
    answers[str(_UNAVAILABLE)] = away
