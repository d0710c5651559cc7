"""``cyclops accelerator``: check, list and show accelerator documents."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

if TYPE_CHECKING:
    from accel.errors import CyclopsError

app = typer.Typer(
    name="accelerator", no_args_is_help=True, help="Documents of accelerators: check, derive, list, show, schema."
)

REFUSED = 1
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; of a wrong one the problem document.")]


@app.command()
def check(
    file: Annotated[str, typer.Argument(help="A document, JSON or YAML; or the name of an accelerator.")],
    as_json: AsJson = False,
) -> None:
    """Check a document, and say what it describes.

    Exit status: 0 it can be used, 1 it cannot: then each error, its line, what stands there, and what could.
    """
    from accel.accelerator.text.document_text import MAX_BYTES
    from accel.catalog.load_accelerator import accelerator_id, load_accelerator, parse_accelerator
    from accel.errors import CyclopsError
    from service.cli.accelerator_table import print_accelerator

    text: bytes | None = None
    try:
        if Path(file).is_file():
            with Path(file).open("rb") as opened:
                text = opened.read(MAX_BYTES + 1)
        accelerator = load_accelerator(file) if text is None else parse_accelerator(text)
    except OSError as error:
        _exit_refused(
            CyclopsError(f"{file} cannot be read: {error.strerror}", field="accelerator"), None, as_json=as_json
        )
    except CyclopsError as error:
        _exit_refused(error, text, as_json=as_json)
    if as_json:
        brief = {"id": accelerator_id(accelerator), "title": accelerator.title, "family": accelerator.family}
        sys.stdout.write(json.dumps(brief, indent=2) + "\n")
    else:
        print_accelerator(accelerator, Console())


@app.command(name="list")
def list_() -> None:
    """List the accelerators that come with Cyclops."""
    from accel.catalog.load_accelerator import load_accelerator, preset_names
    from service.cli.accelerator_table import print_listing

    print_listing([load_accelerator(name) for name in preset_names()], Console())


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Name of an accelerator, or the path of a document.")],
    as_yaml: Annotated[bool, typer.Option("--yaml", help="YAML, without what is as it would be by default.")] = False,
) -> None:
    """Print a whole document, as JSON or YAML: to begin one of your own from. Exit status: 0 done, 1 there is none."""
    from accel.accelerator.text.document_yaml import accelerator_yaml
    from accel.catalog.load_accelerator import load_accelerator
    from accel.errors import CyclopsError

    try:
        accelerator = load_accelerator(name)
    except CyclopsError as error:
        _exit_refused(error, None, as_json=False)
    sys.stdout.write(accelerator_yaml(accelerator) if as_yaml else accelerator.model_dump_json(indent=2) + "\n")


@app.command()
def derive(
    name: Annotated[str, typer.Argument(help="Name of an accelerator, or the path of a document, to derive from.")],
    keys: Annotated[
        list[str],
        typer.Option("--set", metavar="KEY=VALUE", help="A key of its configuration, such as dim=8; repeat for more."),
    ],
    called: Annotated[
        str | None, typer.Option("--name", help="Of the new document; else the old with the keys.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--output", "-o", help="The file; else standard output.")] = None,
    as_yaml: Annotated[bool, typer.Option("--yaml", help="YAML, without what is as it would be by default.")] = False,
) -> None:
    """Print the document of another configuration: memories, encodings and times follow from the keys.

    Of a Gemmini the keys are its `parameters`; of a VTA those of `vta_config.json` and of `variant`. A value is JSON,
    or else a text. Exit status: 0 done, 1 there is no such accelerator.
    """
    from accel.accelerator.text.document_yaml import accelerator_yaml
    from accel.catalog.derive_accelerator import derive_accelerator
    from accel.catalog.load_accelerator import load_accelerator
    from accel.errors import CyclopsError, InvalidAccelerator

    try:
        derived = derive_accelerator(load_accelerator(name), _keys_of(keys), called)
        text = accelerator_yaml(derived) if as_yaml else derived.model_dump_json(indent=2) + "\n"
        if out is None:
            sys.stdout.write(text)
        else:
            out.write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"{out} cannot be the file of the document: {error.strerror}"
        _exit_refused(CyclopsError(message, field="output"), None, as_json=False)
    except CyclopsError as error:  # of keys, which stand in no text
        found = [error, *(error.others if isinstance(error, InvalidAccelerator) else ())]
        message = "\n".join(f"cyclops: {each.detail}" for each in found)
        Console(stderr=True).print(message, markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(REFUSED) from None


def _keys_of(given: list[str]) -> dict[str, Any]:
    """The values of ``KEY=VALUE``, the last of a key.

    Raises:
        InvalidAccelerator: one is not of this form.
    """
    from accel.errors import InvalidAccelerator

    found: dict[str, Any] = {}
    for each in given:
        key, equals, text = each.partition("=")
        if not (key and equals):
            raise InvalidAccelerator(f"{each!r:.80} is not of the form KEY=VALUE", field="set")
        try:
            found[key] = json.loads(text)
        except (ValueError, RecursionError):
            found[key] = text
    return found


@app.command()
def schema() -> None:
    """Print the JSON Schema of a document, for the families that are installed."""
    from accel.catalog.document_schema import schema_text

    sys.stdout.write(schema_text())


def _exit_refused(error: "CyclopsError", text: bytes | None, *, as_json: bool) -> NoReturn:
    from accel.errors import InvalidAccelerator
    from worker.inspection.document_errors import explain, with_explanation
    from worker.records.problem_details import problem_of

    if as_json:
        told = with_explanation(error, text) if isinstance(error, InvalidAccelerator) and text is not None else error
        sys.stdout.write(problem_of(told).model_dump_json(indent=2) + "\n")
    else:
        explained = explain(error, text) if isinstance(error, InvalidAccelerator) else []
        messages = ["\n  ".join(each.located_lines) for each in explained] or [error.detail]
        message = "\n".join(f"cyclops: {each}" for each in messages)
        Console(stderr=True).print(message, markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(REFUSED)
