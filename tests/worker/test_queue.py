import os

import pytest
from rq import Queue
from rq.job import Callback
from rq.serializers import JSONSerializer

from worker.queue import ForeignTaskError, JobQueue, TaskJob

ID = "0" * 32


def test_submits_json_that_names_our_task(queue: JobQueue) -> None:
    queue.submit(ID)
    assert queue.rq.job_ids == [ID]
    job = TaskJob.fetch(ID, connection=queue.connection, serializer=JSONSerializer)
    assert job.func.__name__ == "run_job"
    assert job.args == [ID]
    assert queue.holds(ID)


def test_a_foreign_task_is_not_run(queue: JobQueue) -> None:
    Queue("test", connection=queue.connection, serializer=JSONSerializer).enqueue_call("os.getpid", job_id="foreign")
    job = TaskJob.fetch("foreign", connection=queue.connection, serializer=JSONSerializer)
    with pytest.raises(ForeignTaskError, match=r"os\.getpid"):
        job.perform()


def test_callbacks_of_a_message_are_not_run(queue: JobQueue) -> None:
    stock = Queue("test", connection=queue.connection, serializer=JSONSerializer)
    callbacks = {f"on_{event}": Callback("os.abort") for event in ("success", "failure", "stopped")}
    stock.enqueue_call("os.getpid", job_id="foreign", **callbacks)
    job = TaskJob.fetch("foreign", connection=queue.connection, serializer=JSONSerializer)
    assert job.success_callback is None
    assert job.failure_callback is None
    assert job.stopped_callback is None


def test_a_canceled_job_leaves_the_queue(queue: JobQueue) -> None:
    queue.submit(ID)
    queue.cancel(ID)
    assert queue.rq.job_ids == []
    assert not queue.holds(ID)
    queue.cancel(ID)
    queue.cancel("f" * 32)


def test_what_a_dead_worker_held_is_not_held(queue: JobQueue) -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    queue.submit(ID)
    job = queue.rq.fetch_job(ID)
    queue.connection.hset(job.key, mapping={"worker_name": "gone", "status": "started"})
    assert not queue.holds(ID)

    queue.connection.hset("rq:worker:gone", mapping={"hostname": os.uname().nodename, "pid": pid})
    assert not queue.holds(ID)
    queue.connection.hset("rq:worker:gone", mapping={"pid": os.getpid()})
    assert queue.holds(ID)
    queue.connection.hset("rq:worker:gone", mapping={"hostname": "elsewhere", "pid": pid})
    assert queue.holds(ID)


def test_counts_workers_that_live(queue: JobQueue) -> None:
    assert queue.workers() == 0
    for name, pid in (("a", os.getpid()), ("b", 2**22 + 1)):
        queue.connection.sadd("rq:workers:test", f"rq:worker:{name}")
        queue.connection.hset(f"rq:worker:{name}", mapping={"hostname": os.uname().nodename, "pid": pid})
    assert queue.workers() == 1
