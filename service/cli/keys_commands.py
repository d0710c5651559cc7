"""``cyclops keys``: add, list and revoke API keys."""

import json
import sys
from datetime import UTC
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from service.cli.options import Data, exit_with_error, load_settings

_PIPED_WIDTH = 400  # nothing is cut for who reads lines
app = typer.Typer(name="keys", no_args_is_help=True, help="API keys: add, list, revoke.")


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="For people: whose it is, or what for.")],
    owner: Annotated[
        str | None,
        typer.Option(
            help="Whose models and jobs it sees; several keys may share an owner. Else one of its own. What was made "
            "without keys is `local`'s."
        ),
    ] = None,
    data: Data = None,
) -> None:
    """Make a key and print it, this once. Any api lets it in at once. Exit status: 0 done, 1 not."""
    import pydantic

    from worker.identity.api_keys import ApiKeys
    from worker.storage.connections import open_store

    try:
        key, text = ApiKeys(open_store(load_settings(data))).add(name, owner)
    except pydantic.ValidationError as error:
        exit_with_error("; ".join(f"the {item['loc'][0]}: {item['msg']}" for item in error.errors()))
    except OSError as error:
        exit_with_error(f"the key cannot be kept: {error}")
    Console(stderr=True).print(
        f"key {key.id} of {key.owner}; it is shown only now, and sent as: Authorization: Bearer ...",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    sys.stdout.write(text + "\n")


@app.command(name="list")
def list_(data: Data = None, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the keys, without what lets them in. Exit status: 0 done, 1 not."""
    from worker.identity.api_keys import ApiKeys
    from worker.storage.connections import open_store

    try:
        found = ApiKeys(open_store(load_settings(data))).all()
    except OSError as error:
        exit_with_error(f"the keys cannot be read: {error}")
    if as_json:
        told = [key.model_dump(mode="json", exclude={"sha256"}) | {"revoked": revoked} for key, revoked in found]
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
        return
    piped = not sys.stdout.isatty()
    table = Table(box=None if piped else box.HEAVY_HEAD)
    for label in ("id", "name", "owner", "made (UTC)", "state"):
        table.add_column(label, no_wrap=piped or label not in {"name", "owner"}, overflow="fold")
    for key, revoked in found:
        made = f"{key.created.astimezone(UTC):%Y-%m-%dT%H:%M}"
        table.add_row(key.id, Text(key.name), key.owner, made, "revoked" if revoked else "active")
    Console(width=_PIPED_WIDTH if piped else None).print(table)


@app.command()
def revoke(key_id: Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it.")], data: Data = None) -> None:
    """Let a key in no more; what is its owner's stays. Exit status: 0 done, 1 there is no such key."""
    from worker.identity.api_keys import ApiKeys
    from worker.storage.connections import open_store

    settings = load_settings(data)
    try:
        ApiKeys(open_store(settings)).revoke(key_id)
    except KeyError:
        exit_with_error(f"there is no key {key_id!r}")
    except OSError as error:
        exit_with_error(f"the key cannot be revoked: {error}")
    seconds = f"{settings.auth_cache_seconds:g}"
    Console(stderr=True).print(f"key {key_id} is revoked; in {seconds} s no api lets it in", highlight=False)
