"""The settings of a command, or a message that says what is wrong with them."""

import logging
import os
from pathlib import Path
from typing import Annotated, NoReturn

import pydantic
import typer
from rich.console import Console

from worker.config.settings import Settings, unknown_variables
from worker.telemetry import logs

_log = logging.getLogger(__name__)
Data = Annotated[Path | None, typer.Option(help="Directory of the store; else CYCLOPS_DATA, else ./data.")]


def settings_of(data: Path | None, process: str | None = None) -> Settings:
    """The settings, once the directories are there and the files are readable that they name.

    What looks like a setting and is none is warned of: in the log of the ``process``, which begins here, or else on
    standard error.
    """
    from worker.storage.connections import open_redis, open_store  # noqa: PLC0415 - for the commands that need them

    try:
        settings = Settings() if data is None else Settings(data=data)
    except pydantic.ValidationError as error:
        fail(_reasons(error))
    if process is not None:
        logs.configure(settings.log_level, settings.log_format, process)
        for sentence in unknown_variables(os.environ):
            _log.warning("%s", sentence)
    else:
        _tell_unknown()
    try:
        settings.scratch_dir.mkdir(parents=True, exist_ok=True)
        open_store(settings)
        if settings.redis_url is not None:
            open_redis(settings).close()
    except OSError as error:
        fail(f"the settings cannot be used: {error}")
    return settings


def local_settings() -> Settings:
    """The settings of a command that has no store and no Redis; what is none is warned of on standard error.

    Settings that cannot be used are refused, with status 2, as other input is.
    """
    try:
        settings = Settings()
    except pydantic.ValidationError as error:
        fail(_reasons(error), 2)
    _tell_unknown()
    return settings


def fail(message: str, status: int = 1) -> NoReturn:
    """Say so, and leave with the status."""
    _tell(message)
    raise typer.Exit(status)


def _reasons(error: pydantic.ValidationError) -> str:
    return "; ".join(": ".join([*map(_variable, item["loc"]), item["msg"]]) for item in error.errors())


def _tell_unknown() -> None:
    for sentence in unknown_variables(os.environ):
        _tell(sentence)


def _tell(message: str) -> None:
    Console(stderr=True).print(f"cyclops: {message}", markup=False, highlight=False, soft_wrap=True)


def _variable(name: object) -> str:
    return f"CYCLOPS_{name}".upper()
