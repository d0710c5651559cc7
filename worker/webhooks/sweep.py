"""Orders that the agenda has not, or for which it waits though their job has ended: found in the store."""

import logging
from datetime import UTC, datetime

from worker.jobs import Jobs
from worker.webhooks.agenda import Agenda
from worker.webhooks.orders import Orders

_log = logging.getLogger(__name__)
_EVERY = 10.0


def sweep(orders: Orders, jobs: Jobs, agenda: Agenda) -> None:
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
