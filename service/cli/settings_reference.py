"""The settings reference ``docs/settings.md``, from the class that reads them; run as a module, it prints the page."""

import sys
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from worker.config.connection_settings import ConnectionSettings
from worker.config.settings import Settings

_HEAD = """# Settings

Each setting is an environment variable. `cyclops serve`, `api` and `worker` read them when they start, and a value
that cannot be used ends them with a message. `make settings` writes this page from `worker/config/settings.py`,
`worker/config/webhook_settings.py`, `worker/config/http_settings.py`
and `worker/config/connection_settings.py`.

A setting that ends in `_FILE` names a file; where that holds a secret, its last line end is no part of it. Secrets are
shown neither in messages nor by the API.
"""
# title, and what the names of its settings begin with; the last takes the rest
_SECTIONS = (
    ("Where the data are", ("data", "store_")),
    ("Redis", ("redis_", "queue")),
    ("Who may enter, and how often", ("auth", "allowed_", "metrics_", "rate_", "most_")),
    ("How long clients are waited for", ("connection_",)),
    ("What browsers are told", ("cors_", "content_", "frame_", "referrer_", "hsts_")),
    ("What may be uploaded and kept", ("max_",)),
    ("Jobs", ("job_", "progress_")),
    ("Dry runs", ("plan_", "plans_")),
    ("Examining uploads", ("inspection_", "inspections_")),
    ("Following jobs", ("streams_", "stream_", "wait_")),
    ("Webhooks", ("webhook",)),
    ("Other", ("",)),
)
_UNITS = ("bytes", "seconds")
_BINARY = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def settings_page(settings: type[ConnectionSettings] = Settings) -> str:
    """The page, in Markdown."""
    left = dict(settings.model_fields)
    parts = [_HEAD]
    for title, prefixes in _SECTIONS:
        chosen = {name: left.pop(name) for name in list(left) if name.startswith(prefixes)}
        if chosen:
            parts.append(_section(title, chosen))
    return "\n".join(parts)


def _section(title: str, fields: dict[str, FieldInfo]) -> str:
    head = f"## {title}\n\n| variable | default | unit | least | meaning |\n|---|---|---|---|---|\n"
    return head + "".join(_row(name, field) for name, field in fields.items())


def _row(name: str, field: FieldInfo) -> str:
    unit = next((unit for unit in _UNITS if name.endswith(f"_{unit}")), "")
    meaning = field.description or ""
    cells = (f"`CYCLOPS_{name.upper()}`", _default(field.default, unit), unit, _least(field), meaning)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def _default(value: Any, unit: str) -> str:
    if value is None:
        return ""
    if isinstance(value, SecretStr):
        raise TypeError("a secret has no default")
    if unit == "bytes":
        for name, size in _BINARY:
            if value and value % size == 0:
                return f"{value} ({value // size} {name})"
    return f"`{value}`" if isinstance(value, str | Path) else str(value)


def _least(field: FieldInfo) -> str:
    for bound in field.metadata:
        if hasattr(bound, "ge"):
            return str(bound.ge)
        if hasattr(bound, "gt"):
            return f"more than {bound.gt}"
    return ""


if __name__ == "__main__":
    sys.stdout.write(settings_page())
