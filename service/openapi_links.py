"""Links of the OpenAPI document: what to do with the id that a POST answers with."""

from typing import Any

_ID = "$response.body#/id"
_COLLECTIONS = ("/v1/models", "/v1/programs", "/v1/tensors", "/v1/accelerators", "/v1/jobs")
# what a job is made of
_JOBS: dict[str, dict[str, Any]] = {
    "/v1/models": {"model": _ID, "accelerator": "vta"},
    "/v1/programs": {"program": _ID},
}


def add_links(document: dict[str, Any]) -> None:
    """Say of every answer that makes something which operations take its id."""
    links: dict[str, Any] = {}
    for collection in _COLLECTIONS:
        operations = document["paths"][collection]
        ours = _of_members(document, collection)
        if collection in _JOBS:
            submit = document["paths"]["/v1/jobs"]["post"]["operationId"]
            ours[f"submit_{_singular(collection)}"] = {"operationId": submit, "requestBody": _JOBS[collection]}
        links.update(ours)
        for status, answer in operations["post"]["responses"].items():
            if status in {"201", "202"}:
                answer["links"] = {name: {"$ref": f"#/components/links/{name}"} for name in ours}
    document["components"]["links"] = dict(sorted(links.items()))


def _of_members(document: dict[str, Any], collection: str) -> dict[str, Any]:
    """A link to each operation on one of the collection that needs nothing but its id."""
    home = f"{collection}/{{id}}"
    return {
        f"{method}_{_singular(collection)}{path.removeprefix(home).replace('/', '_')}": {
            "operationId": operation["operationId"],
            "parameters": {"id": _ID},
        }
        for path, operations in document["paths"].items()
        if path.startswith(home) and "{" not in path.removeprefix(home)
        for method, operation in operations.items()
    }


def _singular(collection: str) -> str:
    return collection.rpartition("/")[2].removesuffix("s")
