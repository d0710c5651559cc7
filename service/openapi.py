"""The OpenAPI document: FastAPI's, with every error as a problem document, links between operations, and examples.

The examples fill the forms of the documentation with requests that work as they are. They name what every installation
has: the examples that come with Cyclops, the presets, and the job submitted last.
"""

import base64
import json
from typing import Any, get_args

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from service.auth.route_policy import RoutePolicies, RoutePolicy
from service.http.declarations import declare_problems
from service.jobs.job_id import LATEST
from service.uploads.receive import InJson
from worker.examples import FILES, FileKind, example, example_accelerator, example_id
from worker.records.problem_details import FieldError, Problem
from worker.storage.identifiers import ObjectKind

_REF = "#/components/schemas/{model}"
_UNAVAILABLE = 503
# tags of the routes that work without the store
_WITHOUT_STORE = {"health", "schemas"}
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
_BODY_PROBLEMS = {str(status): answer for status, answer in declare_problems("request-timeout", "too-large").items()}
_CROSS_ORIGIN_READ = {str(status): answer for status, answer in declare_problems("forbidden-host").items()}
_CROSS_ORIGIN_WRITE = {
    str(status): answer for status, answer in declare_problems("forbidden-host", "cross-origin").items()
}


def install_openapi(app: FastAPI, policies: RoutePolicies) -> None:
    """Has the app serve this document instead of FastAPI's."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _openapi_document(app, policies)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def openapi_text(app: FastAPI) -> str:
    """Returns the document as text, the same for the same app."""
    return json.dumps(app.openapi(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _openapi_document(app: FastAPI, policies: RoutePolicies) -> dict[str, Any]:
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
    invalid = declare_problems("invalid-request")[422]
    document["components"]["securitySchemes"] = _SECURITY
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            answers = operation["responses"]
            _add_access_control(policies.declared(method, path), operation)
            answers.update(_CROSS_ORIGIN_READ if method == "get" else _CROSS_ORIGIN_WRITE)
            if "422" in answers and "application/json" in answers["422"].get("content", {}):
                answers["422"] = invalid
            if not _WITHOUT_STORE & set(operation["tags"]):
                _add_store_unavailable(answers)
            if method != "get":
                answers.update({**_BODY_PROBLEMS, **answers})
            answers["default"] = {**invalid, "description": "Any other problem."}
    add_links(document)
    add_examples(document)
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    return document


def _add_access_control(policy: RoutePolicy, operation: dict[str, Any]) -> None:
    """Declares who may use the operation, and the responses to callers who may not, or not so often."""
    if policy.access == "open":
        operation["security"] = []
        return
    operation["security"] = [{"key": []}, {"link": []}, {}] if policy.access == "link" else [{"key": []}, {}]
    answers = operation["responses"]
    answers["401"] = declare_problems("unauthorized")[401]
    answers["401"]["headers"] = {"WWW-Authenticate": _text_header("`Bearer`")}
    known = answers.get("429", {}).get("description", "")
    answers["429"] = declare_problems("rate-limited")[429]
    answers["429"]["description"] = f"{answers['429']['description']} {known}".strip()
    answers["429"]["headers"] = {
        "Retry-After": _text_header("seconds"),
        "RateLimit": _text_header("of too many requests: what is left, and for how long"),
    }


def _text_header(description: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}}


def _add_store_unavailable(answers: dict[str, Any]) -> None:
    """Declares that the store may be unreachable, in addition to the route's own 503."""
    away = declare_problems("store-unavailable")[_UNAVAILABLE]
    known = answers.get(str(_UNAVAILABLE), {}).get("description", "")
    away["description"] = f"{known} {away['description']}".strip()
    away["headers"] = {"Retry-After": {"description": "seconds", "schema": {"type": "string"}}}
    answers[str(_UNAVAILABLE)] = away


_ID = "$response.body#/id"
_COLLECTIONS = ("/v1/models", "/v1/programs", "/v1/tensors", "/v1/accelerators", "/v1/jobs")
# what a job is made of
_JOBS: dict[str, dict[str, Any]] = {
    "/v1/models": {"model": _ID, "accelerator": "vta"},
    "/v1/programs": {"program": _ID},
}


def add_links(document: dict[str, Any]) -> None:
    """Links each response that creates something to the operations that take its id."""
    links: dict[str, Any] = {}
    for collection in _COLLECTIONS:
        operations = document["paths"][collection]
        ours = _member_links(document, collection)
        if collection in _JOBS:
            submit = document["paths"]["/v1/jobs"]["post"]["operationId"]
            ours[f"submit_{_singular(collection)}"] = {"operationId": submit, "requestBody": _JOBS[collection]}
        links.update(ours)
        for status, answer in operations["post"]["responses"].items():
            if status in {"201", "202"}:
                answer["links"] = {name: {"$ref": f"#/components/links/{name}"} for name in ours}
    document["components"]["links"] = dict(sorted(links.items()))


def _member_links(document: dict[str, Any], collection: str) -> dict[str, Any]:
    """Returns a link to each operation on a member of the collection that needs nothing but its id."""
    home = f"{collection}/{{id}}"
    return {
        f"{method}_{_singular(collection)}{path.removeprefix(home).replace('/', '_')}": {
            "operationId": operation["operationId"],
            "parameters": {"id": _ID},
        }
        for path, operations in document["paths"].items()
        if path.startswith(home) and "{" not in path.removeprefix(home)
        for method, operation in operations.items()
        if not any(one["in"] == "query" and one["required"] for one in operation.get("parameters", []))
    }


def _singular(collection: str) -> str:
    return collection.rpartition("/")[2].removesuffix("s")


_JSON = "application/json"
_PATH_EXAMPLES = {"name": "report.json", "stage": "flatten", "index": 1, "table": "layers"}
_LABEL_EXAMPLE = {"label": "my first"}


def add_examples(document: dict[str, Any]) -> None:
    """Adds the examples to the document."""
    paths = document["paths"]
    for path, operations in paths.items():
        for method, operation in operations.items():
            for parameter in operation.get("parameters", []):
                if path == "/v1/compare" and parameter["required"]:
                    parameter["example"] = LATEST
                if parameter["in"] == "path":
                    parameter["example"] = _PATH_EXAMPLES.get(parameter["name"]) or _example_id(method, path)
        if "patch" in operations:
            operations["patch"]["requestBody"]["content"][_JSON]["example"] = _LABEL_EXAMPLE
    for kind in FILES:
        _add_file(kind, paths[f"/v1/{kind}"]["post"])
    document["components"]["schemas"]["InJson"] = InJson.model_json_schema()
    ten_keys = json.loads(example_accelerator().path.read_bytes())
    for media, content in paths["/v1/accelerators"]["post"]["requestBody"]["content"].items():
        if not media.startswith("multipart/"):
            content["example"] = ten_keys
    # all changes that there are: which ones depends on the accelerator
    paths["/v1/jobs/{id}/changes"]["post"]["requestBody"]["content"][_JSON]["example"] = {}
    paths["/v1/accelerators/{id}/derive"]["post"]["requestBody"]["content"][_JSON]["example"] = {
        "set": {"LOG_BLOCK": 5}
    }
    paths["/v1/jobs"]["post"]["requestBody"]["content"][_JSON]["examples"] = _submissions()


def _example_id(method: str, path: str) -> str:
    if (method, path) in {("get", "/v1/accelerators/{id}"), ("post", "/v1/accelerators/{id}/derive")}:
        return "vta"
    for kind in get_args(ObjectKind):
        if path.startswith(f"/v1/{kind}/"):
            return example_id(kind) or LATEST
    raise AssertionError(f"say which id stands in the form of {path}")


def _add_file(kind: FileKind, operation: dict[str, Any]) -> None:
    """Adds the example in Base64 as the first form of the upload, and links to its file."""
    ours = example(kind)
    text = base64.b64encode(ours.path.read_bytes()).decode()
    operation["description"] += (
        f"\n\nNo file at hand? Send the JSON as it stands here: it is [{FILES[kind]}](/v1/{kind}/{ours.id}/content) in "
        "Base64, which everybody may use without uploading it, too. To choose a file of your own, take another media "
        "type."
    )
    body = operation["requestBody"]
    in_json = {"schema": {"$ref": "#/components/schemas/InJson"}, "example": {"base64": text}}
    body["content"] = {_JSON: in_json, **body["content"]}


def _submissions() -> dict[str, Any]:
    model, program, tensors = (example_id(kind) for kind in ("models", "programs", "tensors"))
    values: dict[str, dict[str, Any]] = {
        "a model": {"model": model, "accelerator": "vta", "label": "my first job"},
        "a model, with inputs of its own": {
            "model": model,
            "accelerator": "vta",
            "options": {"inputs": tensors},
            "label": "with inputs",
        },
        "a program": {"program": program, "label": "a program"},
        "a model, once more": {"model": model, "accelerator": "vta", "fresh": True},
    }
    return {name: {"value": value} for name, value in values.items()}
