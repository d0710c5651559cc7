"""What Swagger UI sends when a form of ours is executed as it stands: a request made of the OpenAPI document alone."""

import json
from dataclasses import dataclass, field
from typing import Any

METHODS = ("get", "post", "put", "patch", "delete")
_NOTHING = object()


@dataclass(frozen=True)
class Pressed:
    """An operation of the document with what its form holds at first."""

    method: str
    path: str
    url: str
    parameters: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes | None = None


def all_pressed(document: dict[str, Any]) -> list[Pressed]:
    """Every operation, in the document's order."""
    return [
        pressed(document, method, path)
        for path, operations in document["paths"].items()
        for method in METHODS
        if method in operations
    ]


def pressed(document: dict[str, Any], method: str, path: str) -> Pressed:
    """The request; AssertionError where the form cannot be executed before something is typed."""
    operation = document["paths"][path][method]
    url, query, headers = path, {}, {}
    for parameter in operation.get("parameters", []):
        value = _prefilled(document, parameter)
        if value is _NOTHING:
            assert not parameter.get("required"), f"{method} {path}: {parameter['name']} has to be typed"
        elif parameter["in"] == "path":
            url = url.replace(f"{{{parameter['name']}}}", str(value))
        elif parameter["in"] == "query":
            query[parameter["name"]] = value
        else:
            headers[parameter["name"]] = str(value)
    content = None
    if body := operation.get("requestBody"):
        media, first = next(iter(body["content"].items()))
        assert not _is_file(document, first["schema"]), f"{method} {path}: a file has to be chosen"
        headers["Content-Type"] = media
        value = _prefilled(document, first)
        content = json.dumps(sample(document, first["schema"]) if value is _NOTHING else value).encode()
    return Pressed(method, path, url, query, headers, content)


def _prefilled(document: dict[str, Any], holder: dict[str, Any]) -> Any:
    """The example of a parameter or a body, else the default; Swagger UI fills lists by a sample."""
    if "example" in holder:
        return holder["example"]
    if "examples" in holder:
        return next(iter(holder["examples"].values()))["value"]
    schema = _resolved(document, holder["schema"])
    for name in ("example", "default"):
        if name in schema:
            return schema[name]
    if "examples" in schema:
        return schema["examples"][0]
    return sample(document, schema) if schema.get("type") == "array" else _NOTHING


def sample(document: dict[str, Any], schema: dict[str, Any]) -> Any:
    """A value made of a schema."""
    schema = _resolved(document, schema)
    for name in ("example", "default", "const"):
        if name in schema:
            return schema[name]
    for name in ("examples", "enum"):
        if name in schema:
            return schema[name][0]
    for name in ("anyOf", "oneOf"):
        if name in schema:
            return sample(document, schema[name][0])
    if schema.get("type") == "object":
        return {name: sample(document, inner) for name, inner in schema.get("properties", {}).items()}
    if schema.get("type") == "array":
        return [sample(document, schema["items"])]
    return {"string": "string", "integer": 0, "number": 0, "boolean": True}.get(schema.get("type"))


def _resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        found = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = found
    return schema


def _is_file(document: dict[str, Any], schema: dict[str, Any]) -> bool:
    schema = _resolved(document, schema)
    return schema.get("format") == "binary" or any(
        _is_file(document, inner) for inner in schema.get("properties", {}).values()
    )
