"""The OpenAPI document: FastAPI's, with every error as a problem document."""

import json
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from service.documents import problems
from worker.problem import FieldError, Problem

_REF = "#/components/schemas/{model}"


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
    for operations in document["paths"].values():
        for operation in operations.values():
            answers = operation["responses"]
            if "422" in answers and "application/json" in answers["422"].get("content", {}):
                answers["422"] = invalid
            answers["default"] = {**invalid, "description": "Any other problem."}
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    return document
