"""The dispatcher: a process that sends what is due, one in the whole service at a time.

A worker forks it when something is due and no other dispatcher is there (``worker/webhooks/launcher.py``). It sends to
several receivers at once, and to few of one owner, so that one owner's slow receivers do not delay others; when
nothing has been due for a while it exits.
"""

import asyncio
import contextlib
import logging
import random
import secrets
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pydantic
import redis

from worker.config.settings import Settings
from worker.queue.job_queue import JobQueue
from worker.records.job_store import Jobs
from worker.storage.connections import open_store
from worker.storage.object_store import StoreUnavailableError
from worker.telemetry import logs
from worker.telemetry.counters import WEBHOOKS, Counters
from worker.webhooks.deliveries import Delivery, DeliveryOrder, DeliveryOrders
from worker.webhooks.delivery_attempt import (
    AttemptOutcome,
    body_of,
    send_webhook,
    signed,
    system_resolver,
    trusted_certificates,
)
from worker.webhooks.targets import Destinations, parse_url

_log = logging.getLogger(__name__)
_AT_ONCE = 16
_AT_ONCE_OF_OWNER = 4
_LOOK_EVERY = 0.2
_LINGER = 5.0  # seconds without work before it leaves
_LEASE = 10.0
_MARGIN = 15.0  # beyond the time of an attempt: then it is due again, as if its dispatcher had died
_UNREADABLE = 300.0  # until a record of a later version is looked at again
_JITTER = 0.2
_NAMES = 32  # names that are resolved at once, among them those that nobody waits for any more


def run_dispatcher(settings: Settings, queue: JobQueue) -> None:
    """Sends due webhooks until none is left, unless another dispatcher holds the lock.

    Args:
        settings: the settings.
        queue: over a Redis connection that fails soon where there is none.
    """
    token = secrets.token_hex(8)
    logs.bind(process="courier")
    try:
        if queue.schedule.acquire_lock(token, _LEASE):
            asyncio.run(_Dispatcher(settings, queue, token).work())
            queue.schedule.release_lock(token)
    except redis.RedisError as error:
        _log.warning("Redis is away: %s", error)


class _Dispatcher:
    def __init__(self, settings: Settings, queue: JobQueue, token: str) -> None:
        store = open_store(settings)
        self._settings = settings
        self._queue = queue
        self._schedule = queue.schedule
        self._token = token
        self._jobs = Jobs(store)
        self._orders = DeliveryOrders(store)
        self._names = ThreadPoolExecutor(_NAMES, thread_name_prefix="names")
        self._resolve = system_resolver(self._names)
        self._destinations = Destinations.of(settings)
        self._trusted = trusted_certificates(settings.webhook_ca_file)
        self._running: dict[asyncio.Task[None], str] = {}

    async def work(self) -> None:
        """Sends until nothing was due for a while, or another dispatcher holds the lock."""
        last = time.monotonic()
        try:
            while self._schedule.acquire_lock(self._token, _LEASE) and time.monotonic() - last < _LINGER:
                self._take()
                if self._running:
                    last = time.monotonic()
                await asyncio.sleep(_LOOK_EVERY)
        finally:
            await asyncio.gather(*self._running, return_exceptions=True)
            self._names.shutdown(wait=False, cancel_futures=True)

    def _take(self) -> None:
        """Starts due attempts, up to the limits."""
        while len(self._running) < _AT_ONCE:
            busy = [owner for owner, count in Counter(self._running.values()).items() if count >= _AT_ONCE_OF_OWNER]
            taken = self._schedule.take(self._settings.webhook_seconds + _MARGIN, busy)
            if taken is None:
                return
            order_id, owner = taken
            task = asyncio.create_task(self._deliver(order_id))
            self._running[task] = owner
            task.add_done_callback(self._running.pop)

    async def _deliver(self, order_id: str) -> None:
        try:
            await self._attempt(order_id)
        except (redis.RedisError, StoreUnavailableError) as error:  # it is due again in a while
            _log.warning("webhook %s: %s", order_id, error)
        except Exception:  # noqa: BLE001 - the others go on; it is due again in a while
            _log.exception("webhook %s", order_id)

    async def _attempt(self, order_id: str) -> None:
        """Sends the webhook once, and records the outcome."""
        order = await asyncio.to_thread(self._orders.get, order_id)
        if order is None:
            self._schedule.remove(order_id)
            return
        try:
            job = await asyncio.to_thread(self._jobs.get, order.job)
        except KeyError:  # it was deleted
            await asyncio.to_thread(self._orders.remove, order_id)
            self._schedule.remove(order_id)
            return
        except pydantic.ValidationError:
            self._schedule.set_due(order_id, order.owner, _UNREADABLE)
            return
        if not job.ended:  # whoever ends it notes it, or the sweep does
            self._schedule.remove(order_id)
            return
        begun = datetime.now(UTC)
        body = body_of(job)
        outcome = await send_webhook(
            parse_url(order.url),
            signed(order_id, order.secret, body, begun),
            body,
            seconds=self._settings.webhook_seconds,
            trusted=self._trusted,
            resolve=self._resolve,
            destinations=self._destinations,
        )
        await self._record_outcome(order_id, order, begun, outcome)

    async def _record_outcome(
        self, order_id: str, order: DeliveryOrder, begun: datetime, outcome: AttemptOutcome
    ) -> None:
        before = await asyncio.to_thread(self._orders.delivery, order_id, order)
        delivery, wait = delivery_after(before, begun, outcome, self._settings.delays)
        with logs.bound(job=order.job):
            result = outcome.status if outcome.status is not None else outcome.error
            _log.info("webhook %s, attempt %d: %s: %s", order_id, delivery.attempts, result, delivery.state)
        if await asyncio.to_thread(self._jobs.recorded, order.job):
            await asyncio.to_thread(self._orders.record, order.job, delivery)
        else:  # it was deleted meanwhile
            await asyncio.to_thread(self._orders.remove, order_id)
        label = "repeated" if delivery.state == "pending" else delivery.state
        Counters.one(WEBHOOKS, label, self._queue.name, self._queue.connection)
        with contextlib.suppress(redis.RedisError):  # the store has it
            if wait is None:
                self._schedule.remove(order_id)
            else:
                self._schedule.set_due(order_id, order.owner, wait)


def delivery_after(
    before: Delivery, begun: datetime, outcome: AttemptOutcome, delays: list[float]
) -> tuple[Delivery, float | None]:
    """Returns the delivery after an attempt, and the seconds until the next attempt, None if there is none.

    Args:
        before: the delivery before the attempt.
        begun: when the attempt began.
        outcome: the outcome of the attempt.
        delays: seconds after each attempt but the last.
    """
    attempts = before.attempts + 1
    changes = {
        "attempts": attempts,
        "last_attempt": begun,
        "last_status": outcome.status,
        "last_error": outcome.error,
        "next_attempt": None,
    }
    if outcome.delivered:
        return before.model_copy(update={**changes, "state": "delivered"}), None
    if outcome.final or attempts > len(delays):
        return before.model_copy(update={**changes, "state": "failed"}), None
    wait = delays[attempts - 1] * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - so that not all come at once
    return before.model_copy(update={**changes, "next_attempt": datetime.now(UTC) + timedelta(seconds=wait)}), wait
