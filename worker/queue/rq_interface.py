"""The interfaces of RQ that its documentation does not promise: names of Redis keys, and functions.

``tests/unit/worker/queue/test_rq_interface.py`` compares them with the installed RQ.
"""

from rq.utils import as_text
from rq.utils import now as utc_now_of_rq

__all__ = ["WORKER_PREFIX", "as_text", "queue_keys", "utc_now_of_rq", "workers_key"]

WORKER_PREFIX = "rq:worker:"  # before a worker's name: the key of its hash, with `hostname`, `pid` and `state`


def queue_keys(name: str) -> tuple[str, str]:
    """Returns the keys of a queue's list of messages, and of the list of messages that a worker is taking."""
    return f"rq:queue:{name}", f"rq:queue:{name}:intermediate"


def workers_key(name: str) -> str:
    """Returns the key of the set of a queue's workers, whose members begin with ``WORKER_PREFIX``."""
    return f"rq:workers:{name}"
