"""The lease of a running job: a key in Redis, for ten seconds at a time, that says that a process runs it.

The key is written anew every two seconds, so that it is there again soon after a Redis that forgot everything, and gone
soon after a process that died, wherever that was. It is not what keeps two processes from running a job: where Redis is
away a job runs without it. That a job ends once, with the files of one attempt, is the store's affair.
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
    """The key of a job's lease."""
    return f"cyclops:lease:{job_id}"


def release_lease(connection: redis.Redis, job_id: str, token: str) -> None:
    """Give the job's lease back, if it is that of the token; redis.RedisError if Redis is away."""
    connection.eval(_RELEASE, 2, lease_key(job_id), _stop_key(job_id), token)


def request_stop(connection: redis.Redis, job_id: str) -> None:
    """Have whoever holds the job's lease see that it has ended; redis.RedisError if Redis is away."""
    connection.set(_stop_key(job_id), b"", ex=_STOP_SECONDS)


def _stop_key(job_id: str) -> str:
    return f"cyclops:stop:{job_id}"


@contextlib.contextmanager
def hold_lease_briefly(connection: redis.Redis, job_id: str) -> Iterator[bool]:
    """Hold the job's lease inside the context, so that no attempt begins; gives whether nobody else has it.

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
    """A job's lease, renewed by a thread while the context lasts; another one looks whether the job is ended elsewhere.

    They are two, as the store may hang and the lease must not end for that.

    Args:
        connection: a Redis that fails soon where there is none.
        job_id: the job.
        token: of this process.
        ended: whether the job's record has its end.
    """

    def __init__(self, connection: redis.Redis, job_id: str, token: str, ended: Callable[[], bool]) -> None:
        self._connection = connection
        self._job_id = job_id
        self._token = token
        self._ended = ended
        self._left = threading.Event()
        self._stopped = threading.Event()
        # it logs as who started it
        run = contextvars.copy_context().run
        self._told = threading.Event()
        self._thread = threading.Thread(target=run, args=(self._keep,), name="lease", daemon=True)
        run = contextvars.copy_context().run
        self._looker = threading.Thread(target=run, args=(self._watch_record,), name="record", daemon=True)

    def take(self) -> bool:
        """Whether nobody else has it; also where Redis cannot be asked."""
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
        """Whether the job has been ended elsewhere."""
        return self._stopped.is_set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._looker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._told.set()
        self._thread.join()
        with contextlib.suppress(redis.RedisError):  # it ends by itself
            release_lease(self._connection, self._job_id, self._token)

    def _keep(self) -> None:
        renewed = time.monotonic()
        while not self._left.wait(_LOOK_EVERY) and not self._stopped.is_set():
            try:
                if self._connection.exists(_stop_key(self._job_id)):
                    self._told.set()
                if time.monotonic() - renewed >= _RENEW_EVERY:
                    self._connection.set(lease_key(self._job_id), self._token, ex=_SECONDS)
                    renewed = time.monotonic()
            except redis.RedisError:
                pass

    def _watch_record(self) -> None:
        while not self._stopped.is_set():
            # the record is what counts; a message only says when to look
            self._told.wait(_LOOK_AT_RECORD_EVERY)
            self._told.clear()
            if self._left.is_set():
                return
            self._look()

    def _look(self) -> None:
        try:
            if self._ended():
                self._stopped.set()
        except Exception:  # noqa: BLE001 - the store may be away, in whatever way its library says so
            _log.warning("the record of job %s cannot be read", self._job_id, exc_info=True)
