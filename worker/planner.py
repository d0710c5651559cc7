"""Dry runs beside the service: each in a process of its own, forked from one that has the compiler loaded.

The service loads no compiler, and a hostile model may take long, grow, or crash native code; so a dry run never runs
in its process. The workers are no place for it either: all of them may be busy for a quarter of an hour, and a dry run
answers the request that asks for it. So the first dry run starts a fork server (Python's own), which imports the
compiler once and ends with the service; each dry run is a child of it, under limits, killed when its time is over.
"""

import importlib
import multiprocessing
import os
import threading
from multiprocessing.connection import Connection
from typing import Any

from accel.errors import CyclopsError
from worker.exits import signal_reason
from worker.limits import limit_plan
from worker.problem import Problem, problem_of
from worker.settings import Settings
from worker.tied import die_with_parent
from worker.work import Work

_COMPILER = "worker.plan"
_PLAN, _PROBLEM, _MEMORY = b"+", b"-", b"!"  # what the child's answer begins with
_MOST_BYTES = 64 << 20  # of an answer
_PATIENCE = 5.0  # seconds that a dry run waits for its turn


class PlannerBusyError(Exception):
    """As many dry runs as may be are under way."""


class PlanLimitError(Exception):
    """The dry run took too long or too much memory, or its process died; the text says which."""


class PlanRefusedError(Exception):
    """An input cannot be used."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


class Planner:
    """Makes plans; may be used from several threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._turns = threading.BoundedSemaphore(settings.plans_at_once)
        self._processes = multiprocessing.get_context("forkserver")

    def plan(self, work: Work) -> bytes:
        """The plan, as JSON.

        Raises:
            PlannerBusyError: others are being made, and none ended in time.
            PlanLimitError: it needs more than the settings allow, or its process died.
            PlanRefusedError: an input cannot be used.
        """
        if not self._turns.acquire(timeout=_PATIENCE):
            raise PlannerBusyError
        try:
            return self._plan(work)
        finally:
            self._turns.release()

    def _plan(self, work: Work) -> bytes:
        self._processes.set_forkserver_preload([_COMPILER, __name__])
        receiver, sender = self._processes.Pipe(duplex=False)
        process = self._processes.Process(target=_answer, args=(sender, work, self._settings), daemon=True)
        try:
            with receiver:
                with sender:
                    process.start()
                answer = self._received(receiver)
            process.join()
            exitcode = process.exitcode
        finally:
            if process.pid is not None:
                process.kill()
                process.join()
                process.close()
        return _plan_of(answer, exitcode)

    def _received(self, receiver: Connection) -> bytes:
        """The answer; nothing if the process died without one."""
        seconds = self._settings.plan_seconds
        if not receiver.poll(seconds):
            raise PlanLimitError(f"it took longer than {seconds} s; submit a job")
        try:
            return receiver.recv_bytes(_MOST_BYTES)
        except EOFError:
            return b""


def _plan_of(answer: bytes, exitcode: int | None) -> bytes:
    kind, rest = answer[:1], answer[1:]
    if kind == _PLAN:
        return rest
    if kind == _PROBLEM:
        raise PlanRefusedError(Problem.model_validate_json(rest))
    if kind == _MEMORY:
        raise PlanLimitError(f"it needs more memory than the limit: {rest.decode() or 'out of memory'}")
    if exitcode is not None and exitcode < 0:
        raise PlanLimitError(signal_reason(-exitcode))
    raise RuntimeError(f"the process of a dry run left with exit status {exitcode}, and wrote why to standard error")


def _answer(sender: Connection, work: Work, settings: Settings) -> None:
    """Make the plan and send it, in a process of its own."""
    die_with_parent(os.getppid())
    limit_plan(settings)
    plan_work: Any = importlib.import_module(_COMPILER).plan_work
    try:
        answer = _PLAN + plan_work(work, settings).model_dump_json().encode()
    except CyclopsError as error:
        answer = _PROBLEM + problem_of(error).model_dump_json().encode()
    except MemoryError as error:
        answer = _MEMORY + str(error).encode()
    sender.send_bytes(answer)
