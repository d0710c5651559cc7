"""The published schema: it is one, says something of every field, and takes what the catalog takes."""

import json
from collections.abc import Iterator
from importlib import resources
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from accel.accelerator.text.document_text import read_text
from accel.catalog.document_schema import DIALECT, ID, Schema, accelerator_schema, schema_digest, schema_text
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator, preset_names
from accel.errors import InvalidAccelerator
from accel.isa.family_registry import family_names

SCHEMA = accelerator_schema()
VALIDATOR = Draft202012Validator(SCHEMA)


def test_it_is_a_schema_with_a_name() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert (SCHEMA["$schema"], SCHEMA["$id"], SCHEMA["title"]) == (DIALECT, ID, "Accelerator")
    assert SCHEMA["description"]


def test_its_text_is_the_same_every_time() -> None:
    assert json.loads(schema_text()) == SCHEMA
    assert schema_text() == json.dumps(accelerator_schema(), indent=2, ensure_ascii=False) + "\n"
    assert len(schema_digest(schema_text())) == 64


def resolved(schema: Schema) -> Schema:
    return SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def forms(schema: Schema) -> Iterator[Schema]:
    yield schema
    for form in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from forms(form)


def is_leaf(schema: Schema) -> bool:
    """Whether no object of named fields lies within it."""
    for form in map(resolved, forms(schema)):
        inner = [form.get("items"), form.get("additionalProperties"), *form.get("patternProperties", {}).values()]
        if "properties" in form or not all(is_leaf(part) for part in inner if isinstance(part, dict)):
            return False
    return True


def fields() -> Iterator[tuple[str, Schema]]:
    for name, model in {"Accelerator": SCHEMA, **SCHEMA["$defs"]}.items():
        for field, schema in model.get("properties", {}).items():
            yield f"{name}.{field}", schema


@pytest.mark.parametrize(("name", "schema"), list(fields()), ids=[name for name, _ in fields()])
def test_every_field_is_described_and_every_leaf_has_an_example(name: str, schema: Schema) -> None:
    assert any(form.get("description", "").strip() for form in forms(schema))
    if is_leaf(schema) and "const" not in schema:
        examples = [example for form in forms(schema) for example in form.get("examples", ())]
        assert examples
        within = Draft202012Validator({**schema, "$defs": SCHEMA["$defs"]})
        for example in examples:
            within.validate(example)


def documents(name: str) -> list[Any]:
    """A preset as it is written, and as the service gives it."""
    (written,) = [
        entry
        for entry in (resources.files("accel.accelerator") / "presets").iterdir()
        if entry.name.rpartition(".")[0] == name
    ]
    return [read_text(written.read_bytes()), load_accelerator(name).model_dump(mode="json")]


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_valid(name: str) -> None:
    for document in documents(name):
        VALIDATOR.validate(document)


def test_every_installed_family_that_loads_is_asked_for_its_parameters() -> None:
    asked = [condition["if"]["properties"]["family"]["const"] for condition in SCHEMA["allOf"]]
    assert asked == SCHEMA["properties"]["family"]["enum"]
    assert set(asked) <= set(family_names())
    assert {load_accelerator(name).family for name in preset_names()} <= set(asked)


def changed(**changes: Any) -> dict[str, Any]:
    return load_accelerator("vta").model_dump(mode="json") | changes


def first_instruction(**changes: Any) -> dict[str, Any]:
    document = changed()
    document["instructions"][0] |= changes
    return document


WRONG = {
    "unknown key": changed(colour="red"),
    "no name": {key: value for key, value in changed().items() if key != "name"},
    "version 1": changed(schema_version=1),
    "unknown family": changed(family="tpu"),
    "parameters of another family": changed(parameters={"colour": "red"}),
    "no parameters": {key: value for key, value in changed().items() if key != "parameters"},
    "a depth of text": changed(memories=[changed()["memories"][0] | {"depth": "many"}]),
    "no kind": {
        **changed(),
        "instructions": [
            {key: value for key, value in first_instruction()["instructions"][0].items() if key != "kind"}
        ],
    },
    "unknown kind": first_instruction(kind="jump"),
    "a name that is none": first_instruction(tokens={"pop": {"1x": "pop"}}),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_it_refuses_the_catalog_refuses_too(name: str) -> None:
    with pytest.raises(ValidationError):
        VALIDATOR.validate(WRONG[name])
    with pytest.raises(InvalidAccelerator):
        parse_accelerator(WRONG[name])
