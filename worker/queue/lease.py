"""The lease of a running job: a Redis key with a lifetime of ten seconds, held by the process that runs the job.

The key is written every two seconds, so that it returns soon after a Redis that lost its data, and expires soon after a
process that died on any host. It does not guarantee that one process alone runs a job: where Redis is away a job runs
without it. The store guarantees that a job ends once, with the files of one attempt.
"""

import contextlib
import contextvars
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from typing import Self

import redis

_SECONDS = 10
_RENEW_EVERY = 2.0
_LOOK_EVERY = 0.2
_LOOK_AT_RECORD_EVERY = 1.0
_STOP_SECONDS = 60
_RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1], KEYS[2]) end"
_log = logging.getLogger(__name__)


def lease_key(job_id: str) -> str:
    """Returns the key of a job's lease."""
    return f"cyclops:lease:{job_id}"


def release_lease(connection: redis.Redis, job_id: str, token: str) -> None:
    """Releases the job's lease if the token holds it.

    Raises:
        redis.RedisError: Redis is away.
    """
    connection.eval(_RELEASE, 2, lease_key(job_id), _stop_key(job_id), token)


def request_stop(connection: redis.Redis, job_id: str) -> None:
    """Makes the holder of the job's lease look at the job's end.

    Raises:
        redis.RedisError: Redis is away.
    """
    connection.set(_stop_key(job_id), b"", ex=_STOP_SECONDS)


def _stop_key(job_id: str) -> str:
    return f"cyclops:stop:{job_id}"


@contextlib.contextmanager
def hold_lease_briefly(connection: redis.Redis, job_id: str) -> Iterator[bool]:
    """Tries to hold the job's lease inside the context, so that no attempt begins; yields whether it succeeded.

    Raises:
        redis.RedisError: Redis is away.
    """
    token = secrets.token_hex(8)
    held = bool(connection.set(lease_key(job_id), token, nx=True, ex=_SECONDS))
    try:
        yield held
    finally:
        if held:
            release_lease(connection, job_id, token)


class Lease:
    """A job's lease, renewed by one thread inside the context; a second thread looks for the job's end.

    The threads are separate because the store may hang, and the lease must not expire for that.

    Args:
        connection: a Redis that fails soon where there is none.
        job_id: the job.
        token: identifies this process.
        ended: returns whether the job's record has its end.
    """

    def __init__(self, connection: redis.Redis, job_id: str, token: str, ended: Callable[[], bool]) -> None:
        self._connection = connection
        self._job_id = job_id
        self._token = token
        self._ended = ended
        self._closed = threading.Event()
        self._stopped = threading.Event()
        # it logs as who started it
        run = contextvars.copy_context().run
        self._look_now = threading.Event()
        self._thread = threading.Thread(target=run, args=(self._renew,), name="lease", daemon=True)
        run = contextvars.copy_context().run
        self._record_thread = threading.Thread(target=run, args=(self._monitor_record,), name="record", daemon=True)

    def acquire(self) -> bool:
        """Acquires the lease; returns False if another process holds it, and True where Redis is away."""
        key = lease_key(self._job_id)
        try:
            # where the answer got lost and the question was asked again, the key is there and ours
            return bool(self._connection.set(key, self._token, nx=True, ex=_SECONDS)) or self._is_ours()
        except redis.RedisError as error:
            _log.warning("job %s runs without a lease: %s", self._job_id, error)
            return True

    def _is_ours(self) -> bool:
        return self._connection.get(lease_key(self._job_id)) == self._token.encode()

    def stopped(self) -> bool:
        """Returns whether the job has been ended elsewhere."""
        return self._stopped.is_set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._record_thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._look_now.set()
        self._thread.join()
        with contextlib.suppress(redis.RedisError):  # it ends by itself
            release_lease(self._connection, self._job_id, self._token)

    def _renew(self) -> None:
        renewed = time.monotonic()
        while not self._closed.wait(_LOOK_EVERY) and not self._stopped.is_set():
            try:
                if self._connection.exists(_stop_key(self._job_id)):
                    self._look_now.set()
                if time.monotonic() - renewed >= _RENEW_EVERY:
                    self._connection.set(lease_key(self._job_id), self._token, ex=_SECONDS)
                    renewed = time.monotonic()
            except redis.RedisError:
                pass

    def _monitor_record(self) -> None:
        while not self._stopped.is_set():
            # the record is what counts; a message only says when to look
            self._look_now.wait(_LOOK_AT_RECORD_EVERY)
            self._look_now.clear()
            if self._closed.is_set():
                return
            self._look()

    def _look(self) -> None:
        try:
            if self._ended():
                self._stopped.set()
        except Exception:  # noqa: BLE001 - the store may be away, in whatever way its library says so
            _log.warning("the record of job %s cannot be read", self._job_id, exc_info=True)
