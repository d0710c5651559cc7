"""Connections: the store and the Redis that the settings name."""

from pathlib import Path
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from worker.config.connection_settings import ConnectionSettings, read_secret
from worker.storage.object_store import Store
from worker.storage.redis_server import connect
from worker.storage.s3_bucket import BucketAccess, open_bucket

# a job is worth a wait, be it for a bucket that starts anew
_WORKER_RETRY_SECONDS = 30.0


def open_store(settings: ConnectionSettings, *, retry_seconds: float = _WORKER_RETRY_SECONDS) -> Store:
    """Returns the store. Requests to an unavailable bucket fail after ``retry_seconds``; those to a folder at once.

    It sends nothing, and may be called before a fork.

    Raises:
        SecretFileError: the file of the secret cannot be read.
        OSError: the file of certificates cannot be read, or the folder cannot be made.
    """
    if settings.store_url is None:
        return Store(settings.store_dir)
    access = BucketAccess(
        url=settings.store_url,
        endpoint=settings.store_endpoint,
        region=settings.store_region,
        path_style=settings.store_path_style,
        access_key_id=settings.store_access_key_id,
        secret_access_key=read_secret(settings.store_secret_access_key, settings.store_secret_access_key_file),
        ca_file=settings.store_ca_file,
    )
    return Store(open_bucket(access, retry_seconds))


def open_redis(settings: ConnectionSettings, *, retries: int = 8, timeout: float | None = None) -> redis.Redis:
    """Returns a connection to ``settings.redis_url``, which is set; see :func:`worker.storage.redis_server.connect`.

    Raises:
        SecretFileError: the file of the password cannot be read.
        OSError: a file of certificates cannot be read.
    """
    assert settings.redis_url is not None
    return connect(settings.redis_url, retries=retries, timeout=timeout, **_redis_options(settings))


def open_async_redis(settings: ConnectionSettings, *, timeout: float | None) -> redis.asyncio.Redis:
    """Returns a connection for an event loop; commands are tried twice. ``timeout``: seconds, None for no limit."""
    assert settings.redis_url is not None
    return redis.asyncio.Redis.from_url(
        settings.redis_url,
        retry=Retry(NoBackoff(), 1),  # the connection may be one to a Redis that has been started again
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        **_redis_options(settings),
    )


def _redis_options(settings: ConnectionSettings) -> dict[str, Any]:
    """Returns the options that the URL does not contain."""
    options: dict[str, Any] = {
        "username": settings.redis_user,
        "password": read_secret(settings.redis_password, settings.redis_password_file),
    }
    if str(settings.redis_url).startswith("rediss:"):
        options |= {
            "ssl_ca_certs": _path(settings.redis_ca_file),
            "ssl_certfile": _path(settings.redis_certificate_file),
            "ssl_keyfile": _path(settings.redis_key_file),
        }
    return {name: value for name, value in options.items() if value is not None}


def _path(path: Path | None) -> str | None:
    """Returns the file's path after opening it: the client would only report a failed connection."""
    if path is None:
        return None
    path.open("rb").close()
    return str(path)
