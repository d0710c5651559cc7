"""The JSON Schema (2020-12) of an accelerator document, with what each installed family asks of ``parameters``.

It covers the form of a document. That names are defined, fields do not overlap and expressions fit their operands is
checked by :func:`accel.catalog.load_accelerator.check_accelerator`.
"""

import functools
import hashlib
import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from accel.accelerator.document import Accelerator
from accel.errors import InvalidAccelerator
from accel.isa.family import Family
from accel.isa.family_registry import family, family_names

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ID = "urn:cyclops:schema:accelerator:2"
MEDIA_TYPE = "application/schema+json"

Schema = dict[str, Any]
_DEFINITIONS = "#/$defs/"


def accelerator_schema() -> Schema:
    """Returns the schema, with the ``parameters`` of every family that is installed and can be loaded."""
    families = list(_families())
    models: list[type[BaseModel]] = [Accelerator, *(one.parameters for one in families)]
    references, made = models_json_schema([(model, "validation") for model in dict.fromkeys(models)])
    definitions: Schema = made["$defs"]
    for definition in _within(definitions):
        _tighten(definition, definitions)
    document = definitions.pop(_name(references[Accelerator, "validation"]))
    document["properties"]["family"]["enum"] = [one.name for one in families]
    conditions = [_condition(one, references[one.parameters, "validation"], definitions) for one in families]
    return {"$schema": DIALECT, "$id": ID, **document, "allOf": conditions, "$defs": definitions}


@functools.cache
def schema_text() -> str:
    """Returns the schema as JSON text. It is cached: the installed families do not change while the process lives."""
    return json.dumps(accelerator_schema(), indent=2, ensure_ascii=False) + "\n"


def schema_digest(text: str) -> str:
    """Returns the SHA-256 of the schema's text, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def _families() -> Iterator[Family]:
    for name in family_names():
        try:
            yield family(name)
        except InvalidAccelerator:
            continue  # its documents are refused, and why is said there


def _condition(one: Family, parameters: Schema, definitions: Schema) -> Schema:
    """The schema's condition: where the document names the family, ``parameters`` are of its model."""
    asked = definitions[_name(parameters)].get("required", [])
    then: Schema = {"properties": {"parameters": parameters}, **({"required": ["parameters"]} if asked else {})}
    return {"if": {"properties": {"family": {"const": one.name}}, "required": ["family"]}, "then": then}


def _name(reference: Schema) -> str:
    return str(reference["$ref"]).removeprefix(_DEFINITIONS)


def _within(node: Any) -> Iterator[Schema]:
    """Every object of the schema, including objects inside defaults and examples."""
    if isinstance(node, dict):
        yield node
    for child in list(node.values()) if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _within(child)


def _tighten(node: Schema, definitions: Schema) -> None:
    """Add what the models check and Pydantic's schema leaves out, and an example for each field with a default."""
    if isinstance(node.get("patternProperties"), dict):
        node["additionalProperties"] = False
    if isinstance(chosen := node.get("discriminator"), dict) and "mapping" in chosen:
        for reference in chosen["mapping"].values():
            model = definitions[reference.removeprefix(_DEFINITIONS)]
            model["required"] = list(dict.fromkeys([chosen["propertyName"], *model.get("required", [])]))
    if isinstance(text := node.get("description"), str):
        node["description"] = text.replace("``", "`")
    if node.get("default") is not None and "examples" not in node and "description" in node:
        node["examples"] = [node["default"]]
