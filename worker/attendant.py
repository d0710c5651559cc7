"""The process that attends to the jobs of a worker, one after the other (``worker/attending.py`` is the other side)."""

import socket

from worker import logs
from worker.accelerators import Accelerators
from worker.answers import Answers
from worker.assignment import DONE, receive_assignment
from worker.jobs import Jobs
from worker.named import name_process
from worker.opened import open_impatient_queue, open_store
from worker.settings import Settings
from worker.task import run_job

PROCESS_NAME = "cyclops-attend"


def attend(line: socket.socket, settings: Settings) -> None:
    """Attend to what the worker hands over, until it hangs up."""
    name_process(PROCESS_NAME)
    logs.begin(process="horse")
    store = open_store(settings)
    queue = open_impatient_queue(settings)
    answers = Answers(store, Jobs(store), Accelerators(store))
    while (handed := receive_assignment(line)) is not None:
        assignment, process = handed
        with logs.bound(job=assignment.job_id):
            try:
                run_job(assignment, process, settings, store=store, answers=answers, queue=queue)
            finally:
                process.close()
        line.sendall(DONE)
