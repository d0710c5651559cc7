"""Options that commands share: settings, and dynamic axes (``--dim batch=4``, ``--shape x=1,3,32,32``)."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer
from rich.console import Console

if TYPE_CHECKING:
    import pydantic

    from worker.config.settings import Settings

CalibrationMethod = Annotated[
    Literal["minmax", "percentile", "entropy", "mse"],
    typer.Option(help="How the ranges of a float model's activations are chosen from the calibration data."),
]
WeightScales = Annotated[
    Literal["auto", "tensor", "channel"], typer.Option(help="What of a float model's weights has a scale.")
]
ZeroPoints = Annotated[
    Literal["auto", "none", "unpadded", "fused", "all"],
    typer.Option(help="Which of a float model's activations may have a zero point."),
]
HostNodes = Annotated[
    list[str] | None, typer.Option("--host", metavar="NODE", help="A node to leave to the host; may be repeated.")
]
Placement = Annotated[
    Literal["accelerator", "fastest"],
    typer.Option(
        help="Where operators go: to the accelerator wherever it can run them, or to the host where the whole is "
        "faster so, by what the document's host costs."
    ),
]
Data = Annotated[Path | None, typer.Option(help="Directory of the store; else CYCLOPS_DATA, else ./data.")]


def load_settings(data: Path | None, process: str | None = None) -> "Settings":
    """The settings, once the directories are there and the files are readable that they name.

    What looks like a setting and is none is warned of: in the log of the ``process``, which begins here, or else on
    standard error.
    """
    import logging

    import pydantic

    from worker.config.settings import Settings, unknown_variables
    from worker.storage.connections import open_redis, open_store
    from worker.telemetry import logs

    try:
        settings = Settings() if data is None else Settings(data=data)
    except pydantic.ValidationError as error:
        exit_with_error(_validation_reasons(error))
    if process is not None:
        logs.configure(settings.log_level, settings.log_format, process)
        for sentence in unknown_variables(os.environ):
            logging.getLogger(__name__).warning("%s", sentence)
    else:
        _warn_of_unknown_variables()
    try:
        settings.scratch_dir.mkdir(parents=True, exist_ok=True)
        open_store(settings)
        if settings.redis_url is not None:
            open_redis(settings).close()
    except OSError as error:
        exit_with_error(f"the settings cannot be used: {error}")
    return settings


def local_settings() -> "Settings":
    """The settings of a command that has no store and no Redis; what is none is warned of on standard error.

    Settings that cannot be used are refused, with status 2, as other input is.
    """
    import pydantic

    from worker.config.settings import Settings

    try:
        settings = Settings()
    except pydantic.ValidationError as error:
        exit_with_error(_validation_reasons(error), 2)
    _warn_of_unknown_variables()
    return settings


def exit_with_error(message: str, status: int = 1) -> NoReturn:
    """Say so, and leave with the status."""
    _print_error(message)
    raise typer.Exit(status)


def _validation_reasons(error: "pydantic.ValidationError") -> str:
    return "; ".join(": ".join([*map(_variable, item["loc"]), item["msg"]]) for item in error.errors())


def _warn_of_unknown_variables() -> None:
    from worker.config.settings import unknown_variables

    for sentence in unknown_variables(os.environ):
        _print_error(sentence)


def _print_error(message: str) -> None:
    Console(stderr=True).print(f"cyclops: {message}", markup=False, highlight=False, soft_wrap=True)


def _variable(name: object) -> str:
    return f"CYCLOPS_{name}".upper()


Html = Annotated[Path | None, typer.Option(help="File for the report as one HTML page, with its pictures inside.")]

Limits = Annotated[
    Literal["some", "all"],
    typer.Option(help="Which changes of the accelerator are tried to say what limits it; some, where it is large."),
]
_LARGEST = 2**31 - 1
_EXTENTS = re.compile(r"[0-9]{1,10}(,[0-9]{1,10})*", re.ASCII)

Dim = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=EXTENT", help="Extent of a dynamic axis, else 1; may be repeated."),
]
Shape = Annotated[
    list[str] | None,
    typer.Option(metavar="INPUT=EXTENT,...", help="Shape of an input with dynamic axes; may be repeated."),
]


def dims_of(given: Sequence[str] | None) -> dict[str, int]:
    """The extents of axes by name.

    Raises:
        typer.BadParameter: one is of another form, or is set twice.
    """
    found: dict[str, int] = {}
    for name, extents in _pairs(given, "--dim", "batch=4"):
        if len(extents) > 1:
            raise typer.BadParameter(f"{name} is one axis; {len(extents)} extents are given", param_hint="--dim")
        found[name] = extents[0]
    return found


def shapes_of(given: Sequence[str] | None) -> dict[str, tuple[int, ...]]:
    """The shapes of inputs by name.

    Raises:
        typer.BadParameter: one is of another form, or is set twice.
    """
    return dict(_pairs(given, "--shape", "x=1,3,32,32"))


def _pairs(given: Sequence[str] | None, option: str, example: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    names: set[str] = set()
    for text in given or ():
        name, equals, value = text.rpartition("=")  # a name may have a sign of its own
        if not name or not equals or not _EXTENTS.fullmatch(value.replace(" ", "")):
            raise typer.BadParameter(f"{text!r} is not of the form {example}", param_hint=option)
        if name in names:
            raise typer.BadParameter(f"{name} is set twice", param_hint=option)
        extents = tuple(map(int, value.split(",")))
        if not all(1 <= extent <= _LARGEST for extent in extents):
            raise typer.BadParameter(f"{text}: an extent is 1 to {_LARGEST}", param_hint=option)
        names.add(name)
        yield name, extents
