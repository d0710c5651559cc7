"""Annotations of a job: label, note and tags, which its owner gives and changes, and their objects in the store."""

import json
import re
from typing import Annotated, Any

import pydantic
from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from worker.identity.ownership import Label, label_of

MOST_NOTE = 500
MOST_TAGS = 10
MOST_TAG = 40
# no control character but for the end of a line and the tabulator
_NOTE = "^[^\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u2028\\u2029]*$"
# words, or several with single spaces between them; a comma ends a tag where people type some
_TAG = "^[^\\s,\\x00-\\x1f\\x7f-\\x9f]+( [^\\s,\\x00-\\x1f\\x7f-\\x9f]+)*$"


def _lines(text: object) -> object:
    """Returns a text with the ends of lines as one character each; browsers send two."""
    return re.sub("\r\n?", "\n", text) if isinstance(text, str) else text


def _note(text: str) -> str:
    if not text.strip() or re.fullmatch(_NOTE, text) is None:
        raise PydanticCustomError("note", "must be text without control characters, and not blank")
    return text


def _tag(text: str) -> str:
    if re.fullmatch(_TAG, text) is None:
        message = "must be words with single spaces between them, without commas and control characters"
        raise PydanticCustomError("tag", message)
    return text


def _distinct(tags: list[str]) -> list[str]:
    if len(set(tags)) < len(tags):
        raise PydanticCustomError("tags", "must differ from each other")
    return tags


Note = Annotated[
    str,
    Field(min_length=1, max_length=MOST_NOTE, json_schema_extra={"pattern": _NOTE}),
    BeforeValidator(_lines, json_schema_input_type=str),
    AfterValidator(_note),
]
Tag = Annotated[
    str, Field(min_length=1, max_length=MOST_TAG, json_schema_extra={"pattern": _TAG}), AfterValidator(_tag)
]
Tags = Annotated[
    list[Tag], Field(max_length=MOST_TAGS, json_schema_extra={"uniqueItems": True}), AfterValidator(_distinct)
]


class Annotations(pydantic.BaseModel):
    """Annotations to be stored: those that are set."""

    label: Label | None = None
    note: Note | None = None
    tags: Tags = []


def annotation_keys(job_id: str) -> list[str]:
    """Returns the store keys of the arguments of :func:`read_annotations`, in order."""
    return [f"jobs/{job_id}/{name}" for name in ("label", "note", "tags")]


def read_annotations(label: bytes | None, note: bytes | None, tags: bytes | None) -> dict[str, Any]:
    """Returns the annotations that the objects have, by their names."""
    return {"label": label_of(label), "note": label_of(note), "tags": [] if tags is None else json.loads(tags)}


def annotation_objects(job_id: str, annotations: Annotations) -> dict[str, bytes | None]:
    """Returns the objects of those annotations that are set, by their keys; None for one that is empty.

    Each is an object of its own, so that nothing is read, changed and written back.
    """
    tags = json.dumps(annotations.tags, ensure_ascii=False) if annotations.tags else None
    texts = {"label": annotations.label, "note": annotations.note, "tags": tags}
    return {
        f"jobs/{job_id}/{name}": None if text is None else text.encode()
        for name, text in texts.items()
        if name in annotations.model_fields_set
    }
