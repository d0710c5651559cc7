import os

import pytest
from rq import Queue
from rq.job import Callback
from rq.serializers import JSONSerializer

from worker.queue.job_queue import ForeignTaskError, JobQueue, TaskJob, job_id_of
from worker.queue.lease import lease_key
from worker.records.job_record import FORMAT

ID, OTHER, THIRD = ("0" * 32, "1" * 32, "2" * 32)


def message(queue: JobQueue, message_id: str) -> TaskJob:
    return TaskJob.fetch(message_id, connection=queue.connection, serializer=JSONSerializer)


def stock(queue: JobQueue) -> Queue:
    return Queue(queue.rq.name, connection=queue.connection, serializer=JSONSerializer)


def test_submits_json_that_says_which_job(queue: JobQueue) -> None:
    queue.submit(ID)
    queue.submit(OTHER)
    queue.submit(THIRD, again=True)
    assert queue.rq.job_ids == [THIRD, ID, OTHER]
    assert queue.rq.name == f"test.{FORMAT}"
    assert job_id_of(message(queue, ID)) == ID


def test_a_foreign_message_is_neither_read_nor_run(queue: JobQueue) -> None:
    stock(queue).enqueue_call("os.getpid", job_id="foreign")
    assert job_id_of(message(queue, "foreign")) is None
    stock(queue).enqueue_call("os.getpid", job_id=ID)
    assert job_id_of(message(queue, ID)) is None
    stock(queue).enqueue_call("cyclops.job", job_id="short")
    assert job_id_of(message(queue, "short")) is None
    queue.connection.hset(TaskJob.key_for(ID), "data", b"not zlib")
    assert job_id_of(message(queue, ID)) is None
    with pytest.raises(ForeignTaskError, match="foreign"):
        message(queue, "foreign").perform()


def test_callbacks_of_a_message_are_not_run(queue: JobQueue) -> None:
    callbacks = {f"on_{event}": Callback("os.abort") for event in ("success", "failure", "stopped")}
    stock(queue).enqueue_call("os.getpid", job_id="foreign", **callbacks)
    job = message(queue, "foreign")
    assert job.success_callback is None
    assert job.failure_callback is None
    assert job.stopped_callback is None


def test_a_canceled_job_leaves_nothing(queue: JobQueue) -> None:
    queue.submit(ID)
    queue.submit(ID)
    queue.cancel(ID)
    queue.cancel("f" * 32)
    assert queue.rq.job_ids == []
    assert not queue.connection.exists(TaskJob.key_for(ID))


def test_what_neither_waits_nor_runs_is_missing(queue: JobQueue) -> None:
    assert queue.missing([]) == []
    queue.submit(ID)
    queue.connection.set(lease_key(OTHER), b"token")
    assert queue.missing([ID, OTHER, THIRD]) == [THIRD]
    assert queue.missing([ID]) == []


def test_counts_workers_that_live(queue: JobQueue) -> None:
    assert queue.workers() == 0
    for name, pid in (("a", os.getpid()), ("b", 2**22 + 1)):
        queue.connection.sadd(f"rq:workers:{queue.rq.name}", f"rq:worker:{name}")
        queue.connection.hset(f"rq:worker:{name}", mapping={"hostname": os.uname().nodename, "pid": pid})
    assert queue.workers() == 1
