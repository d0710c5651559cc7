"""Accelerator documents as concise YAML that reads back to the same document."""

from typing import Any

import pydantic
import yaml

from accel.accelerator.document import Accelerator

_WIDTH = 120
_NUMERIC = frozenset("0123456789-+.")
_ALWAYS = frozenset(("schema_version", "kind"))  # they say what the rest means


class _Dumper(yaml.SafeDumper):
    """Writes every value out, and in quotes each text that some reader could take for a number."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the method's signature
        return True

    def text(self, data: str) -> yaml.ScalarNode:
        quoted = data[:1] in _NUMERIC or not data.isprintable()
        return self.represent_scalar("tag:yaml.org,2002:str", data, style='"' if quoted else None)


_Dumper.add_representer(str, _Dumper.text)


def accelerator_yaml(accelerator: Accelerator) -> str:
    """Return the document as YAML, without the fields that have their default values."""
    return yaml_text(_concise(accelerator))


def yaml_text(value: Any) -> str:
    """Return a JSON value as YAML, with objects and lists of plain values on one line where they fit."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None, width=_WIDTH)


def _concise(value: Any) -> Any:
    if isinstance(value, pydantic.BaseModel):
        fields = type(value).model_fields.items()
        return {name: _concise(getattr(value, name)) for name, field in fields if _is_written(value, name, field)}
    if isinstance(value, tuple | list):
        return [_concise(item) for item in value]
    return {key: _concise(item) for key, item in value.items()} if isinstance(value, dict) else value


def _is_written(model: pydantic.BaseModel, name: str, field: Any) -> bool:
    return (
        name in _ALWAYS or field.is_required() or getattr(model, name) != field.get_default(call_default_factory=True)
    )
