"""The settings of a command, or a message that says what is wrong with them."""

from pathlib import Path
from typing import Annotated, NoReturn

import pydantic
import typer
from rich.console import Console

from worker.settings import Settings

Data = Annotated[Path | None, typer.Option(help="Directory of the store; else CYCLOPS_DATA, else ./data.")]


def settings_of(data: Path | None) -> Settings:
    """The settings, once the directories are there and the files are readable that they name."""
    from worker.opened import open_redis, open_store  # noqa: PLC0415 - for the commands that need them

    try:
        settings = Settings() if data is None else Settings(data=data)
    except pydantic.ValidationError as error:
        fail("; ".join(": ".join([*map(_variable, item["loc"]), item["msg"]]) for item in error.errors()))
    try:
        settings.scratch_dir.mkdir(parents=True, exist_ok=True)
        open_store(settings)
        if settings.redis_url is not None:
            open_redis(settings).close()
    except OSError as error:
        fail(f"the settings cannot be used: {error}")
    return settings


def fail(message: str) -> NoReturn:
    """Say so, and leave with status 1."""
    Console(stderr=True).print(f"cyclops: {message}", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(1)


def _variable(name: object) -> str:
    return f"CYCLOPS_{name}".upper()
