"""What schemathesis is told about our API: ids and files that are there. It loads this module in a process of its own.

``CYCLOPS_KNOWN`` names a JSON file: ``kept`` and ``spare``, ids by collection, of which those that are deleted are the
spare ones; ``files``, paths of files that uploads take, by collection.
"""

import json
import os
import random
import re
from pathlib import Path
from typing import Any

import schemathesis
from schemathesis import Case, GenerationMode, HookContext
from schemathesis.core.parameters import ParameterLocation

_KNOWN = json.loads(Path(os.environ["CYCLOPS_KNOWN"]).read_text())
_COLLECTION = re.compile(r"/v1/(models|programs|tensors|accelerators|jobs)(/.*)?")
_ID = re.compile(r"[0-9a-f]{32}([0-9a-f]{32})?")
_random = random.Random(1)


@schemathesis.hook
def before_load_schema(_context: HookContext, raw_schema: dict[str, Any]) -> None:
    """Take away what would let anything pass: that there may be any other problem, and that no key may be needed."""
    for path, operations in raw_schema["paths"].items():
        for operation in operations.values():
            del operation["responses"]["default"]
            for answer in operation["responses"].values():
                # it holds for the stream's text, and would be looked for in each event
                answer.get("content", {}).get("text/event-stream", {}).pop("schema", None)
            if operation.get("security") and not path.endswith("/content"):  # an example's needs none
                operation["security"] = [{"key": []}]


@schemathesis.hook
def before_call(_context: HookContext, case: Case, _arguments: dict[str, Any]) -> None:
    """Put what is there in the place of made-up ids and files, more often than not."""
    match = _COLLECTION.fullmatch(case.operation.path)
    if match is None or _random.random() < 0.2:
        return
    collection = match[1]
    if _valid(case, ParameterLocation.PATH) and case.path_parameters:
        _name(case.path_parameters, collection, "spare" if case.method == "DELETE" else "kept")
    if case.method == "POST" and match[2] is None and _valid(case, ParameterLocation.BODY):
        if collection == "jobs":
            _submission(case.body)
        else:
            case.body = Path(_random.choice(_KNOWN["files"][collection])).read_bytes()
            case.media_type = "application/octet-stream"
            case.headers.pop("Content-Type", None)


def _valid(case: Case, location: ParameterLocation) -> bool:
    part = case.meta.components.get(location) if case.meta else None
    return part is not None and part.mode == GenerationMode.POSITIVE


def _name(parameters: dict[str, Any], collection: str, which: str) -> None:
    if not _ID.fullmatch(str(parameters["id"])):  # else it comes from an answer, by a link
        parameters["id"] = _random.choice(_KNOWN[which][collection])
    if "name" in parameters:
        parameters["name"] = _random.choice(["report.json", "tir/08-allocate.txt", "program.zip", "events.jsonl"])
    if "index" in parameters:
        parameters["index"] = _random.choice([0, 1, 10**6])
    if "stage" in parameters:
        parameters["stage"] = _random.choice(["flatten", "allocate", "import"])


def _submission(body: Any) -> None:
    if not isinstance(body, dict):
        return
    for field, collection in (("model", "models"), ("program", "programs")):
        if isinstance(body.get(field), str):
            body[field] = _random.choice(_KNOWN["kept"][collection])
    if isinstance(body.get("accelerator"), str):
        body["accelerator"] = _random.choice([*_KNOWN["kept"]["accelerators"], "vta"])
    options = body.get("options")
    for field in ("inputs", "calibration"):
        if isinstance(options, dict) and isinstance(options.get(field), str):
            options[field] = _random.choice(_KNOWN["kept"]["tensors"])
