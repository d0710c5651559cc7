"""Children under confinement, and what they tell."""

import os
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from worker.config.settings import Settings
from worker.sandbox.confinement import confine
from worker.sandbox.confinement_status import Confinement


def told_by_child(work: Callable[[], object]) -> str:
    """What a forked child returns, or the name of the exception it ends with; ``signal N`` if that ended it."""
    receiver, sender = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(receiver)
        try:
            told = str(work())
        except BaseException as error:  # noqa: BLE001
            traceback.print_exc()
            told = type(error).__name__
        os.write(sender, told.encode())
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver) as pipe:
        told = pipe.read()
    status = os.waitpid(pid, 0)[1]
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else told


def told_by_confined(root: Path, work: Callable[[], object], **settings: int) -> str:
    """The same, of a child that was confined to ``root/data/scratch/job``."""

    def run() -> object:
        confined(root, **settings)
        return work()

    return told_by_child(run)


def confined(root: Path, **settings: int) -> Confinement:
    """Confine this process, whose data lie in ``root/data``."""
    return confine(Settings(data=root / "data", **settings), root / "data/scratch/job")


def outcome(root: Path) -> Confinement:
    """What is active here."""
    told = told_by_child(lambda: confined(root).model_dump_json())
    return Confinement.model_validate_json(told)


def need(root: Path, *mechanisms: str) -> None:
    """Skip the test where the system does not have all of these."""
    found = outcome(root)
    for name in mechanisms:
        if not getattr(found, name).active:
            pytest.skip(f"{name}: {getattr(found, name).detail}")
