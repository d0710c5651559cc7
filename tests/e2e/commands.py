"""``cyclops`` without a process of its own, for what many commands in a row show."""

import subprocess

from typer.testing import CliRunner

from service.cli import app


def cyclops_here(*arguments: object) -> subprocess.CompletedProcess[str]:
    """What the command would print and leave with; an exception that it does not handle is raised."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)
