"""What is used of RQ without a promise of its documentation is there, and means what it is taken for."""

import redis
from rq import Queue, Worker, worker_registration

from worker.queue.rq_interface import WORKER_PREFIX, queue_keys, workers_key
from worker.runner.rq_worker import JobWorker

# members of RQ's worker that ours overrides: under another name RQ would not call them
OVERRIDDEN = (
    "max_connection_wait_time",
    "execute_job",
    "horse_pid",
    "run_maintenance_tasks",
    "clean_registries",
    "heartbeat",
    "set_state",
    "check_for_suspension",
    "set_shutdown_requested_date",
    "subscribe",
    "unsubscribe",
    "teardown",
)


def test_the_keys_of_a_queue_and_its_workers() -> None:
    queue = Queue("some.2", connection=redis.Redis())  # which connects with the first command
    assert queue_keys("some.2") == (queue.key, queue.intermediate_queue_key)
    assert workers_key("some.2") == worker_registration.WORKERS_BY_QUEUE_KEY % "some.2"
    assert Worker.redis_worker_namespace_prefix == WORKER_PREFIX


def test_rq_has_every_member_that_the_worker_overrides() -> None:
    assert [name for name in OVERRIDDEN if not hasattr(Worker, name)] == []
    own = {name for name in vars(JobWorker) if hasattr(Worker, name) and not name.startswith("__")}
    assert own == {*OVERRIDDEN, "job_class"}
