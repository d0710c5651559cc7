"""The host of a document's text: replaced or added, with all else of the text as it is."""

import json
from typing import Any

from accel.accelerator.host_costs import HostCosts
from accel.accelerator.text.document_places import DocumentPlaces
from accel.accelerator.text.document_text import read_text
from accel.accelerator.text.document_yaml import yaml_text
from accel.catalog.load_accelerator import parse_accelerator
from accel.errors import InvalidAccelerator


def host_yaml(host: HostCosts) -> str:
    """Returns the section as YAML."""
    return yaml_text({"host": host.model_dump(mode="json")})


def with_host(document: bytes, host: HostCosts) -> str:
    """Returns the text of a document with ``host`` for its own; a YAML text keeps its comments and order.

    Raises:
        InvalidAccelerator: the document is refused, or has no place for a host, as the ten keys of a VTA.
    """
    accelerator, value = parse_accelerator(document), read_text(document)
    if not isinstance(value, dict) or "family" not in value:
        message = "only a whole document has a host: write one with cyclops accelerator show, and measure into that"
        raise InvalidAccelerator(message, field="accelerator")
    text = document.decode()
    is_json = text.lstrip()[:1] == "{"
    changed = _json(value, host) if is_json else _spliced(text, value, host)
    if parse_accelerator(changed.encode()) != accelerator.model_copy(update={"host": host}):
        raise InvalidAccelerator("the host cannot be written into this document's text", field="accelerator.host")
    return changed


def _json(value: dict[str, Any], host: HostCosts) -> str:
    return json.dumps({**value, "host": host.model_dump(mode="json")}, indent=2, ensure_ascii=False) + "\n"


def _spliced(text: str, value: dict[str, Any], host: HostCosts) -> str:
    section, lines = host_yaml(host), text.splitlines(keepends=True)
    if "host" not in value:
        return f"{text.rstrip()}\n\n{section}"
    there = DocumentPlaces(text).lines(("host",))
    return "".join([*lines[: there.start], section, *lines[there.stop :]])
