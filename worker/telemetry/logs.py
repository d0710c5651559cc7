"""Logs: a line for each record, as text or as one JSON object.

What the lines of a piece of work belong to (its job, its request) is bound once, in a context variable, and stands in
every line that is logged meanwhile, whatever logs it: our modules, RQ or uvicorn. It does so in JSON only: the text is
for a person before a terminal.
"""

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal

Form = Literal["text", "json"]
_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_bound: ContextVar[Mapping[str, str | int]] = ContextVar("bound", default={})  # noqa: B039 - never changed in place


def bind(**fields: str | int | None) -> None:
    """Adds these fields to every line from here on, in this thread and copies of its context; None leaves one out."""
    _bound.set({**_bound.get(), **{name: value for name, value in fields.items() if value is not None}})


def begin(**fields: str) -> None:
    """Replaces all bound fields by these: another piece of work begins."""
    _bound.set(fields)


@contextmanager
def bound(**fields: str | int | None) -> Iterator[None]:
    """Adds these fields to every line inside the context."""
    token = _bound.set(_bound.get())
    try:
        bind(**fields)
        yield
    finally:
        _bound.reset(token)


def bound_fields() -> Mapping[str, str | int]:
    """Returns the bound fields."""
    return _bound.get()


def fields(**values: Any) -> dict[str, dict[str, Any]]:
    """Returns the argument ``extra`` of a logging call, with fields of this line alone."""
    return {"fields": values}


class JsonFormatter(logging.Formatter):
    """One JSON object a record, of ASCII only, so that nothing in it ends the line.

    ``process`` says which kind of process logs, where nothing else is bound.
    """

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """Returns the record as a line of JSON."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": self._process,
            "pid": record.process,
            **_bound.get(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(level: str, form: Form, process: str) -> None:
    """Configures logging of this process to standard error.

    Args:
        level: the least level that is logged.
        form: of the lines.
        process: which kind of process this is.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(process) if form == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    # a line for every request that our own clients make is no news
    for name in ("httpx2", "httpcore2", "urllib3"):
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelNamesMapping()[level]))
