"""Tasks on uploads, each in a forked process that is confined before it opens a file; answers are bounded.

:func:`confined_task` is the process's side, what a module's ``TASKS`` are made with
(``worker/sandbox/fork_server.py``); :class:`ConfinedTasks` is the side of the api.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pydantic

from accel.errors import CyclopsError
from worker.config.settings import Settings
from worker.process.children import death_reason
from worker.records.problem_details import Problem, problem_of
from worker.sandbox.confinement import confine
from worker.sandbox.fork_client import ForkClient, TaskOutcome, TaskTimeoutError
from worker.sandbox.resource_limits import ResourceLimits

_DONE, _PROBLEM, _MEMORY = b"+", b"-", b"!"  # what an answer begins with
MOST_BYTES = 64 << 20  # of an answer
_EXCEPTION = 1 << 8  # the wait status of a process that left with 1

Arguments = TypeVar("Arguments", bound=pydantic.BaseModel)


class LimitError(Exception):
    """A task took too long or too much memory, or its process died; the text says which."""


class RefusedError(Exception):
    """The upload cannot be used."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


class _Request(pydantic.BaseModel):
    """``scratch`` is the directory that the process may write to; it may read ``readable`` besides."""

    settings: dict[str, Any]
    scratch: Path
    readable: list[Path]
    arguments: dict[str, Any]


def confined_task(
    limits: Callable[[Settings], ResourceLimits],
    arguments: type[Arguments],
    work: Callable[[Arguments, Settings], pydantic.BaseModel],
) -> Callable[[bytes], bytes]:
    """Returns a task for a fork server that runs ``work`` under ``limits`` and confinement."""

    def task(request: bytes) -> bytes:
        asked = _Request.model_validate_json(request)
        settings = Settings.with_limits(asked.settings)
        given = arguments.model_validate(asked.arguments)
        confine(settings, asked.scratch, limits=limits(settings), readable=asked.readable)
        return _answered(lambda: work(given, settings))

    return task


def confinement_task(request: bytes) -> bytes:
    """Confines its own process and returns the status of the confinement."""
    asked = _Request.model_validate_json(request)
    return _answered(lambda: confine(Settings.with_limits(asked.settings), asked.scratch))


def _answered(work: Callable[[], pydantic.BaseModel]) -> bytes:
    try:
        return _DONE + work().model_dump_json().encode()
    except CyclopsError as error:
        return _PROBLEM + problem_of(error).model_dump_json().encode()
    except MemoryError as error:
        return _MEMORY + str(error).encode()


class ConfinedTasks:
    """Runs confined tasks in a fork server. Thread-safe."""

    def __init__(self, settings: Settings, server: ForkClient) -> None:
        self._settings = settings.limits()
        self._server = server

    def ask(
        self,
        task: str,
        arguments: pydantic.BaseModel,
        scratch: Path,
        *,
        seconds: float,
        readable: Sequence[Path] = (),
        most_bytes: int = MOST_BYTES,
    ) -> bytes:
        """Runs a task, waits for the end of its process, and returns its answer as JSON.

        Args:
            task: the name of the task.
            arguments: its arguments.
            scratch: the directory that it may write to.
            seconds: its time limit.
            readable: further files that it may read.
            most_bytes: the longest answer that it may give.

        Raises:
            LimitError: it exceeded a limit, or its process died.
            RefusedError: the upload cannot be used.
            NotStartedError: the system lacks resources for a process.
        """
        request = _Request(
            settings=self._settings,
            scratch=scratch.resolve(),
            readable=[path.resolve() for path in readable],
            arguments=arguments.model_dump(mode="json"),
        )
        try:
            ended = self._server.run(task, request.model_dump_json().encode(), seconds=seconds, most_bytes=most_bytes)
        except TaskTimeoutError:
            raise LimitError(f"it took longer than {seconds:g} s") from None
        return _answer(ended)


def _answer(ended: TaskOutcome) -> bytes:
    if ended.answer is None:
        if ended.status is not None and ended.status == _EXCEPTION:
            raise RuntimeError("the process of a task wrote to standard error why it failed")
        raise LimitError(death_reason(ended.status))
    kind, rest = ended.answer[:1], ended.answer[1:]
    if kind == _DONE:
        return rest
    if kind == _PROBLEM:
        raise RefusedError(Problem.model_validate_json(rest))
    raise LimitError(f"it needs more memory than the limit: {rest.decode(errors='replace')[:256] or 'out of memory'}")
