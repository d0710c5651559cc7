"""A document as a reader follows it: the files that it writes, the commands that it gives, and what they print.

A fence of YAML, JSON or Python below a line that ends in "`name`:" is a file of that name. A fence without a language
that begins with ``$`` is a transcript: commands, each with its output. A line ``...`` stands for any lines, and ``...``
in a line for any text.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from service.cli.commands import app

ROOT = Path(__file__).parents[2]
COLUMNS = 100
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"`([\w./-]+\.\w+)`:\n\n\Z")


@dataclass(frozen=True)
class File:
    """A file that the reader writes."""

    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command, and the lines that it prints."""

    text: str
    output: tuple[str, ...]


def steps(document: str) -> Iterator[File | Command]:
    """What the reader does, in the order of the document."""
    for fence in _FENCE.finditer(document):
        language, body = fence.groups()
        named = _NAMED.search(document[: fence.start()])
        if language and named is not None:
            yield File(named[1], body)
        elif not language and body.startswith("$ "):
            for command in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                first, *output = command.rstrip("\n").split("\n")
                yield Command(first, tuple(output))


def prepare(directory: Path) -> None:
    """Make ``directory`` look like the root of a checkout: presets, examples and ``.venv``."""
    for name in ("accel", "examples"):
        (directory / name).symlink_to(ROOT / name)
    (directory / ".venv").symlink_to(sys.prefix)


def follow(step: File | Command, directory: Path) -> None:
    """Do one step in ``directory``, the current one; a command must print what the document says."""
    if isinstance(step, File):
        (directory / step.name).write_text(step.text, encoding="utf-8")
        return
    found = run(step.text, directory)
    assert matches(step.output, found), f"$ {step.text}\n" + "\n".join(found)


def run(command: str, directory: Path) -> list[str]:
    """The lines that a command prints, without the spaces at their ends."""
    words = shlex.split(command, comments=True)
    if words[0].endswith("/cyclops") and not {"|", ">", "<"} & set(words):
        printed = CliRunner().invoke(app, words[1:], env={"COLUMNS": str(COLUMNS)}).output  # spares the imports
    else:
        environment = os.environ | {"COLUMNS": str(COLUMNS), "PYTHONPATH": str(directory)}
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        printed = done.stdout
    return [line.rstrip() for line in printed.rstrip().splitlines()]


def matches(wanted: tuple[str, ...], found: list[str]) -> bool:
    """Whether ``found`` is what the document shows."""
    pattern = ""
    for line in wanted:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(part) for part in line.rstrip().split("...")) + r"\n"
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in found)) is not None
