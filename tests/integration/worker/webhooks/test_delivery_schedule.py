"""When what is sent, in a real Redis."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from worker.queue.job_queue import JobQueue
from worker.records.job_request import JobRequest
from worker.records.job_store import Jobs
from worker.storage.identifiers import new_id
from worker.storage.object_store import Store
from worker.webhooks.deliveries import Delivery, DeliveryOrders, schedule_lost_orders
from worker.webhooks.delivery_attempt import AttemptOutcome
from worker.webhooks.delivery_dispatcher import delivery_after
from worker.webhooks.targets import Webhook

SECRET = "whsec_" + "A" * 44
HOOK = Webhook(url="https://example.com/x", secret=SECRET)


@pytest.fixture
def orders(store: Store) -> DeliveryOrders:
    return DeliveryOrders(store)


def test_an_order_is_due_when_its_job_has_ended(queue: JobQueue) -> None:
    schedule = queue.schedule
    schedule.expect("a", "ann")
    assert not schedule.anything_due()
    assert schedule.take(9) is None
    schedule.job_ended("a")
    schedule.job_ended("other")  # it has none
    schedule.expect("a", "ann")
    assert schedule.anything_due()
    assert schedule.take(9) == ("a", "ann")
    assert schedule.take(9) is None
    schedule.remove("a")
    schedule.job_ended("a")
    assert schedule.take(9) is None


def soon(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def test_what_was_taken_is_due_again(queue: JobQueue) -> None:
    queue.schedule.set_due("a", "ann", 0)
    assert queue.schedule.take(60) == ("a", "ann")
    assert queue.schedule.take(60) is None
    queue.schedule.set_due("a", "ann", 0)
    assert queue.schedule.take(0.1) == ("a", "ann")
    assert soon(lambda: queue.schedule.take(0.1) == ("a", "ann"))
    queue.schedule.set_due("a", "ann", 60)
    time.sleep(0.2)
    assert queue.schedule.take(0.1) is None


def test_owners_who_have_enough_under_way_wait(queue: JobQueue) -> None:
    for number in range(5):
        queue.schedule.set_due(f"ann-{number}", "ann", -10)
    queue.schedule.set_due("bob", "bob", -1)
    assert queue.schedule.take(9, ["ann"]) == ("bob", "bob")
    assert queue.schedule.take(9, ["ann"]) is None
    assert queue.schedule.take(9, ["bob"]) == ("ann-0", "ann")


def test_one_courier_at_a_time(queue: JobQueue) -> None:
    schedule = queue.schedule
    schedule.set_due("a", "ann", 0)
    assert schedule.acquire_lock("1", 60)
    assert schedule.acquire_lock("1", 60)
    assert not schedule.acquire_lock("2", 60)
    assert not schedule.anything_due()
    schedule.release_lock("2")
    assert not schedule.acquire_lock("2", 60)
    assert schedule.acquire_lock("1", 0.1)
    assert soon(schedule.anything_due)
    assert schedule.acquire_lock("2", 9)
    schedule.release_lock("2")
    assert schedule.acquire_lock("1", 9)


def test_the_sweep_finds_what_redis_has_lost(
    store: Store, queue: JobQueue, orders: DeliveryOrders, request_: JobRequest
) -> None:
    jobs = Jobs(store, queue.index)
    going, ended, late = (jobs.create(request_, "ann") for _ in range(3))
    for job in (going, ended, late):
        assert orders.place(job, job, "ann", HOOK)
    for job in (ended, late):
        jobs.cancel(job)
    order = orders.get(late)
    assert order is not None
    later = orders.delivery(late, order).model_copy(update={"next_attempt": datetime.now(UTC) + timedelta(hours=1)})
    orders.record(late, later)
    schedule_lost_orders(orders, jobs, queue.schedule)
    assert queue.schedule.take(60) == (ended, "ann")
    assert queue.schedule.take(60) is None
    assert queue.schedule.unscheduled([late]) == []
    jobs.cancel(going)
    schedule_lost_orders(orders, jobs, queue.schedule)  # it is not its turn yet
    assert queue.schedule.take(60) is None


def test_orders_of_jobs_that_were_never_made_go_after_a_while(
    store: Store, queue: JobQueue, orders: DeliveryOrders
) -> None:
    old = f"{int((time.time() - 7200) * 1e6):014x}" + "0" * 18
    young = new_id()
    for job in (old, young):
        orders.place(job, job, "ann", HOOK)
    schedule_lost_orders(orders, Jobs(store, queue.index), queue.schedule)
    assert orders.ids() == [young]


def test_an_order_is_made_once(any_store: Store) -> None:
    store, orders = any_store, DeliveryOrders(any_store)
    assert orders.place("1", "job", "ann", HOOK)
    assert not orders.place("1", "job", "ann", HOOK)
    orders.record("job", orders.of_job("job")[0].model_copy(update={"state": "delivered"}))
    assert orders.get("1") is None
    assert not orders.place("1", "job", "ann", HOOK)
    assert orders.ids() == []
    assert [key for key in store.sizes("jobs") if SECRET.encode()[6:] in store.read(key)] == []


def test_attempts_and_their_times() -> None:
    delivery, now = Delivery(id="1", url="https://x", created=datetime.now(UTC)), datetime.now(UTC)
    delays = [5.0, 300.0]
    for number, delay in enumerate(delays, 1):
        delivery, wait = delivery_after(delivery, now, AttemptOutcome(500), delays)
        assert wait is not None
        assert 0.8 * delay <= wait <= 1.2 * delay
        assert (delivery.state, delivery.attempts, delivery.last_status) == ("pending", number, 500)
        assert delivery.next_attempt is not None
    failed, wait = delivery_after(delivery, now, AttemptOutcome(None, "timed-out"), delays)
    assert (failed.state, failed.attempts, failed.last_error, failed.next_attempt, wait) == (
        *("failed", 3, "timed-out"),
        *(None, None),
    )
    delivered, wait = delivery_after(delivery, now, AttemptOutcome(200), delays)
    assert (delivered.state, delivered.last_error, wait) == ("delivered", None, None)
    gone, wait = delivery_after(Delivery(id="1", url="https://x", created=now), now, AttemptOutcome(410), delays)
    assert (gone.state, gone.attempts, wait) == ("failed", 1, None)
    for error in ("address-refused", "port-refused"):  # that would be so for days
        never, wait = delivery_after(
            Delivery(id="1", url="https://x", created=now), now, AttemptOutcome(None, error), delays
        )
        assert (never.state, never.attempts, never.last_error, wait) == ("failed", 1, error, None)
