"""``cyclops`` without a process of its own, for what many commands in a row show."""

import logging
import subprocess

from typer.testing import CliRunner

from service.cli.commands import app


def cyclops_here(*arguments: object) -> subprocess.CompletedProcess[str]:
    """What the command would print and leave with; an exception that it does not handle is raised."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    root.handlers, root.level = handlers, level  # a command that serves logs to what was its standard error
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)
