"""The courier: a process that sends what is due, one in the whole service at a time.

A worker forks it when something is due and no other courier is there (``worker/webhooks/launcher.py``). It sends to
several receivers at once, and to few of one owner, so that nobody's slow receivers keep the others waiting; when
nothing has been due for a while it leaves.
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
_MARGIN = 15.0  # beyond the time of an attempt: then it is due again, as if its courier had died
_UNREADABLE = 300.0  # until a record of a later version is looked at again
_JITTER = 0.2
_NAMES = 32  # names that are resolved at once, among them those that nobody waits for any more


def run_courier(settings: Settings, queue: JobQueue) -> None:
    """Send what is due, until there is nothing more, unless another courier does.

    Args:
        settings: the settings.
        queue: over a Redis connection that fails soon where there is none.
    """
    token = secrets.token_hex(8)
    logs.bind(process="courier")
    try:
        if queue.agenda.lead(token, _LEASE):
            asyncio.run(_Dispatcher(settings, queue, token).work())
            queue.agenda.leave(token)
    except redis.RedisError as error:
        _log.warning("Redis is away: %s", error)


class _Dispatcher:
    def __init__(self, settings: Settings, queue: JobQueue, token: str) -> None:
        store = open_store(settings)
        self._settings = settings
        self._queue = queue
        self._agenda = queue.agenda
        self._token = token
        self._jobs = Jobs(store)
        self._orders = DeliveryOrders(store)
        self._names = ThreadPoolExecutor(_NAMES, thread_name_prefix="names")
        self._resolve = system_resolver(self._names)
        self._destinations = Destinations.of(settings)
        self._trusted = trusted_certificates(settings.webhook_ca_file)
        self._under_way: dict[asyncio.Task[None], str] = {}

    async def work(self) -> None:
        """Send until nothing was due for a while, or another courier leads."""
        last = time.monotonic()
        try:
            while self._agenda.lead(self._token, _LEASE) and time.monotonic() - last < _LINGER:
                self._take()
                if self._under_way:
                    last = time.monotonic()
                await asyncio.sleep(_LOOK_EVERY)
        finally:
            await asyncio.gather(*self._under_way, return_exceptions=True)
            self._names.shutdown(wait=False, cancel_futures=True)

    def _take(self) -> None:
        """Begin with what is due, as far as there is room."""
        while len(self._under_way) < _AT_ONCE:
            busy = [owner for owner, count in Counter(self._under_way.values()).items() if count >= _AT_ONCE_OF_OWNER]
            taken = self._agenda.take(self._settings.webhook_seconds + _MARGIN, busy)
            if taken is None:
                return
            order_id, owner = taken
            task = asyncio.create_task(self._attend(order_id))
            self._under_way[task] = owner
            task.add_done_callback(self._under_way.pop)

    async def _attend(self, order_id: str) -> None:
        try:
            await self._attempt(order_id)
        except (redis.RedisError, StoreUnavailableError) as error:  # it is due again in a while
            _log.warning("webhook %s: %s", order_id, error)
        except Exception:  # noqa: BLE001 - the others go on; it is due again in a while
            _log.exception("webhook %s", order_id)

    async def _attempt(self, order_id: str) -> None:
        """Send it once, and note what came of it."""
        order = await asyncio.to_thread(self._orders.get, order_id)
        if order is None:
            self._agenda.done(order_id)
            return
        try:
            job = await asyncio.to_thread(self._jobs.get, order.job)
        except KeyError:  # it was erased
            await asyncio.to_thread(self._orders.drop, order_id)
            self._agenda.done(order_id)
            return
        except pydantic.ValidationError:
            self._agenda.note(order_id, order.owner, _UNREADABLE)
            return
        if not job.ended:  # whoever ends it notes it, or the sweep does
            self._agenda.done(order_id)
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
        await self._note(order_id, order, begun, outcome)

    async def _note(self, order_id: str, order: DeliveryOrder, begun: datetime, outcome: AttemptOutcome) -> None:
        before = await asyncio.to_thread(self._orders.delivery, order_id, order)
        delivery, wait = delivery_after(before, begun, outcome, self._settings.delays)
        with logs.bound(job=order.job):
            told = outcome.status if outcome.status is not None else outcome.error
            _log.info("webhook %s, attempt %d: %s: %s", order_id, delivery.attempts, told, delivery.state)
        if await asyncio.to_thread(self._jobs.recorded, order.job):
            await asyncio.to_thread(self._orders.tell, order.job, delivery)
        else:  # it was erased meanwhile
            await asyncio.to_thread(self._orders.drop, order_id)
        result = "repeated" if delivery.state == "pending" else delivery.state
        Counters.one(WEBHOOKS, result, self._queue.name, self._queue.connection)
        with contextlib.suppress(redis.RedisError):  # the store has it
            if wait is None:
                self._agenda.done(order_id)
            else:
                self._agenda.note(order_id, order.owner, wait)


def delivery_after(
    before: Delivery, begun: datetime, outcome: AttemptOutcome, delays: list[float]
) -> tuple[Delivery, float | None]:
    """How far it is after an attempt, and the seconds until the next one, None if there is none.

    Args:
        before: how far it was.
        begun: when the attempt began.
        outcome: what came of it.
        delays: seconds after each attempt but the last.
    """
    attempts = before.attempts + 1
    told = {
        "attempts": attempts,
        "last_attempt": begun,
        "last_status": outcome.status,
        "last_error": outcome.error,
        "next_attempt": None,
    }
    if outcome.delivered:
        return before.model_copy(update={**told, "state": "delivered"}), None
    if outcome.final or attempts > len(delays):
        return before.model_copy(update={**told, "state": "failed"}), None
    wait = delays[attempts - 1] * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - so that not all come at once
    return before.model_copy(update={**told, "next_attempt": datetime.now(UTC) + timedelta(seconds=wait)}), wait
