"""What stands in the forms of the documentation before anything is typed: requests that work as they are.

They name what every installation has: the examples that come with Cyclops, the presets, and the job submitted last.
"""

import base64
import json
from typing import Any, get_args

from service.job_id import LATEST
from service.upload import InJson
from worker.examples import FILES, FileKind, example, example_accelerator, example_id
from worker.storage.identifiers import ObjectKind

_JSON = "application/json"
_PARTS = {"name": "report.json", "stage": "flatten"}
_LABEL = {"label": "my first"}


def add_examples(document: dict[str, Any]) -> None:
    """Put the examples into the document."""
    paths = document["paths"]
    for path, operations in paths.items():
        for method, operation in operations.items():
            for parameter in operation.get("parameters", []):
                if parameter["in"] == "path":
                    parameter["example"] = _PARTS.get(parameter["name"]) or _id(method, path)
        if "patch" in operations:
            operations["patch"]["requestBody"]["content"][_JSON]["example"] = _LABEL
    for kind in FILES:
        _add_file(kind, paths[f"/v1/{kind}"]["post"])
    document["components"]["schemas"]["InJson"] = InJson.model_json_schema()
    ten_keys = json.loads(example_accelerator().path.read_bytes())
    for media, content in paths["/v1/accelerators"]["post"]["requestBody"]["content"].items():
        if not media.startswith("multipart/"):
            content["example"] = ten_keys
    paths["/v1/jobs"]["post"]["requestBody"]["content"][_JSON]["examples"] = _submissions()


def _id(method: str, path: str) -> str:
    if (method, path) == ("get", "/v1/accelerators/{id}"):
        return "vta"
    for kind in get_args(ObjectKind):
        if path.startswith(f"/v1/{kind}/"):
            return example_id(kind) or LATEST
    raise AssertionError(f"say which id stands in the form of {path}")


def _add_file(kind: FileKind, operation: dict[str, Any]) -> None:
    """Say where a file is to upload, and have the form that needs no file be the first."""
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
