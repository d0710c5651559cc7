"""Deliveries of webhooks, in the store: what is to be sent, and what came of it.

``webhooks/<id>.json`` is an order: the job, the URL and the secret. It is created before the job is recorded, and
removed, with the secret in it, once there is nothing more to be sent. ``jobs/<job>/webhooks/<id>.json`` tells, without
the secret, how far it is; whoever made an attempt replaces it. An id is that of the message, too: all attempts have
it. The one that goes with a job has the job's id. Orders that the schedule has lost are found here and scheduled again.
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
    """What is to be sent."""

    job: str
    owner: str
    url: str
    secret: str = Field(repr=False)


class Delivery(pydantic.BaseModel):
    """How far a webhook is."""

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
    """The orders of a store, of everybody."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def place(self, order_id: str, job_id: str, owner: str, webhook: Webhook) -> bool:
        """Have it sent once the job has ended; False if that was ordered before, be it done by now."""
        if self._store.exists(_told(job_id, order_id)):
            return False
        order = DeliveryOrder(job=job_id, owner=owner, url=webhook.url, secret=webhook.secret.get_secret_value())
        self._store.create(_order(order_id), order.model_dump_json().encode())
        delivery = Delivery(id=order_id, url=webhook.url, created=utc_now())
        return self._store.create(_told(job_id, order_id), delivery.model_dump_json().encode())

    def get(self, order_id: str) -> DeliveryOrder | None:
        """The order, if there is still something to be sent."""
        try:
            return DeliveryOrder.model_validate_json(self._store.read(_order(order_id)))
        except FileNotFoundError:
            return None

    def pending(self) -> list[str]:
        """The ids of all orders."""
        return [key.removeprefix(f"{FOLDER}/").removesuffix(".json") for key in self._store.keys(FOLDER)]

    def delivery(self, order_id: str, order: DeliveryOrder) -> Delivery:
        """How far it is."""
        try:
            return Delivery.model_validate_json(self._store.read(_told(order.job, order_id)))
        except FileNotFoundError:  # who made the order died before this was written
            return Delivery(id=order_id, url=order.url, created=utc_now())

    def of(self, job_id: str) -> list[Delivery]:
        """How far all are that go with a job, oldest first."""
        found = self._store.read_many(sorted(self._store.keys(_home(job_id))))
        told = [Delivery.model_validate_json(data) for data in found if data is not None]
        return sorted(told, key=lambda delivery: delivery.created)

    def tell(self, job_id: str, delivery: Delivery) -> None:
        """Tell how far it is; what will not be sent again is no order any more."""
        self._store.write(_told(job_id, delivery.id), delivery.model_dump_json().encode())
        if delivery.state != "pending":
            self.drop(delivery.id)

    def drop(self, order_id: str) -> None:
        """Have it not be sent."""
        self._store.delete(_order(order_id))

    def erase(self, job_id: str) -> None:
        """Have nothing be sent of a job that is erased."""
        for key in self._store.keys(_home(job_id)):
            self.drop(key.rsplit("/", 1)[-1].removesuffix(".json"))

    def abandoned(self, order_id: str, order: DeliveryOrder, jobs: Jobs) -> bool:
        """Whether its job is gone, or was never made."""
        return not jobs.recorded(order.job) and age(order_id) > _ABANDONED


def _order(order_id: str) -> str:
    return f"{FOLDER}/{order_id}.json"


def _home(job_id: str) -> str:
    return f"jobs/{job_id}/webhooks"


def _told(job_id: str, order_id: str) -> str:
    return f"{_home(job_id)}/{order_id}.json"


_log = logging.getLogger(__name__)
_EVERY = 10.0


def schedule_lost_orders(orders: DeliveryOrders, jobs: Jobs, agenda: DeliverySchedule) -> None:
    """Note what is to be sent and not noted, if it is time to look.

    Raises:
        redis.RedisError: Redis is away.
        StoreUnavailableError: the store is.
    """
    if not agenda.turn(_EVERY):
        return
    undated = agenda.undated(orders.pending())
    open_ids = set(jobs.open_ids()) if undated else set()
    for order_id in undated:
        if order_id in open_ids:  # most go with a job of the same id
            continue
        order = orders.get(order_id)
        if order is None or order.job in open_ids:
            continue
        if orders.abandoned(order_id, order, jobs):
            orders.drop(order_id)
        elif jobs.ended(order.job):
            _log.info("job %s has ended, and its webhook was not sent", order.job)
            following = orders.delivery(order_id, order).next_attempt
            wait = 0.0 if following is None else max(0.0, (following - datetime.now(UTC)).total_seconds())
            agenda.note(order_id, order.owner, wait)
