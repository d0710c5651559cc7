"""Deliveries of webhooks in the store: pending orders, and the state of each delivery.

``webhooks/<id>.json`` is an order: the job, the URL and the secret. It is created before the job is recorded, and
removed, with the secret in it, once nothing more is to be sent. ``jobs/<job>/webhooks/<id>.json`` has, without the
secret, the state of the delivery, and is replaced after each attempt. An id is that of the message, too: all attempts
have it. The one that goes with a job has the job's id. Orders that the schedule has lost are found here and scheduled
again.
"""

import logging
from datetime import UTC, datetime
from typing import Literal

import pydantic
from pydantic import Field

from worker.queue.delivery_schedule import DeliverySchedule
from worker.records.job_store import Jobs
from worker.storage.identifiers import age, utc_now
from worker.storage.object_store import Store
from worker.webhooks.targets import Webhook

FOLDER = "webhooks"
_ABANDONED = 3600.0  # an order whose job is not recorded after so many seconds: who made it died


class DeliveryOrder(pydantic.BaseModel):
    """A webhook to be sent."""

    job: str
    owner: str
    url: str
    secret: str = Field(repr=False)


class Delivery(pydantic.BaseModel):
    """The state of a webhook's delivery."""

    id: str = Field(description="the header `webhook-id` of all its attempts")
    url: str
    state: Literal["pending", "delivered", "failed"] = Field(
        "pending", description="`delivered`: it was answered with 2xx; `failed`: it was given up"
    )
    created: datetime
    attempts: int = Field(0, description="how often it was sent, or tried to")
    last_attempt: datetime | None = None
    last_status: int | None = Field(None, description="of the answer to the last attempt, if there was one")
    last_error: str | None = Field(
        None,
        description="why there was none: `address-refused` (it is not public), `port-refused`, "
        "`name-not-resolved`, `connection-failed`, `tls-failed`, `timed-out` or `no-answer`",
    )
    next_attempt: datetime | None = Field(None, description="when it is sent again; null if it is not, or at once")


class DeliveryOrders:
    """The orders of a store, of all owners."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def place(self, order_id: str, job_id: str, owner: str, webhook: Webhook) -> bool:
        """Places an order to send a webhook when the job ends; returns False if it was placed before."""
        if self._store.exists(_delivery_key(job_id, order_id)):
            return False
        order = DeliveryOrder(job=job_id, owner=owner, url=webhook.url, secret=webhook.secret.get_secret_value())
        self._store.create(_order_key(order_id), order.model_dump_json().encode())
        delivery = Delivery(id=order_id, url=webhook.url, created=utc_now())
        return self._store.create(_delivery_key(job_id, order_id), delivery.model_dump_json().encode())

    def get(self, order_id: str) -> DeliveryOrder | None:
        """Returns the order; None if nothing more is to be sent."""
        try:
            return DeliveryOrder.model_validate_json(self._store.read(_order_key(order_id)))
        except FileNotFoundError:
            return None

    def ids(self) -> list[str]:
        """Returns the ids of all orders."""
        return [key.removeprefix(f"{FOLDER}/").removesuffix(".json") for key in self._store.keys(FOLDER)]

    def delivery(self, order_id: str, order: DeliveryOrder) -> Delivery:
        """Returns the state of the delivery."""
        try:
            return Delivery.model_validate_json(self._store.read(_delivery_key(order.job, order_id)))
        except FileNotFoundError:  # who made the order died before this was written
            return Delivery(id=order_id, url=order.url, created=utc_now())

    def of_job(self, job_id: str) -> list[Delivery]:
        """Returns the deliveries of a job, oldest first."""
        found = self._store.read_many(sorted(self._store.keys(_home(job_id))))
        deliveries = [Delivery.model_validate_json(data) for data in found if data is not None]
        return sorted(deliveries, key=lambda delivery: delivery.created)

    def record(self, job_id: str, delivery: Delivery) -> None:
        """Records the state of a delivery, and removes its order if it is final."""
        self._store.write(_delivery_key(job_id, delivery.id), delivery.model_dump_json().encode())
        if delivery.state != "pending":
            self.remove(delivery.id)

    def remove(self, order_id: str) -> None:
        """Removes the order."""
        self._store.delete(_order_key(order_id))

    def remove_of_job(self, job_id: str) -> None:
        """Removes the orders of a job that is being deleted."""
        for key in self._store.keys(_home(job_id)):
            self.remove(key.rsplit("/", 1)[-1].removesuffix(".json"))

    def is_abandoned(self, order_id: str, order: DeliveryOrder, jobs: Jobs) -> bool:
        """Returns whether the order's job has been deleted or was never recorded."""
        return not jobs.recorded(order.job) and age(order_id) > _ABANDONED


def _order_key(order_id: str) -> str:
    return f"{FOLDER}/{order_id}.json"


def _home(job_id: str) -> str:
    return f"jobs/{job_id}/webhooks"


def _delivery_key(job_id: str, order_id: str) -> str:
    return f"{_home(job_id)}/{order_id}.json"


_log = logging.getLogger(__name__)
_EVERY = 10.0


def schedule_lost_orders(orders: DeliveryOrders, jobs: Jobs, schedule: DeliverySchedule) -> None:
    """Schedules the due orders that the schedule has lost; at most every ten seconds.

    Raises:
        redis.RedisError: Redis is away.
        StoreUnavailableError: the store is away.
    """
    if not schedule.may_scan(_EVERY):
        return
    undated = schedule.unscheduled(orders.ids())
    open_ids = set(jobs.open_ids()) if undated else set()
    for order_id in undated:
        if order_id in open_ids:  # most go with a job of the same id
            continue
        order = orders.get(order_id)
        if order is None or order.job in open_ids:
            continue
        if orders.is_abandoned(order_id, order, jobs):
            orders.remove(order_id)
        elif jobs.ended(order.job):
            _log.info("job %s has ended, and its webhook was not sent", order.job)
            following = orders.delivery(order_id, order).next_attempt
            wait = 0.0 if following is None else max(0.0, (following - datetime.now(UTC)).total_seconds())
            schedule.set_due(order_id, order.owner, wait)
